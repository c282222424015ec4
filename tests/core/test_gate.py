"""The readiness gate: when it opens, and whom it waits for until then."""

from datetime import timedelta

import attrs
import pytest

from lbcf.core.lifecycle.in_service import (
    in_service,
    with_in_service,
)
from lbcf.core.model import conditions
from lbcf.core.model.cluster import Pod, ReadinessGate, Snapshot
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendGroup, BackendRecord, PodRef
from lbcf.core.model.values import Gate, ObjectKey, Uid
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.gate import (
    Claim,
    KeepShut,
    OpenGate,
    Wait,
    decide_gate,
    unclear_group,
    waits_of,
)
from lbcf.core.selection.plan import plan_group
from tests.builders import (
    START,
    a_group,
    a_load_balancer,
    a_pod,
    a_record,
    a_snapshot,
    seconds,
)


BOTH = (a_load_balancer("front"), a_load_balancer("back"))
NOW = seconds(1)
WHY = Explanation(Reason.LOAD_BALANCER_NOT_FOUND, "it is not there")


def gated() -> Pod:
    """Make a pod that can serve and waits for its gate."""
    return a_pod(gate=ReadinessGate(since=START))


def at_both(**fields: object) -> BackendGroup:
    """Make a group at two load balancers."""
    group = a_group(load_balancers=("front", "back"))
    return attrs.evolve(group, **fields)  # type: ignore[arg-type]


def records(pod: Pod, *registered: str) -> tuple[BackendRecord, ...]:
    """Make the records that a pod should have, those at the named places registered."""
    made = []
    for create in plan_group(snapshot(pod)).creates:
        spec = create.desired.spec
        record = attrs.evolve(a_record(create.name), spec=spec)
        if spec.load_balancer in registered:
            record = with_condition(record, conditions.REGISTERED, True, "is in")
        made.append(record)
    return tuple(made)


def with_condition(
    record: BackendRecord, kind: str, status: bool, message: str
) -> BackendRecord:
    """Let a record say something."""
    said = Condition(kind, status, Reason.REGISTERED, message, 1)
    found = conditions.with_condition(record.status.conditions, said, START)
    return attrs.evolve(record, status=attrs.evolve(record.status, conditions=found))


def without_uid(record: BackendRecord) -> BackendRecord:
    """Leave out the uid of the pod, as LBCF in Go did."""
    assert isinstance(record.spec.backend, PodRef)
    backend = attrs.evolve(record.spec.backend, uid=Uid(""))
    return attrs.evolve(record, spec=attrs.evolve(record.spec, backend=backend))


def snapshot(
    pod: Pod, *found: BackendRecord, group: BackendGroup | None = None
) -> Snapshot:
    """Make a snapshot of one pod at two load balancers."""
    return a_snapshot(pod, group=group or at_both(), records=found, load_balancers=BOTH)


def decide(*claims: Claim, waited: timedelta = NOW) -> OpenGate | KeepShut:
    """Decide where everything can be understood."""
    return decide_gate(claims, (), waited)


def claim(
    *found: BackendRecord, optional: tuple[str, ...] = (), **group: object
) -> Claim:
    """Make what the group at two load balancers wants of the pod."""
    own = at_both(**group)
    return Claim(own, snapshot(gated(), *found, group=own), optional)


def places(decision: OpenGate | KeepShut) -> list[str]:
    """Say which load balancers a gate waits for."""
    assert isinstance(decision, KeepShut)
    return [wait.what for wait in decision.waits]


def test_gate_waits_for_each_load_balancer() -> None:
    """One of two is not enough, and the one that is missing is named."""
    decision = decide(claim(*records(gated(), "front")))

    assert ["back"] == places(decision)


def test_gate_says_why_a_record_is_not_registered() -> None:
    """In the words of its condition, whatever is said of its service."""
    front, back = records(gated(), "front")
    refused = with_condition(back, conditions.REGISTERED, False, "quota exceeded")

    decision = decide(claim(front, refused))

    assert isinstance(decision, KeepShut)
    told = f"record {back.meta.key.name}: quota exceeded"
    assert [told] == [wait.why.message for wait in decision.waits]


