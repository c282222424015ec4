"""A Service of type LoadBalancer, explained: its class, its ports, what is wrong with them."""

from typing import Any

import attrs
import pytest

from lbcf.core.model import conditions, names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.nodes import NodePortService
from lbcf.core.model.services import Exposure
from lbcf.core.model.values import Ingress
from lbcf.core.reasons import Reason
from lbcf.ctl.errors import CtlError
from lbcf.ctl.services import why_service
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import SERVICES
from tests.builders import START, a_group, a_load_balancer, a_meta, a_record
from tests.ctl.readings import NOW, bare_reading, line_facts, text_of
from tests.ctl.servers import put, run_command
from tests.kube.tiny_api import TinyApi


NAME = "svc-web-80-tcp"
TAKEN_UP = {names.ANNOTATION_CLASS: "edge"}
READY = Condition(
    conditions.LOAD_BALANCER_READY, True, Reason.READY, "reached at 192.0.2.1", 0, START
)
REFUSED = attrs.evolve(
    READY, status=False, reason=Reason.ADDRESSES_EXHAUSTED, message="none is left"
)


def a_service(said: Condition | None = READY, **exposure: Any) -> NodePortService:
    """Make a Service that has been taken up."""
    told = () if said is None else (said,)
    found = Exposure(
        is_balanced=True,
        class_name="lbcf.tkestack.io/edge",
        ingress=(Ingress("192.0.2.1"),),
        conditions=told,
    )
    meta = a_meta("web", annotations=TAKEN_UP)
    found = attrs.evolve(found, **exposure)
    return NodePortService(meta, "LoadBalancer", exposure=found)


def labelled(one: Any) -> Any:
    """Say that something is derived from the Service."""
    meta = attrs.evolve(one.meta, labels={names.LABEL_EXPOSES: "web"})
    return attrs.evolve(one, meta=meta)


def test_service_that_is_served_says_where() -> None:
    """And what its ports are."""
    balancer = labelled(a_load_balancer(NAME, info={"id": "7"}))
    group = labelled(a_group(NAME, load_balancers=(NAME,)))
    record = a_record("r1", registered=True)
    record = attrs.evolve(record, group=group.meta.key)
    report = why_service(bare_reading(balancer, group, record), a_service(), NOW)
    told = text_of(report)

    assert "svc/web in namespace shop" in told
    assert "nothing is wrong with it; 1 registered" in report.headline
    assert ("ok", "class", "") in line_facts(report)
    assert ("ok", f"lb/{NAME}", "") in line_facts(report)
    assert "192.0.2.1" in told


def test_trouble_is_the_headline_with_what_to_do() -> None:
    """Of the Service itself first, then of its load balancers."""
    report = why_service(bare_reading(), a_service(REFUSED), NOW)
    assert "none is left" in report.headline
    assert "addresses of the LoadBalancerClass" in text_of(report)

    bad = Condition(conditions.CREATED, False, Reason.DRIVER_REFUSED, "no", 1, START)
    balancer = labelled(attrs.evolve(a_load_balancer(NAME), conditions=(bad,)))
    report = why_service(bare_reading(balancer), a_service(), NOW)
    assert ("NO", f"lb/{NAME}", "DriverRefused") in line_facts(report)


@pytest.mark.parametrize(
    ("service", "told"),
    [
        (NodePortService(a_meta("web"), "ClusterIP"), "its type is ClusterIP"),
        (
            attrs.evolve(a_service(class_name="a.b/c"), meta=a_meta("web")),
            "its loadBalancerClass a.b/c is another controller's",
        ),
        (
            attrs.evolve(a_service(class_name=""), meta=a_meta("web")),
            "it names no loadBalancerClass",
        ),
    ],
)
def test_service_that_is_left_alone_is_told_why(
    service: NodePortService, told: str
) -> None:
    """Nothing is wrong with it."""
    assert told in why_service(bare_reading(), service, NOW).headline


def test_service_that_nobody_has_looked_at_is_told_so() -> None:
    """No controller runs, or it has not come to it."""
    report = why_service(bare_reading(), a_service(None), NOW)

    assert "no controller has looked at it yet" == report.headline


async def test_service_is_asked_about_as_kubectl_calls_it() -> None:
    """One that is not there is told in one line."""
    api = TinyApi()
    put(api, SERVICES, {"metadata": {"name": "web"}, "spec": {"type": "NodePort"}})
    for words in (("svc/web",), ("service", "web"), ("services/web",)):
        _, [report] = await run_command(KubeClient(api), "why", *words)
        assert "its type is NodePort: lbcf leaves it alone" == report.headline
    with pytest.raises(CtlError, match="there is no svc/none in namespace shop"):
        await run_command(KubeClient(api), "why", "svc/none")
