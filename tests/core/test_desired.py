"""Which records should be: one per backend, port and load balancer, fully spelled."""

import attrs
import pytest

from lbcf.core.model import names
from lbcf.core.model.cluster import Pod, Snapshot
from lbcf.core.model.node_backends import NodeRef, ServiceRef
from lbcf.core.model.resources import (
    Backend,
    PodSelection,
    StaticRef,
    StaticSelection,
)
from lbcf.core.model.selectors import Selector
from lbcf.core.model.values import (
    NO_DRAIN,
    AddressSource,
    DrainPolicy,
    MemberKey,
    NamedPort,
    Port,
    Protocol,
    host_port,
)
from lbcf.core.selection.desired import (
    DesiredRecord,
    backend_identity,
    desired_records,
    drain_of,
    judge_all,
)
from tests.builders import (
    ALWAYS,
    a_backend,
    a_driver,
    a_group,
    a_load_balancer,
    a_pod,
    a_snapshot,
    a_spec,
    seconds,
)


UDP = Port(53, Protocol.UDP)
TWO_PORTS = PodSelection((Port(53), UDP), selector=Selector({"app": "web"}))


def desired(snapshot: Snapshot) -> list[DesiredRecord]:
    """Say all that should be."""
    return list(desired_records(snapshot, judge_all(snapshot)))


def test_record_says_all_that_outlives_its_sources() -> None:
    """Identity, attributes, parameters, policy and drain are copied into it."""
    group = a_group(parameters={"weight": "3"}, ensure_policy=ALWAYS)
    front = a_load_balancer(info={"id": "made"}, attributes={"a": "b"})

    (record,) = desired(a_snapshot(a_pod(), group=group, load_balancers=(front,)))

    spec = a_spec(ensure_policy=ALWAYS, parameters={"weight": "3"})
    assert record.spec == attrs.evolve(
        spec,
        lb_info={"id": "made"},
        lb_attributes={"a": "b"},
        drain=DrainPolicy(True, seconds(30)),
        host="10.0.0.1",
    )


def test_named_port_is_the_number_that_each_pod_gives_it() -> None:
    """Pods of two templates may differ; one that has no such port is no backend there."""
    http, number = NamedPort("http"), NamedPort("http", Protocol.UDP)
    selection = PodSelection((http, Port(80)), selector=Selector({"app": "web"}))
    pods = (
        attrs.evolve(a_pod("old"), ports={http: 8080}),
        attrs.evolve(a_pod("new"), ports={http: 9090, number: 53}),
        attrs.evolve(a_pod("same"), ports={http: 80}),
        a_pod("none"),
    )

    found = desired(a_snapshot(*pods, group=a_group(selection=selection)))

    assert [d.identity for d in found] == [
        ("front", a_backend(pod, port=Port(port)))
        for pod, port in (
            ("old", 8080), ("old", 80), ("new", 9090), ("new", 80), ("same", 80),
            ("none", 80),
        )
    ]  # fmt: skip


def test_each_port_at_each_load_balancer_is_a_record() -> None:
    """Two pods with two ports at two load balancers make eight."""
    group = a_group(load_balancers=("front", "back"), selection=TWO_PORTS)
    both = (a_load_balancer("front"), a_load_balancer("back"))
    pods = (a_pod("web-1"), a_pod("web-2", address="10.0.0.2"))

    found = {
        d.identity for d in desired(a_snapshot(*pods, group=group, load_balancers=both))
    }

    assert found == {
        (lb, a_backend(pod, port=port))
        for lb in ("front", "back")
        for pod in ("web-1", "web-2")
        for port in (Port(53), UDP)
    }