def test_gate_opens_once_registered_everywhere() -> None:
    """The last registration opens it, with the places in the message."""
    decision = decide(claim(*records(gated(), "front", "back")))

    assert OpenGate(Reason.ALL_REGISTERED, "registered at back, front") == decision


def test_records_without_uid_are_the_pods() -> None:
    """As LBCF in Go wrote them: they are counted, and told of in their own words."""
    front, back = map(without_uid, records(gated(), "front", "back"))
    waits = with_condition(back, conditions.REGISTERED, False, "quota exceeded")

    told = decide(claim(front, waits))

    assert isinstance(decide(claim(front, back)), OpenGate)
    assert [waits.spec.load_balancer] == places(told)
    assert "quota exceeded" in str(told)


def test_gate_of_a_pod_without_records_waits() -> None:
    """What is to be written is waited for, not only what is."""
    decision = decide(claim())

    assert ["front", "back"] == places(decision)
    assert "is not written yet" in str(decision)


def test_pod_that_no_group_selects_waits_for_nobody() -> None:
    """A policy may give the gate to pods that no load balancer is meant for."""
    assert Reason.NO_GROUP_SELECTS == getattr(decide(), "reason", None)


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param(claim(gate=Gate.OPTIONAL), id="group"),
        pytest.param(claim(optional=("front", "back")), id="load balancers"),
    ],
)
def test_what_is_optional_is_not_waited_for(claims: Claim) -> None:
    """Neither a group nor a load balancer that says so holds a rollout."""
    assert Reason.NOTHING_REQUIRED == getattr(decide(claims), "reason", None)


def test_all_groups_are_waited_for() -> None:
    """A pod of two groups is in when both have it in."""
    other = attrs.evolve(claim(), group=a_group("other"))
    decision = decide(claim(*records(gated(), "front", "back")), other)

    assert isinstance(decision, KeepShut)
    assert {"other"} == {wait.group.name for wait in decision.waits}


def test_load_balancer_that_cannot_be_used_yet_is_waited_for() -> None:
    """No answer is not an empty answer."""
    why = Explanation(Reason.LOAD_BALANCER_NOT_CREATED, "it is not created yet")
    found = a_snapshot(gated(), group=a_group(), load_balancers=())
    unsure = attrs.evolve(found, undecided={"front": why})
    decision = decide(Claim(a_group(), unsure))

    assert isinstance(decision, KeepShut)
    assert why == decision.waits[0].why


def test_group_that_cannot_be_read_is_waited_for() -> None:
    """It may select the pod."""
    wait = unclear_group(ObjectKey("shop", "web"), "spec: what?")

    assert isinstance(decide_gate((), (wait,), NOW), KeepShut)


def test_gate_opens_when_its_time_is_over() -> None:
    """A load balancer that does not answer holds no rollout for ever."""
    waiting = claim(*records(gated(), "front"))
    before = decide(waiting, waited=seconds(599))
    after = decide(waiting, waited=seconds(600))

    assert isinstance(before, KeepShut)
    assert seconds(1) == before.again
    assert isinstance(after, OpenGate)
    assert Reason.GATE_TIMED_OUT == after.reason
    assert "back (group web)" in after.message


def test_timeout_can_be_off() -> None:
    """Who would rather have a rollout stand still says 0."""
    decision = decide(claim(gate_timeout=None), waited=timedelta(days=9))

    assert isinstance(decision, KeepShut)
    assert decision.again is None


def test_record_on_its_way_out_does_not_count() -> None:
    """A pod that was moved has to be registered where it is now."""
    front, back = records(gated(), "front", "back")
    moved = attrs.evolve(front, spec=attrs.evolve(front.spec, host="10.9.9.9"))
    decision = decide(claim(moved, back))

    assert [front.spec.load_balancer] == places(decision)


