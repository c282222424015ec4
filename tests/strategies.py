"""Random values for properties; small ranges, so that things meet and collide."""

import attrs

from hypothesis import strategies as st

from lbcf.core.model.cluster import Pod, Snapshot
from lbcf.core.model.node_backends import NodeRef
from lbcf.core.model.resources import (
    BackendRecord,
    PodSelection,
    RecordStatus,
    StaticRef,
)
from lbcf.core.model.selectors import Selector
from lbcf.core.model.values import (
    AddressSource,
    DeregisterPolicy,
    MemberKey,
    Port,
    Protocol,
)
from lbcf.core.reasons import Explanation, Reason
from tests.builders import (
    a_backend,
    a_driver,
    a_group,
    a_load_balancer,
    a_pod,
    a_record,
    a_snapshot,
    a_spec,
    with_registered,
)


POD_NAMES = ("web-1", "web-2", "web-3")
PORTS = (Port(80), Port(53), Port(53, Protocol.UDP))
ADDRESSES = ("10.0.0.1", "10.0.0.2", "2001:db8::1")
LOAD_BALANCERS = ("front", "back", "old")
PHASES = ("Pending", "Running", "Succeeded")
POLICIES = [one for one in DeregisterPolicy if one is not DeregisterPolicy.WEBHOOK]
"""Those that need nobody's answer."""


@st.composite
def pods(draw: st.DrawFn, name: str) -> Pod:
    """Draw a pod of a name, in any state, of its first or second life."""
    return a_pod(
        name,
        uid=f"uid-{name}" if draw(st.booleans()) else f"uid-{name}-again",
        address=draw(st.sampled_from(("", *ADDRESSES))),
        ready=draw(st.booleans()),
        phase=draw(st.sampled_from(PHASES)),
        deleting=draw(st.booleans()),
    )


@st.composite
def records(draw: st.DrawFn, number: int) -> BackendRecord:
    """Draw a record of any of the pods, ports, load balancers and states."""
    backend = draw(
        st.one_of(
            st.builds(
                lambda name, port: a_backend(name, port=port),
                st.sampled_from(POD_NAMES),
                st.sampled_from(PORTS),
            ),
            st.just(StaticRef("198.51.100.7:80")),
            st.just(NodeRef("node-1", Port(80))),
        )
    )
    address = draw(st.sampled_from(("", *ADDRESSES)))
    spec = a_spec(
        address=f"{address}:80" if address else "",
        load_balancer=draw(st.sampled_from(LOAD_BALANCERS)),
        backend=backend,
        parameters=draw(st.sampled_from(({}, {"weight": "1"}))),
    )
    status = RecordStatus(address=draw(st.sampled_from(("", "10.0.0.9:80"))))
    if draw(st.booleans()):
        status = with_registered(status, spec.address)
    return a_record(
        f"record-{number}", spec=spec, status=status, deleting=draw(st.booleans())
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Draw a snapshot of a group of pods, with records of all ages."""
    some = draw(st.sets(st.sampled_from(PORTS), min_size=1))
    ports = tuple(port for port in PORTS if port in some)
    selection = PodSelection(ports, selector=Selector({"app": "web"}))
    group = a_group(
        load_balancers=LOAD_BALANCERS[:2],
        selection=selection,
        policy=draw(st.sampled_from(POLICIES)),
        max_unready_percent=draw(st.sampled_from((None, 0, 50, 100))),
    )
    states = {
        name: draw(st.sampled_from(("usable", "usable", "undecided", "leaving")))
        for name in LOAD_BALANCERS[:2]
    }
    driver = a_driver(
        member_key=draw(st.sampled_from(MemberKey)),
        address_source=draw(st.sampled_from(AddressSource)),
    )
    names = draw(st.sets(st.sampled_from(POD_NAMES)))
    count = draw(st.integers(0, 6))
    return a_snapshot(
        *(draw(pods(name)) for name in sorted(names)),
        group=group,
        driver=driver,
        load_balancers=tuple(
            a_load_balancer(name) for name, state in states.items() if state == "usable"
        ),
        undecided={
            name: Explanation(Reason.LOAD_BALANCER_NOT_FOUND, f"{name} does not exist")
            for name, state in states.items()
            if state == "undecided"
        },
        records=tuple(draw(records(number)) for number in range(count)),
    )


def restricted(snapshot: Snapshot, names: set[str]) -> Snapshot:
    """Leave only what concerns some of the pods, as a scoped look does."""
    return attrs.evolve(
        snapshot,
        pods=tuple(p for p in snapshot.pods if p.meta.key.name in names),
        records=tuple(r for r in snapshot.records if is_about(r, names)),
    )


def is_about(record: BackendRecord, names: set[str]) -> bool:
    """Tell whether a record is of one of these pods."""
    backend = record.spec.backend
    if isinstance(backend, StaticRef | NodeRef):
        return False
    return backend.name in names
