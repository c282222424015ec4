"""What becomes of each record, and which ones are made, case by case."""

import attrs
import pytest

from lbcf.core.model.cluster import Pod
from lbcf.core.model.resources import (
    BackendRecord,
    LoadBalancer,
    PodSelection,
    RecordStatus,
    StaticRef,
    StaticSelection,
)
from lbcf.core.model.values import AddressSource, DeregisterPolicy, DrainPolicy, Port
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.plan import Create, Hold, Plan, Removal, Update, plan_group
from tests.builders import (
    ALWAYS,
    WEB,
    a_backend,
    a_driver,
    a_group,
    a_load_balancer,
    a_pod,
    a_record,
    a_snapshot,
    a_spec,
    seconds,
)


THIRTY = seconds(30)
DESIRED = a_record(spec=a_spec(drain_timeout=THIRTY), registered=True)
"""What `a_group` wants of `a_pod`."""


def only_removal(plan: Plan) -> Removal:
    """Take the one thing that a plan does."""
    (removal,) = plan.removals
    assert (
        Plan(removals=(removal,), backends=plan.backends, unready=plan.unready) == plan
    )
    return removal


def only_hold(plan: Plan) -> Hold:
    """Take the one record that a plan leaves as it is although it is not desired."""
    (hold,) = plan.holds
    assert Plan(holds=(hold,), backends=plan.backends, unready=plan.unready) == plan
    return hold


def test_ready_pod_gets_a_record() -> None:
    """It is created with a name that any other run would give it."""
    (create,) = plan_group(a_snapshot(a_pod())).creates

    assert Create(create.desired, create.desired.name()) == create
    assert ("front", a_backend()) == create.desired.identity


def test_record_that_is_as_it_should_be_is_kept() -> None:
    """Nothing is written."""
    plan = plan_group(a_snapshot(a_pod(), records=(DESIRED,)))

    assert Plan(kept=1, backends=1) == plan
    assert plan.is_empty


def test_record_under_a_foreign_name_is_kept() -> None:
    """What counts is what a record says, not what it is called."""
    renamed = attrs.evolve(DESIRED, meta=a_record("made-by-hand").meta)

    assert plan_group(a_snapshot(a_pod(), records=(renamed,))).is_empty


@pytest.mark.parametrize(
    ("pod", "reason", "by_readiness"),
    [
        pytest.param(a_pod(ready=False), Reason.POD_NOT_READY, True, id="unready"),
        pytest.param(
            a_pod(deleting=True), Reason.POD_TERMINATING, False, id="terminating"
        ),
        pytest.param(a_pod(phase="Failed"), Reason.POD_FINISHED, False, id="finished"),
        pytest.param(
            a_pod(uid="reborn", ready=False), Reason.POD_GONE, False, id="namesake"
        ),
        pytest.param(None, Reason.POD_GONE, False, id="gone or unselected"),
    ],
)
def test_pod_that_is_no_backend_any_more_takes_its_record_along(
    pod: Pod | None, reason: str, by_readiness: bool
) -> None:
    """The removal says why, and whether a guard may hold it."""
    pods = () if pod is None else (pod,)

    removal = only_removal(plan_group(a_snapshot(*pods, records=(DESIRED,))))

    assert (reason, by_readiness) == (removal.reason, removal.by_readiness)
    assert "web-1" in removal.message


def test_port_that_was_taken_out_takes_its_record_along() -> None:
    """A living pod whose port the group no longer names is told apart from a dead one."""
    group = a_group(selection=PodSelection((Port(9090),), names=frozenset({"web-1"})))

    plan = plan_group(a_snapshot(a_pod(), group=group, records=(DESIRED,)))

    assert [(Reason.UNSELECTED, DESIRED)] == [
        (r.reason, r.record) for r in plan.removals
    ]
    assert "8080/TCP" in plan.removals[0].message
    assert [("web-1", 9090)] == [c.desired.readable for c in plan.creates]


def test_static_address_that_was_taken_out_takes_its_record_along() -> None:
    """The group is the only word on static addresses."""
    spec = a_spec(backend=StaticRef("198.51.100.7:80"))
    group = a_group(selection=StaticSelection(()))

    plan = plan_group(a_snapshot(group=group, records=(a_record(spec=spec),)))

    assert Reason.UNSELECTED == only_removal(plan).reason


