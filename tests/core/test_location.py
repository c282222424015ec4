"""A record ends when its backend is certainly elsewhere, whoever spells addresses."""

import attrs
import pytest

from lbcf.core.model.nodes import NodeScene, NodeStatusAddress
from lbcf.core.model.resources import BackendRecord, RecordStatus
from lbcf.core.model.values import AddressSource, DeregisterPolicy, Uid
from lbcf.core.reasons import Reason
from lbcf.core.selection.location import Location, has_moved
from lbcf.core.selection.plan import Plan, plan_group
from tests.builders import (
    a_driver,
    a_group,
    a_pod,
    a_record,
    a_snapshot,
    a_spec,
    seconds,
)
from tests.node_builders import a_node, a_node_group, a_node_record


DRIVER = a_driver(address_source=AddressSource.DRIVER)
SPEC = attrs.evolve(a_spec(drain_timeout=seconds(30)), address="", host="10.0.0.1")
OLD = a_record(spec=SPEC, status=RecordStatus(address="eni-7:1"), registered=True)
"""Of a pod that was at 10.0.0.1, which its driver calls otherwise."""


def removed(plan: Plan) -> list[str]:
    """Say why records go."""
    return [removal.reason for removal in plan.removals]


def test_pod_with_another_ip_gets_another_record() -> None:
    """Its driver spells addresses in words of its own: the pod's IP tells."""
    plan = plan_group(
        a_snapshot(a_pod(address="10.0.0.7"), records=(OLD,), driver=DRIVER)
    )

    assert [Reason.ADDRESS_CHANGED] == removed(plan)
    assert ["10.0.0.7"] == [c.desired.spec.host for c in plan.creates]
    assert OLD.meta.key.name != plan.creates[0].name


def test_pod_that_stays_keeps_its_record() -> None:
    """What the driver spells is not compared."""
    plan = plan_group(a_snapshot(a_pod(), records=(OLD,), driver=DRIVER))

    assert (1, True) == (plan.kept, plan.is_empty)


def test_unready_pod_elsewhere_leaves_its_old_address() -> None:
    """A policy that keeps unready pods does not keep an address that is another's."""
    group = a_group(policy=DeregisterPolicy.IF_NOT_RUNNING)
    pod = a_pod(address="10.0.0.7", ready=False)

    plan = plan_group(a_snapshot(pod, group=group, records=(OLD,), driver=DRIVER))

    assert [Reason.ADDRESS_CHANGED] == removed(plan)
    assert not plan.removals[0].by_readiness
    assert not plan.creates


def test_pod_without_an_address_tells_nothing() -> None:
    """It may be about to have the same one."""
    group = a_group(policy=DeregisterPolicy.IF_NOT_RUNNING)
    pod = a_pod(address="", ready=False)

    plan = plan_group(a_snapshot(pod, group=group, records=(OLD,), driver=DRIVER))

    assert [] == removed(plan)


def test_record_that_does_not_say_where_it_was_is_kept() -> None:
    """Those of LBCF in Go and of earlier versions: nothing is registered anew."""
    legacy = attrs.evolve(OLD, spec=attrs.evolve(SPEC, host=""))

    plan = plan_group(
        a_snapshot(a_pod(address="10.0.0.7"), records=(legacy,), driver=DRIVER)
    )

    assert (1, True) == (plan.kept, plan.is_empty)


def of_node(uid: str) -> BackendRecord:
    """Make the record of a node at 192.0.2.1."""
    record = a_node_record(1)
    spec = attrs.evolve(record.spec, host="192.0.2.1", node_uid=Uid(uid))
    return attrs.evolve(record, spec=spec)


@pytest.mark.parametrize(
    ("source", "reasons"),
    [(AddressSource.DRIVER, [Reason.ADDRESS_CHANGED]), (AddressSource.BACKEND, [])],
)
def test_namesake_of_a_node_is_another_member_to_drivers_alone(
    source: AddressSource, reasons: list[str]
) -> None:
    """A driver may know it by what the cloud calls it; an address is an address."""
    scene = NodeScene({"n1": a_node()}, node_port=30080)
    driver = a_driver(address_source=source)
    records = (of_node("uid-of-its-namesake"),)

    plan = plan_group(
        a_snapshot(group=a_node_group(), scene=scene, driver=driver, records=records)
    )

    assert reasons == removed(plan)
    assert len(reasons) == len(plan.creates)


@pytest.mark.parametrize("source", AddressSource)
def test_node_with_another_address_gets_another_record(source: AddressSource) -> None:
    """Whoever spells it."""
    node = a_node(addresses=(NodeStatusAddress("InternalIP", "192.0.2.9"),))
    driver = a_driver(address_source=source)
    scene = NodeScene({"n1": node}, node_port=30080)
    records = (of_node(node.meta.uid),)

    plan = plan_group(
        a_snapshot(group=a_node_group(), scene=scene, driver=driver, records=records)
    )

    assert [Reason.ADDRESS_CHANGED] == removed(plan)


def test_node_without_a_uid_has_not_moved() -> None:
    """What nothing is known of is no reason to take a member out."""
    record = attrs.evolve(OLD, spec=attrs.evolve(SPEC, node_uid=Uid("before")))

    assert not has_moved(record, Location("10.0.0.1"), AddressSource.DRIVER)
    assert has_moved(record, Location("10.0.0.1", Uid("now")), AddressSource.DRIVER)


def test_message_says_where_the_backend_is_and_was() -> None:
    """For who looks for a reason."""
    snapshot = a_snapshot(a_pod(address="10.0.0.7"), records=(OLD,), driver=DRIVER)

    [removal] = plan_group(snapshot).removals

    assert "pod web-1 is 10.0.0.7 now, not 10.0.0.1" == removal.message