def test_same_number_with_two_protocols_makes_two_names() -> None:
    """A readable name says the number only; the hash tells them apart."""
    group = a_group(selection=TWO_PORTS)

    made = {d.name() for d in desired(a_snapshot(a_pod(), group=group))}

    assert 2 == len(made)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod(ready=False), id="unready"),
        pytest.param(a_pod(address=""), id="without an address"),
        pytest.param(a_pod(deleting=True), id="terminating"),
    ],
)
def test_pod_that_is_no_backend_makes_no_record(pod: Pod) -> None:
    """Only the eligible are desired."""
    assert [] == desired(a_snapshot(pod))


def test_static_addresses_make_a_record_each() -> None:
    """They are registered as they are, and named by what can be read of them."""
    group = a_group(selection=StaticSelection(("198.51.100.7:80", "[2001:db8::7]:81")))

    four, six = desired(a_snapshot(group=group))

    assert StaticRef("198.51.100.7:80") == four.spec.backend
    assert "198.51.100.7:80" == four.spec.address
    assert four.name().startswith("web-198-51-100-7-80-")
    assert six.name().startswith("web--2001-db8--7--81-")


@pytest.mark.parametrize(
    ("member_key", "source", "in_spec", "known"),
    [
        pytest.param(
            MemberKey.RECORD, AddressSource.BACKEND, "10.0.0.1:8080", "10.0.0.1:8080"
        ),
        pytest.param(MemberKey.ADDRESS, AddressSource.BACKEND, "", "10.0.0.1:8080"),
        pytest.param(MemberKey.RECORD, AddressSource.DRIVER, "", ""),
        pytest.param(MemberKey.ADDRESS, AddressSource.DRIVER, "", ""),
    ],
)
def test_address_is_written_beforehand_only_if_no_lock_is_needed(
    member_key: MemberKey, source: AddressSource, in_spec: str, known: str
) -> None:
    """Known addresses of members that are named by address wait for their lock."""
    driver = a_driver(member_key=member_key, address_source=source)

    (record,) = desired(a_snapshot(a_pod(), driver=driver))

    assert (in_spec, known) == (record.spec.address, record.address)


@pytest.mark.parametrize(
    ("host", "written"),
    [("10.0.0.1", "10.0.0.1:80"), ("2001:db8::1", "[2001:db8::1]:80")],
)
def test_ipv6_is_written_in_brackets(host: str, written: str) -> None:
    """Without them the port could not be told from the address (RFC 3986)."""
    assert written == host_port(host, Port(80))


@pytest.mark.parametrize(
    ("of_group", "of_load_balancer", "drain"),
    [
        pytest.param(
            None, None, DrainPolicy(True, seconds(30)), id="30 s where unsaid"
        ),
        pytest.param(
            None, DrainPolicy(False), DrainPolicy(False), id="the load balancer's"
        ),
        pytest.param(
            DrainPolicy(True, seconds(5)),
            DrainPolicy(False),
            DrainPolicy(True, seconds(5)),
        ),
    ],
)
def test_drain_is_the_group_s_before_the_load_balancer_s(
    of_group: DrainPolicy | None,
    of_load_balancer: DrainPolicy | None,
    drain: DrainPolicy,
) -> None:
    """The nearer word counts."""
    front = a_load_balancer(drain=of_load_balancer)
    (attachment,) = a_snapshot(load_balancers=(front,)).attachments.values()

    assert drain == drain_of(a_group(drain=of_group), attachment)


def test_drain_that_is_off_leaves_no_time() -> None:
    """Such a record is deregistered at once."""
    (record,) = desired(a_snapshot(a_pod(), group=a_group(drain=DrainPolicy(False))))

    assert NO_DRAIN == record.spec.drain


def test_name_is_another_beside_one_that_leaves() -> None:
    """A pod that comes back is registered beside its record that still drains."""
    (record,) = desired(a_snapshot(a_pod()))
    made = {record.name(), record.name(["u1"]), record.name(["u2"])}

    assert 3 == len(made)
    assert record.name(["u1", "u2"]) == record.name(["u2", "u1"])