@pytest.mark.parametrize(
    ("pod", "policy", "reason"),
    [
        pytest.param(
            a_pod(ready=False),
            DeregisterPolicy.IF_NOT_RUNNING,
            Reason.POD_NOT_READY,
            id="unready",
        ),
        pytest.param(
            a_pod(address=""),
            DeregisterPolicy.IF_NOT_READY,
            Reason.POD_HAS_NO_ADDRESS,
            id="address",
        ),
    ],
)
def test_waiting_pod_keeps_its_record(
    pod: Pod, policy: DeregisterPolicy, reason: str
) -> None:
    """Neither in nor out is decided: what is in stays in."""
    group = a_group(policy=policy)

    hold = only_hold(plan_group(a_snapshot(pod, group=group, records=(DESIRED,))))

    assert (DESIRED, reason) == (hold.record, hold.reason)


def test_undecided_load_balancer_holds_its_records() -> None:
    """Even of pods that are gone: what cannot be read decides nothing."""
    doubt = Explanation(Reason.LOAD_BALANCER_UNREADABLE, "it cannot be understood")
    snapshot = a_snapshot(
        records=(DESIRED,), load_balancers=(), undecided={"front": doubt}
    )

    assert Hold(DESIRED, doubt.reason, doubt.message) == only_hold(plan_group(snapshot))


def test_undecided_load_balancer_gets_no_records() -> None:
    """Nor is anything registered there."""
    doubt = Explanation(Reason.LOAD_BALANCER_UNREADABLE, "it cannot be understood")
    snapshot = a_snapshot(a_pod(), load_balancers=(), undecided={"front": doubt})

    assert plan_group(snapshot).is_empty


def test_doubt_about_one_load_balancer_does_not_stop_another() -> None:
    """Each is decided on its own."""
    doubt = Explanation(Reason.LOAD_BALANCER_NOT_FOUND, "create it")
    snapshot = a_snapshot(a_pod(), undecided={"back": doubt})

    (create,) = plan_group(snapshot).creates
    assert "front" == create.desired.spec.load_balancer


def test_records_of_a_leaving_load_balancer_go() -> None:
    """Its pods may be as well as they like."""
    snapshot = a_snapshot(a_pod(), records=(DESIRED,), load_balancers=())

    assert Reason.LOAD_BALANCER_DETACHED == only_removal(plan_group(snapshot)).reason


def test_of_duplicates_the_registered_one_stays() -> None:
    """Two records of one identity came of a create that nobody heard the answer of."""
    waiting = attrs.evolve(a_record("a-first"), spec=DESIRED.spec)

    plan = plan_group(a_snapshot(a_pod(), records=(waiting, DESIRED)))

    assert (Reason.DUPLICATE, waiting) == (
        plan.removals[0].reason,
        plan.removals[0].record,
    )
    assert (1, 1, ()) == (len(plan.removals), plan.kept, plan.creates)


def test_among_equal_duplicates_the_name_decides() -> None:
    """Every run chooses the same one."""
    first, second = (attrs.evolve(DESIRED, meta=a_record(n).meta) for n in "ab")

    for order in ((first, second), (second, first)):
        plan = plan_group(a_snapshot(a_pod(), records=order))
        assert [second] == [r.record for r in plan.removals]


def test_flapping_pod_gets_a_record_beside_the_one_that_drains() -> None:
    """It does not wait for the end of a drain to serve again."""
    draining = attrs.evolve(DESIRED, meta=a_record("old", deleting=True).meta)

    (create,) = plan_group(a_snapshot(a_pod(), records=(draining,))).creates

    assert create.desired.name(["uid-old"]) == create.name
    assert create.desired.name() != create.name


def test_pod_that_flaps_again_gets_a_record_beside_both() -> None:
    """Its name is that of none of those that drain, whatever the order of their uids."""
    pod, records = a_pod(), list[BackendRecord]()
    for uid in ("b", "c", "a"):
        (create,) = plan_group(a_snapshot(pod, records=tuple(records))).creates
        meta = a_record(create.name, uid=uid, deleting=True).meta
        records.append(attrs.evolve(DESIRED, meta=meta))

    assert 3 == len({r.meta.key.name for r in records})


def test_other_records_that_drain_do_not_change_a_name() -> None:
    """Only those of the same backend and load balancer count."""
    other = a_record("old", spec=a_spec(backend=a_backend("web-2")), deleting=True)

    (create,) = plan_group(a_snapshot(a_pod(), records=(other,))).creates

    assert create.desired.name() == create.name


def test_pod_under_another_address_is_another_member() -> None:
    """A record never changes its address: one goes, one comes, in one plan."""
    moved = a_pod(address="10.0.0.7")

    plan = plan_group(a_snapshot(moved, records=(DESIRED,)))

    assert [Reason.ADDRESS_CHANGED] == [r.reason for r in plan.removals]
    assert ["10.0.0.7:8080"] == [c.desired.address for c in plan.creates]
    assert not plan.removals[0].by_readiness


