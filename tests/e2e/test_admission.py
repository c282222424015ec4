"""`lbcf admission` before a real API server: what is stored, what is refused, and when.

The webhook configuration is the one that is shipped; only where the API server calls is
another one, since no Service leads to this process.
"""

import json
import re

from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from prometheus_client.parser import text_string_to_metric_families

from lbcf.admission.objects import WEBHOOK_CONFIGURATIONS
from lbcf.core.model.values import ObjectKey
from lbcf.kube.errors import Forbidden, Invalid, KubeError
from tests.e2e import objects
from tests.e2e.stage import Stage
from tests.lab.cluster.errors import KubectlError
from tests.lab.cluster.ports import free_ports
from tests.monitoring.queries import series_of
from tests.monitoring.test_rules import rules


pytestmark = pytest.mark.cluster

SHIPPED = Path(__file__).parents[2] / "manifests" / "webhook" / "configuration.yaml"


@attrs.frozen
class Guard:
    """The webhook in front of a stage's namespace."""

    stage: Stage
    name: str
    url: str

    def apply(self, **changes: object) -> None:
        """Install it as it is shipped, for this namespace alone."""
        document = yaml.safe_load(SHIPPED.read_text())
        document["metadata"]["name"] = self.name
        own = {"kubernetes.io/metadata.name": self.stage.namespace}
        document["webhooks"][0].update(
            clientConfig={"url": self.url},
            namespaceSelector={"matchLabels": own},
            **changes,
        )
        self.stage.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(document))

    async def start(self, *flags: str) -> None:
        """Start the process, and wait until it can be called."""
        address = self.url.removeprefix("https://").partition("/")[0]
        process = await self.stage.start(
            "admission",
            *("--bind-address", address, "--tls-host", "127.0.0.1"),
            *("--webhook-configuration", self.name),
            *flags,
        )
        await self.stage.until_logged(process, "webhook.serving")

    async def until_asked(self) -> None:
        """Wait until the API server has taken in the configuration."""
        trial = objects.a_load_balancer("trial")
        trial["spec"]["attributes"] = {"refuse": "trial"}

        async def refused() -> bool:
            try:
                await self.stage.create(objects.LOAD_BALANCERS, trial)
            except Invalid as error:
                return "trial" in str(error)
            await self.stage.delete(objects.LOAD_BALANCERS, "trial")
            return False

        await self.stage.until("the webhook is asked", refused)


@pytest.fixture(name="guard")
async def _guard(bare: Stage) -> AsyncIterator[Guard]:
    """The webhook installed and running, before a driver that can refuse."""
    guard = Guard(
        bare,
        f"{bare.namespace}.lbcf.tkestack.io",
        f"https://127.0.0.1:{free_ports(1)[0]}/validate",
    )
    guard.apply()
    try:
        await bare.start_driver()
        await bare.create(objects.DRIVERS, objects.a_driver(bare.driver_url))
        await guard.start()
        await guard.until_asked()
        yield guard
    finally:
        await bare.client.delete(WEBHOOK_CONFIGURATIONS, ObjectKey("", guard.name))


def _load_balancer(**spec: Any) -> dict[str, Any]:
    """A load balancer with more in its spec."""
    found = objects.a_load_balancer()
    return {**found, "spec": {**found["spec"], **spec}}


async def _refusal(
    stage: Stage, kind: Any, body: Mapping[str, Any], error: type[KubeError] = Invalid
) -> str:
    """Say why an object is refused."""
    with pytest.raises(error) as caught:
        await stage.create(kind, body)
    return str(caught.value)


async def test_driver_sees_load_balancers_before_they_are_stored(guard: Guard) -> None:
    """What it refuses is refused in its words, at the create and at every change."""
    stage = guard.stage
    body = _load_balancer(attributes={"refuse": "no such region"})
    told = await _refusal(stage, objects.LOAD_BALANCERS, body)
    assert "no such region" in told
    assert f"driver {stage.namespace}/memory refuses" in told

    await stage.create(objects.LOAD_BALANCERS, objects.a_load_balancer())
    change = {"spec": {"attributes": {"refuse": "too wide"}}}
    with pytest.raises(Invalid, match="too wide"):
        await stage.patch(objects.LOAD_BALANCERS, "front", change)
    fine = {"spec": {"attributes": {"width": "7"}}}
    await stage.patch(objects.LOAD_BALANCERS, "front", fine)


