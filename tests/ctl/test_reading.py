"""What may not be read is open, and never called missing."""

from typing import Any

import attrs
import pytest

from lbcf.controller.bind_view import BindView
from lbcf.core.model import conditions
from lbcf.core.model.names import bind_group_key, bind_load_balancer_key
from lbcf.core.model.nodes import NodePortService
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.ctl.backends import why_node, why_pod
from lbcf.ctl.drivers import why_driver
from lbcf.ctl.errors import ObjectNotFound, missing_right
from lbcf.ctl.flags import Kind
from lbcf.ctl.groups import why_group
from lbcf.ctl.load_balancers import why_load_balancer
from lbcf.ctl.plan import plan_report
from lbcf.ctl.reading import Reading, not_found
from lbcf.ctl.records import waits_for, why_record
from lbcf.kube.kinds import (
    BINDS,
    DRIVERS,
    ENDPOINT_SLICES,
    GROUPS,
    LOAD_BALANCERS,
    NODES,
    RECORDS,
    SERVICES,
    Resource,
)
from tests.builders import (
    NAMESPACE,
    a_driver,
    a_group,
    a_key,
    a_load_balancer,
    a_pod,
    a_record,
    a_spec,
)
from tests.controller.views import obscure
from tests.ctl.readings import NOW, a_reading, bare_reading, line_facts, text_of
from tests.ctl.test_records import a_status
from tests.node_builders import OF_SERVICE, a_node, a_service


SHARED = ObjectKey("kube-system", "lbcf-proxy")


def forbid(
    reading: Reading, *kinds: Resource[Any], namespace: str = NAMESPACE
) -> Reading:
    """Have the API server refuse lists of these kinds."""
    for kind in kinds:
        reading.note_missing(missing_right("list", kind, namespace))
    reading.mark_forbidden()
    return reading


def of_shared_driver(*things: Any) -> Reading:
    """Make a reading of one whose driver is in kube-system, where we may read nothing."""
    reading = bare_reading(
        *(a_load_balancer(driver=SHARED.name), a_group(), a_pod(), *things)
    )
    return forbid(reading, DRIVERS, LOAD_BALANCERS, namespace=SHARED.namespace)


@pytest.mark.parametrize(
    ("kind", "name", "resource"),
    [
        (Kind.GROUP, "bg/x", GROUPS),
        (Kind.BIND, "bind/x", BINDS),
        (Kind.RECORD, "br/x", RECORDS),
        (Kind.LOAD_BALANCER, "lb/x", LOAD_BALANCERS),
        (Kind.DRIVER, "driver/x", DRIVERS),
    ],
)
def test_what_was_not_found_is_missing_only_if_it_could_be_read(
    kind: Kind, name: str, resource: Resource[Any]
) -> None:
    """Else the right is named, or the kind that is not installed."""
    key = bind_group_key(a_key("x")) if kind is Kind.BIND else a_key("x")
    hidden, bare = forbid(bare_reading(), resource), bare_reading()
    bare.unknown_kinds.add(resource.plural)

    assert f"there is no {name} in namespace shop" == str(
        not_found(bare_reading(), kind, key)
    )
    told = f"{name}: may not list {resource.plural}.lbcf.tkestack.io in namespace shop"
    assert told == str(not_found(hidden, kind, key))
    assert (
        f"{name}: the cluster knows no {resource.plural}: install manifests/crds"
        == (str(not_found(bare, kind, key)))
    )


def test_bind_that_cannot_be_understood_is_not_missing() -> None:
    """Neither is what it has."""
    reading = bare_reading()
    BindView(reading.view).listen()
    obscure(reading.view.binds, a_key("x"))
    balancer = bind_load_balancer_key(a_key("x"), "front")

    told = "cannot be understood: spec.lbName: expected str"
    assert f"bind/x {told}" == str(
        not_found(reading, Kind.BIND, bind_group_key(a_key("x")))
    )
    with pytest.raises(ObjectNotFound, match=f"lb/bind/x/front {told}"):
        why_load_balancer(reading, balancer, NOW)


def test_objects_of_kinds_that_may_not_be_read_are_not_called_missing() -> None:
    """The right is the answer."""
    reading = forbid(bare_reading(), RECORDS, LOAD_BALANCERS)

    with pytest.raises(ObjectNotFound, match="br/x: may not list backendrecords"):
        why_record(reading, a_key("x"), NOW)
    with pytest.raises(ObjectNotFound, match="lb/x: may not list loadbalancers"):
        why_load_balancer(reading, a_key("x"), NOW)
    with pytest.raises(
        ObjectNotFound, match="pod/x in namespace shop; we may not list backen"
    ):
        why_pod(reading, a_key("x"), None, NOW)
    with pytest.raises(ObjectNotFound, match="node/x; we may not list backendrecords"):
        why_node(reading, "x", NOW)


