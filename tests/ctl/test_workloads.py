"""A workload's pods in numbers, and the reasons of those that are not in."""

import msgspec
import pytest

from lbcf.core.model import conditions
from lbcf.core.reasons import Reason
from lbcf.ctl.errors import CtlError
from lbcf.ctl.flags import Kind
from lbcf.ctl.workloads import WORKLOADS, Workload, parse_workload, why_workload
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import PODS
from tests.builders import a_backend, a_group, a_pod, a_record, a_spec
from tests.controller.views import Thing
from tests.ctl.readings import NOW, a_reading, bare_reading, line_facts, text_of
from tests.ctl.servers import Guarded, put, run_command
from tests.ctl.test_records import a_status
from tests.e2e import objects
from tests.kube.tiny_api import TinyApi


WEB = {
    "metadata": {"name": "web"},
    "spec": {
        "selector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}],
        }
    },
}


OWN = {"name": "web", "namespace": "shop", "uid": "w", "resourceVersion": "1"}


def a_workload() -> Workload:
    """Make the deployment `web`."""
    return parse_workload(msgspec.json.encode({**WEB, "metadata": OWN}))


def told_of(*things: Thing) -> str:
    """Report on the deployment `web` among the everyday objects and these."""
    reading = a_reading(*things)
    return text_of(why_workload(reading, Kind.DEPLOYMENT, a_workload(), NOW))


def test_pods_are_counted_and_those_that_are_not_in_are_explained() -> None:
    """One is in, one is leaving, one is refused, one is not ready, one is another's."""
    refused = a_status(conditions.REGISTERED, Reason.DRIVER_NOT_TRUSTED)
    told = told_of(
        *(a_pod(f"web-{n}", address=f"10.0.0.{n}") for n in (1, 2, 3)),
        a_pod("web-4", address="10.0.0.4", ready=False),
        a_pod("other-5", labels={"app": "web", "tier": "back"}),
        a_record("r1", registered=True, spec=a_spec(backend=a_backend("web-1"))),
        a_record("r2", deleting=True, spec=a_spec(backend=a_backend("web-2"))),
        a_record("r3", status=refused, spec=a_spec(backend=a_backend("web-3"))),
    )
    lines = told.splitlines()

    ill = "1 record is in trouble: because"
    assert "deployment/web in namespace shop" == lines[0]
    assert f"1 of 4 pods are registered; {ill}" == lines[1]
    assert "ok    1          registered at every load balancer" in told
    assert "wait  1          on their way out\n" in told
    assert "NO    2          not registered, or not everywhere\n" in told
    assert "groups     bg/web\n" in told
    assert "records    1 registered, 1 not yet, 1 on their way out\n" in told
    assert "NO    pod/web-3  DriverNotTrusted: because" in told
    assert "to do: its certificate" in told
    assert "NO    pod/web-4  PodNotReady: pod web-4 is not ready\n" in told
    assert "pod/web-1" not in told
    assert "other-5" not in told


def test_no_more_than_ten_are_explained() -> None:
    """The others are counted."""
    told = told_of(*(a_pod(f"web-{n}", ready=False) for n in range(12)))

    assert 10 == told.count("PodNotReady")
    assert "not shown   2 more\n" in told


def test_workload_that_no_group_means_is_told_so_once() -> None:
    """Not once for each pod."""
    reading = bare_reading(a_pod("web-1"), a_pod("web-2"))
    report = why_workload(reading, Kind.DEPLOYMENT, a_workload(), NOW)

    assert "its pods are meant by no group and no Bind" == report.headline
    assert ("NO", "2", "") in line_facts(report)
    assert 2 == len(report.sections)


def test_workload_without_pods_is_told_so() -> None:
    """Nothing can be registered."""
    assert "\nit has no pods\n" in told_of(a_group(version=2))


@pytest.mark.parametrize(
    "words", [("deploy/web",), ("deployment", "web"), ("sts/web",), ("ds", "web")]
)
async def test_workload_is_asked_about_as_kubectl_calls_it(words: list[str]) -> None:
    """Each kind is read from its own place."""
    api = TinyApi()
    for resource in WORKLOADS.values():
        put(api, resource, WEB)
    pod = objects.a_pod("web-1")
    put(api, PODS, {**pod, **objects.pod_status("10.0.0.1")})
    _, [report] = await run_command(KubeClient(api), "why", *words)

    assert "its pods are meant by no group and no Bind" == report.headline


async def test_workload_that_is_absent_or_hidden_is_told_so() -> None:
    """In one line."""
    api = TinyApi()
    with pytest.raises(CtlError, match="there is no deployment/web in namespace shop"):
        await run_command(KubeClient(api), "why", "deploy/web")
    words = 'User "t" cannot get resource'
    hidden = Guarded(api, lambda _, path: (403, words) if "apps" in path else None)
    with pytest.raises(CtlError, match=r"may not get deployments\.apps in namespace"):
        await run_command(KubeClient(hidden), "why", "deploy/web")