async def test_driver_sees_parameters_of_groups(guard: Guard) -> None:
    """At the create and at a change of parameters; what is to come is waited for."""
    stage = guard.stage
    await stage.create(objects.GROUPS, objects.a_group("early"))
    await stage.create(objects.LOAD_BALANCERS, objects.a_load_balancer("b", "later"))
    await stage.create(objects.LOAD_BALANCERS, objects.a_load_balancer())
    refused = {"refuse": "weight 900"}
    told = await _refusal(stage, objects.GROUPS, objects.a_group(parameters=refused))
    assert f"LoadBalancer {stage.namespace}/front" in told
    assert "weight 900" in told

    await stage.create(objects.GROUPS, objects.a_group())
    with pytest.raises(Invalid, match="weight 900"):
        await stage.patch(objects.GROUPS, "web", {"spec": {"parameters": refused}})


async def test_drivers_see_both_halves_of_a_bind(guard: Guard) -> None:
    """The attributes of its load balancers and the parameters of its backends."""
    stage = guard.stage
    wide = objects.an_entry("front", refuse="too wide")
    told = await _refusal(
        stage,
        objects.BINDS,
        objects.a_bind("both", wide, parameters={"refuse": "too heavy"}),
    )
    assert "too wide" in told
    await stage.create(objects.BINDS, objects.a_bind())
    heavy = {"spec": {"parameters": {"refuse": "too heavy"}}}
    with pytest.raises(Invalid, match="too heavy"):
        await stage.patch(objects.BINDS, "both", heavy)


async def test_group_keeps_out_of_load_balancers_of_others(guard: Guard) -> None:
    """A shared load balancer whose scope leaves the namespace out is forbidden."""
    stage = guard.stage
    shared = f"lbcf-{stage.namespace}"
    system = ObjectKey("kube-system", shared)
    body = {
        "metadata": {"name": shared},
        "spec": {"lbDriver": shared, "scope": ["elsewhere"]},
    }
    await stage.client.create(objects.LOAD_BALANCERS, "kube-system", body)
    try:
        group = objects.a_group(lbs=(shared,))
        told = await _refusal(stage, objects.GROUPS, group, Forbidden)
        assert "spec.scope" in told
    finally:
        await stage.client.delete(objects.LOAD_BALANCERS, system)


async def test_group_keeps_out_of_load_balancers_that_end(guard: Guard) -> None:
    """One that is being deleted takes no new group; what is there may change."""
    stage = guard.stage
    held = objects.a_load_balancer()
    held["metadata"]["finalizers"] = ["example.com/held"]
    await stage.create(objects.LOAD_BALANCERS, held)
    await stage.create(objects.GROUPS, objects.a_group())
    await stage.delete(objects.LOAD_BALANCERS, "front")
    try:
        late = objects.a_group("late")
        told = await _refusal(stage, objects.GROUPS, late, Forbidden)
        assert f"LoadBalancer {stage.namespace}/front is being deleted" in told
        lighter = {"spec": {"parameters": {"weight": "1"}}}
        await stage.patch(objects.GROUPS, "web", lighter)
    finally:
        free = {"metadata": {"finalizers": None}}
        await stage.patch(objects.LOAD_BALANCERS, "front", free)


async def test_draining_driver_takes_nothing_new(guard: Guard) -> None:
    """Its load balancers may still be changed."""
    stage = guard.stage
    await stage.create(objects.LOAD_BALANCERS, objects.a_load_balancer())
    label = {"metadata": {"labels": {"lbcf.tkestack.io/driver-draining": "true"}}}
    await stage.patch(objects.DRIVERS, "memory", label)

    another = objects.a_load_balancer("another")
    told = await _refusal(stage, objects.LOAD_BALANCERS, another, Forbidden)
    assert "is draining" in told
    fine = {"spec": {"attributes": {"width": "7"}}}
    await stage.patch(objects.LOAD_BALANCERS, "front", fine)