def test_address_that_the_registrar_found_is_compared_too() -> None:
    """It is in the status where the members are known by their addresses."""
    spec = attrs.evolve(DESIRED.spec, address="")
    record = a_record(spec=spec, status=RecordStatus(address="10.0.0.1:8080"))

    plan = plan_group(a_snapshot(a_pod(address="10.0.0.7"), records=(record,)))

    assert [Reason.ADDRESS_CHANGED] == [r.reason for r in plan.removals]


def test_address_that_only_the_driver_knows_is_not_compared() -> None:
    """The pod's own address says nothing about it."""
    spec = attrs.evolve(DESIRED.spec, address="")
    record = a_record(spec=spec, status=RecordStatus(address="virtual:1"))
    driver = a_driver(address_source=AddressSource.DRIVER)

    assert plan_group(a_snapshot(a_pod(), records=(record,), driver=driver)).is_empty


@pytest.mark.parametrize(
    "front",
    [a_load_balancer(info={"id": "other"}), a_load_balancer(driver="other")],
    ids=["identity", "driver"],
)
def test_load_balancer_made_anew_gets_records_of_its_own(front: LoadBalancer) -> None:
    """What is registered at the one before is no member of this one."""
    plan = plan_group(a_snapshot(a_pod(), load_balancers=(front,), records=(DESIRED,)))

    assert [Reason.LOAD_BALANCER_REPLACED] == [r.reason for r in plan.removals]
    (create,) = plan.creates
    assert create.name != DESIRED.meta.key.name
    assert (front.driver, front.info) == (
        create.desired.spec.driver,
        create.desired.spec.lb_info,
    )


def test_record_without_an_address_yet_waits_for_it() -> None:
    """It has no address that could have changed."""
    record = a_record(spec=attrs.evolve(DESIRED.spec, address=""))

    assert plan_group(a_snapshot(a_pod(), records=(record,))).is_empty


def test_changed_parameters_update_the_record() -> None:
    """All but identity and address follows the group and the load balancer."""
    group = a_group(
        parameters={"weight": "9"},
        ensure_policy=ALWAYS,
        drain=DrainPolicy(True, seconds(5)),
    )
    front = a_load_balancer(attributes={"a": "b"})

    plan = plan_group(
        a_snapshot(a_pod(), group=group, load_balancers=(front,), records=(DESIRED,))
    )

    spec = attrs.evolve(
        DESIRED.spec,
        parameters={"weight": "9"},
        ensure_policy=ALWAYS,
        lb_attributes={"a": "b"},
        drain=DrainPolicy(True, seconds(5)),
    )
    assert Plan(updates=(Update(DESIRED, spec),), backends=1) == plan


def test_record_that_is_being_deleted_is_left_alone() -> None:
    """Its end is the deregistrar's."""
    draining = attrs.evolve(DESIRED, meta=a_record("old", deleting=True).meta)

    assert Plan() == plan_group(a_snapshot(records=(draining,)))


def test_backends_are_counted_once_ready_or_not() -> None:
    """Ports and load balancers multiply records, not backends."""
    selection = PodSelection((WEB, Port(9090)), names=frozenset({"web-1", "web-2"}))
    group = a_group(selection=selection)
    pods = (a_pod(), a_pod("web-2", ready=False))

    plan = plan_group(a_snapshot(*pods, group=group))

    assert (2, 1) == (plan.backends, plan.unready)


def test_static_backends_are_counted_by_address() -> None:
    """They are never unready."""
    group = a_group(selection=StaticSelection(("a:1", "b:1")))

    plan = plan_group(a_snapshot(group=group))

    assert (2, 0) == (plan.backends, plan.unready)


def test_port_that_is_listed_no_more_is_named() -> None:
    """With the group that it was in."""
    other = attrs.evolve(DESIRED.spec, backend=a_backend(port=Port(81)))
    record = attrs.evolve(DESIRED, spec=other)

    [removal] = plan_group(a_snapshot(a_pod(), records=(record,))).removals

    assert "port 81/TCP is no longer in group shop/web" == removal.message


@pytest.mark.parametrize(
    ("identity", "told"),
    [("x" * 9, "id=xxxxxxxxx of"), ("x" * 999, "xxx... of")],
    ids=["short", "long"],
)
def test_load_balancer_that_was_made_anew_is_told_apart(
    identity: str, told: str
) -> None:
    """By its identity, which drivers may make as long as they like."""
    anew = a_load_balancer(info={"id": identity})

    snapshot = a_snapshot(a_pod(), records=(DESIRED,), load_balancers=(anew,))
    [removal] = plan_group(snapshot).removals

    assert Reason.LOAD_BALANCER_REPLACED == removal.reason
    assert told in removal.message
    assert len(removal.message) < 500