@pytest.mark.parametrize("kind", [GROUPS, BINDS])
def test_pod_is_not_called_unselected_where_groups_may_not_be_read(
    kind: Resource[Any],
) -> None:
    """Somebody may mean it all the same."""
    reading = forbid(bare_reading(a_pod()), kind)
    report = why_pod(reading, a_key("web-1"), a_pod(), NOW)

    assert [("?", "selected", ""), ("?", kind.plural, "NotRead")] == line_facts(report)
    assert report.headline.endswith("means this pod, as far as could be read")
    of_node = why_node(forbid(bare_reading(a_node()), kind), "n1", NOW)
    assert ("?", kind.plural, "NotRead") in line_facts(of_node)


def test_pod_is_not_called_unselected_beside_a_group_that_cannot_be_understood() -> (
    None
):
    """That group may be the one."""
    reading = bare_reading(a_pod())
    obscure(reading.view.groups, a_key("odd"))
    obscure(reading.view.groups, a_key("far", "elsewhere"))
    report = why_pod(reading, a_key("web-1"), a_pod(), NOW)

    assert [("?", "selected", ""), ("?", "bg/odd", "Unreadable")] == line_facts(report)


def test_shared_driver_that_may_not_be_read_is_nobody_s_fault() -> None:
    """A tenant's pod that is registered is in order, whatever its driver is like."""
    record = a_record(registered=True)
    spec = attrs.evolve(record.spec, driver=SHARED.name)
    reading = of_shared_driver(attrs.evolve(record, spec=spec))
    report = why_pod(reading, a_key("web-1"), a_pod(), NOW)

    assert "registered at front" == report.headline
    assert ("?", "lb/front", "NotRead") in line_facts(report)
    assert not {"NO", "wait"} & {mark for mark, _, _ in line_facts(report)}
    right = "may not list loadbalancerdrivers.lbcf.tkestack.io in namespace kube-system"
    assert f"LoadBalancerDriver {SHARED}: we {right}\n" in text_of(report)
    assert right in report.unread


def test_shared_driver_that_may_not_be_read_is_waited_for_by_name() -> None:
    """Not called one that cannot be understood."""
    spec = attrs.evolve(a_spec(), driver=SHARED.name)
    status = a_status(conditions.REGISTERED, Reason.DRIVER_REFUSED)
    record = a_record(spec=spec, status=status)

    assert f"driver {SHARED}" == waits_for(record, of_shared_driver(record), NOW)


def test_load_balancer_of_a_shared_driver_leaves_that_open() -> None:
    """What its own conditions say is told."""
    report = why_load_balancer(of_shared_driver(), a_key("front"), NOW)

    assert [("?", "driver", "NotRead"), ("ok", "identity", "")] == line_facts(report)[
        :2
    ]
    assert "created, and nothing is wrong with it, as far as we may read" == (
        report.headline
    )


def test_plan_holds_nothing_because_we_may_not_read() -> None:
    """What the controller does with such records nobody here knows."""
    record = a_record(registered=True)
    reading = of_shared_driver(record)
    group = reading.view.groups.get(a_key("web"))
    assert group is not None
    report = plan_report(reading, group, NOW)

    assert ((), 1) == (report.changes, len(report.doubts))
    assert f"undecided: NotRead: LoadBalancerDriver {SHARED}: we " in text_of(report)
    assert "nothing can be told\n" in text_of(report)
    assert ("?", "plan", "") in line_facts(why_group(reading, group, NOW))


@pytest.mark.parametrize(
    ("kind", "service"),
    [
        (NODES, a_service()),
        (SERVICES, a_service()),
        (ENDPOINT_SLICES, a_service(local=True)),
    ],
)
def test_group_of_nodes_is_open_without_what_decides(
    kind: Resource[Any], service: NodePortService
) -> None:
    """A Service that may not be read is not called missing, or not understood."""
    group = a_group(selection=OF_SERVICE)
    things = () if kind is SERVICES else (service,)
    reading = bare_reading(a_driver(), a_load_balancer(), group, a_node(), *things)
    where = "" if kind is NODES else NAMESPACE
    report = why_group(forbid(reading, kind, namespace=where), group, NOW)

    assert ("?", "all of it", "NotRead") in line_facts(report)
    assert f"we may not list {kind.plural}" in text_of(report)


def test_driver_may_be_needed_by_binds_that_may_not_be_read() -> None:
    """As by all else."""
    reading = forbid(bare_reading(a_driver()), BINDS)
    report = why_driver(reading, a_key("proxy"), NOW)

    assert ("?", "needed by", "NotRead") in line_facts(report)


def test_record_that_was_never_registered_needs_no_driver_to_go() -> None:
    """Nobody has to create one for it."""
    record = a_record(spec=a_spec(address=""), deleting=True)

    assert "the deregistrar" == waits_for(record, bare_reading(), NOW)
    assert "create it" in waits_for(a_record(), bare_reading(), NOW)


def test_service_is_read_where_we_may() -> None:
    """The group is decided then."""
    group = a_group(selection=OF_SERVICE)
    reading = a_reading(a_node(), a_service())

    assert reading.missing_for(group) is None