def test_member_that_is_down_is_waited_for() -> None:
    """Registered and known to get no traffic is not in service."""
    front, back = records(gated(), "front", "back")
    down = with_condition(back, conditions.IN_SERVICE, False, "it says DOWN")
    decision = decide(claim(front, down))

    assert [back.spec.load_balancer] == places(decision)
    assert "it says DOWN" in str(decision)


def test_group_being_deleted_is_not_waited_for() -> None:
    """Its records go, and none will come."""
    group = at_both()
    gone = attrs.evolve(group, meta=attrs.evolve(group.meta, deleting_since=START))
    decision = decide(Claim(gone, snapshot(gated(), group=gone)))

    assert Reason.NO_GROUP_SELECTS == getattr(decision, "reason", None)


def test_wait_tells_in_words() -> None:
    """Who, of which group, and why."""
    why = Explanation(Reason.AWAITING_REGISTRATION, "record web-1: timed out")
    wait = Wait(ObjectKey("shop", "web"), "front", why, None)

    assert "front (group web): record web-1: timed out" == str(wait)


def test_gate_waits_for_the_load_balancers_own_checks() -> None:
    """Registered is not in service, where the driver says so."""
    front, back = records(gated(), "front", "back")
    if front.spec.load_balancer != "front":
        front, back = back, front
    whole = claim(front, back)
    decision = decide(attrs.evolve(whole, unchecked={back.meta.uid}))

    assert ["back"] == places(decision)
    assert "before its own checks have passed" in str(decision)
    assert isinstance(decide(whole), OpenGate)


def test_word_of_the_load_balancer_comes_before_what_is_awaited() -> None:
    """A member that is down for long says so itself."""
    front, back = records(gated(), "front", "back")
    down = with_in_service(back, in_service(back, "DOWN"), START)
    decision = decide(attrs.evolve(claim(front, down), unchecked={back.meta.uid}))

    assert "it says DOWN" in str(decision)


def test_what_nobody_lists_does_not_hide_what_a_record_waits_for() -> None:
    """A driver without listBackends says nothing of service: Registered has the reason."""
    front, back = records(gated(), "front", "back")
    lost = Condition(conditions.REGISTERED, False, Reason.DRIVER_REFUSED, "no quota")
    waiting = attrs.evolve(back, status=attrs.evolve(back.status, conditions=(lost,)))
    unlisted = with_in_service(waiting, in_service(waiting, None), START)

    assert "no quota" in str(decide(claim(front, unlisted)))


@pytest.mark.parametrize(
    "undecided", [WHY, {"front": WHY}], ids=["the group", "a load balancer"]
)
def test_whatever_is_waited_for_has_the_time_of_its_group(
    undecided: Explanation | dict[str, Explanation],
) -> None:
    """Also what cannot be told yet."""
    group = at_both(gate_timeout=seconds(10))
    seen: Snapshot | Explanation = WHY
    if isinstance(undecided, dict):
        seen = attrs.evolve(snapshot(gated(), group=group), undecided=undecided)
    waits = list(waits_of(Claim(group, seen, ())))

    assert waits
    assert {seconds(10)} == {wait.timeout for wait in waits}
    assert unclear_group(group.meta.key, "no").timeout is not None


@pytest.mark.parametrize(
    ("deleting", "doing"), [(False, "being registered"), (True, "being deregistered")]
)
def test_gate_says_what_is_being_done(*, deleting: bool, doing: str) -> None:
    """With the port of the pod, where its record says nothing better."""
    found = records(gated())
    meta = attrs.evolve(found[0].meta, deleting_since=START if deleting else None)
    decision = decide(claim(attrs.evolve(found[0], meta=meta), *found[1:]))

    assert f"port 8080/TCP is {doing} by record {meta.key.name}" in str(decision)


def test_gate_that_timed_out_lists_whom_it_waited_for() -> None:
    """Each with its own words, which may have commas."""
    decision = decide(claim(gate_timeout=seconds(10)), waited=seconds(11))

    assert Reason.GATE_TIMED_OUT == getattr(decision, "reason", None)
    assert 1 == str(decision).count("; ")