async def test_silent_driver_refuses_or_not_as_the_policy_says(guard: Guard) -> None:
    """Fail is an outage (503), which says what to do; Ignore stores."""
    stage = guard.stage
    await stage.processes["driver"].end()
    with pytest.raises(KubeError) as caught:
        await stage.create(objects.LOAD_BALANCERS, objects.a_load_balancer())
    told = str(caught.value)
    assert "cannot connect" in told
    assert "Try again when the driver answers" in told
    # 422 would tell who applies it that the object is wrong: GitOps gives up then.
    outage = (HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable")
    assert outage == (caught.value.status, caught.value.reason)

    await stage.processes["admission"].end()
    await guard.start("--driver-failure-policy", "Ignore")
    await stage.create(objects.LOAD_BALANCERS, objects.a_load_balancer())


async def test_api_server_counts_what_it_could_not_ask_about(guard: Guard) -> None:
    """As `LbcfAdmissionNotReached` asks for it; no refusal by a driver is among it."""
    stage = guard.stage
    body = _load_balancer(attributes={"refuse": "no such region"})
    await _refusal(stage, objects.LOAD_BALANCERS, body)
    before = _not_reached(stage)
    await _refusal(stage, objects.LOAD_BALANCERS, body)
    assert before == _not_reached(stage)

    await stage.processes["admission"].end()
    await _refusal(stage, objects.LOAD_BALANCERS, body, KubeError)
    assert before < _not_reached(stage)


def _not_reached(stage: Stage) -> float:
    """Read the API server's own count of what the alert looks at."""
    expression = rules()["LbcfAdmissionNotReached"]["expr"]
    [(metric, _)] = series_of(expression)
    wanted = dict(re.findall(r'(\w+)="([^"]+)"', expression))
    page = stage.cluster.kubectl("get", "--raw", "/metrics")
    return sum(
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if family.name == metric and wanted.items() <= sample.labels.items()
    )


async def test_dry_run_asks_only_drivers_that_take_it(guard: Guard) -> None:
    """One that does not declare acceptDryRunCall is not called at all."""
    stage = guard.stage
    refused = _load_balancer(attributes={"refuse": "never"})
    text = json.dumps(
        {"apiVersion": "lbcf.tkestack.io/v1beta1", "kind": "LoadBalancer", **refused}
    )
    dry = ("create", "--dry-run=server", "-n", stage.namespace, "-f", "-")
    assert "created (server dry run)" in stage.cluster.kubectl(*dry, stdin=text)

    await stage.patch(objects.DRIVERS, "memory", {"spec": {"acceptDryRunCall": True}})
    with pytest.raises(KubectlError, match="never"):
        stage.cluster.kubectl(*dry, stdin=text)


async def test_deletion_needs_no_webhook(guard: Guard) -> None:
    """With nobody to answer and failurePolicy Fail, what there is can still go."""
    stage = guard.stage
    await stage.start("controller")
    await stage.create(objects.LOAD_BALANCERS, objects.a_load_balancer())
    await stage.create(objects.GROUPS, objects.a_group())

    async def created() -> bool:
        found = await stage.get(objects.LOAD_BALANCERS, "front")
        return found is not None and bool(found.meta.finalizers)

    await stage.until("the finalizer is on", created)
    await stage.processes["admission"].end()
    told = await _refusal(
        stage, objects.LOAD_BALANCERS, objects.a_load_balancer("new"), KubeError
    )
    assert "failed calling webhook" in told
    await stage.delete(objects.GROUPS, "web")
    await stage.delete(objects.LOAD_BALANCERS, "front")

    async def gone() -> bool:
        return await stage.get(objects.LOAD_BALANCERS, "front") is None

    await stage.until("the load balancer is gone", gone)