@pytest.mark.parametrize("leaving", [["u1"], ["u2"]])
def test_name_beside_several_is_none_of_theirs(leaving: list[str]) -> None:
    """The second was named beside the first: a third is named beside both."""
    (record,) = desired(a_snapshot(a_pod()))

    assert record.name(leaving) != record.name(["u1", "u2"])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(a_snapshot(a_pod(address="10.0.0.9")), id="address"),
        pytest.param(a_snapshot(a_pod(uid="again")), id="pod's uid"),
        pytest.param(a_snapshot(a_pod(), group=a_group(uid="again")), id="group's uid"),
        pytest.param(
            a_snapshot(a_pod(), load_balancers=(a_load_balancer("back"),)),
            id="load balancer",
        ),
    ],
)
def test_name_is_another_for_all_that_makes_another_record(other: Snapshot) -> None:
    """The one before may still be there, draining under its own name."""
    (one,), (two,) = desired(a_snapshot(a_pod())), desired(other)

    assert one.name() != two.name()


def test_labels_let_people_find_it() -> None:
    """LBCF's labels: driver, load balancer, group and pod."""
    (record,) = desired(a_snapshot(a_pod()))

    assert record.labels() == {
        names.LABEL_DRIVER: "proxy",
        names.LABEL_LOAD_BALANCER: "front",
        names.LABEL_GROUP: "web",
        names.LABEL_POD: "web-1",
        names.LABEL_POD_UID: "uid-web-1",
    }


def test_label_of_a_static_address_is_its_hash() -> None:
    """A colon is no sign that labels can hold."""
    address = "198.51.100.7:80"
    (record,) = desired(
        a_snapshot(group=a_group(selection=StaticSelection((address,))))
    )

    assert names.label_value(address) == record.labels()[names.LABEL_STATIC]


@pytest.mark.parametrize(
    ("backend", "parts"),
    [
        (a_backend("web-1", port=UDP), ("pod", "web-1", "uid-web-1", "53/UDP")),
        (StaticRef("db:1"), ("static", "db:1")),
        (
            ServiceRef("web", UDP, 30053, "n1"),
            ("service", "web", "53/UDP", "30053", "n1"),
        ),
        (NodeRef("n1", UDP), ("node", "n1", "53/UDP")),
    ],
)
def test_names_of_records_are_hashed_from(
    backend: Backend, parts: tuple[str, ...]
) -> None:
    """Another version has to find the same: else every record is made anew."""
    assert parts == backend_identity(backend)


@pytest.mark.parametrize(
    ("address", "readable"),
    [
        ("10.0.0.9:80", ("10.0.0.9", 80)),
        ("db", ("db", 0)),
        ("db:http", ("db", 0)),
        ("[fd00::1]:80", ("[fd00::1]", 80)),
    ],
)
def test_name_begins_with_what_people_know(
    address: str, readable: tuple[str, int]
) -> None:
    """Host and port of a static address, as far as it has them."""
    group = a_group(selection=StaticSelection((address,)))

    [record] = desired(a_snapshot(group=group))

    assert readable == record.readable


@pytest.mark.parametrize("wait", ["", "25"])
def test_record_is_made_with_the_drain_gate_of_its_pod(wait: str) -> None:
    """Empty: the pod has none."""
    pod = a_pod()
    said = {names.ANNOTATION_DRAIN_GATE: wait} if wait else {}
    pod = attrs.evolve(pod, meta=attrs.evolve(pod.meta, annotations=said))

    [record] = desired(a_snapshot(pod))

    assert wait == record.drain_gate


def test_named_port_has_its_protocol() -> None:
    """A pod may have ports of one name for both."""
    name = NamedPort("dns", Protocol.UDP)
    group = a_group(selection=PodSelection((name,), selector=Selector({"app": "web"})))

    [record] = desired(
        a_snapshot(attrs.evolve(a_pod(), ports={name: 5353}), group=group)
    )

    assert a_backend(port=Port(5353, Protocol.UDP)) == record.spec.backend
