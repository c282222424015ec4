"""Whole lives up to Registered: which steps in which order, and what they leave behind."""

from datetime import timedelta
from functools import partial
from typing import Protocol

import attrs
import pytest

from lbcf.core.lifecycle.registration import (
    RegistrationState,
    UncertainCall,
    claim_after_update,
    is_of_line,
    learn,
    with_due,
)
from lbcf.core.lifecycle.steps import (
    CallDriver,
    CallRefused,
    Finish,
    LockTaken,
    NoAnswer,
    Observed,
    Permission,
    ReadPod,
    Reply,
    Step,
    StillRunning,
    Succeeded,
    TakeLock,
    WriteStatus,
    WriteUnconfirmed,
)
from lbcf.core.lifecycle.turn import DRIVER_RECHECK, NO_FAILURES, RETRY_FIRST, Report
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import ANNOTATION_DRAIN_GATE, ANNOTATION_SETTLING
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    BackendRecord,
    LoadBalancerDriver,
    RecordStatus,
    Waiting,
)
from lbcf.core.model.values import AddressSource, BootTime, MemberKey, Uid
from lbcf.core.reasons import Explanation, Reason
from tests.builders import (
    ALWAYS,
    BOOT,
    SETTLING,
    START,
    a_driver,
    a_key,
    a_record,
    a_spec,
    at,
    held_by,
    seconds,
)
from tests.core.world import World, conflict_at, gone_at


ME = "me"
GONE_AT = BootTime(BOOT, 0.0)
PLAIN = a_driver(member_key=MemberKey.ADDRESS)
FINDER = a_driver(member_key=MemberKey.ADDRESS, address_source=AddressSource.DRIVER)
NAMING_FINDER = a_driver(address_source=AddressSource.DRIVER)
NOWHERE = a_record(spec=a_spec(address=""))
MISSING = Explanation(
    Reason.DRIVER_NOT_FOUND, "LoadBalancerDriver shop/proxy does not exist"
)
LOST = NoAnswer(Reason.DRIVER_TIMED_OUT, "no answer in 10 s", may_land=True)
UNSENT = NoAnswer(Reason.DRIVER_UNREACHABLE, "connection refused", may_land=False)
NO = CallRefused("quota exceeded")
BUSY = StillRunning("working on it")


def visit(
    world: World,
    known: RegistrationState | None = None,
    *,
    driver: LoadBalancerDriver | Explanation | None = None,
    address: str = "",
) -> tuple[RegistrationState, Finish]:
    """Pay a record a visit, as the registrar does: with what is due by the clock."""
    known = known or RegistrationState(ME, first_seen=world.monotonic)
    known = with_due(
        attrs.evolve(known, driver=driver or a_driver()), world.stored, world.now()
    )
    return world.register(known.begin_turn(driver or a_driver(), address))


def take_up(
    world: World,
    *,
    driver: LoadBalancerDriver | Explanation | None = None,
    address: str = "",
) -> tuple[RegistrationState, Finish]:
    """Visit a record that this incarnation has just created."""
    record = world.stored
    known = RegistrationState(
        ME, first_seen=world.monotonic, claimed=record.meta.generation
    )
    permission = Permission(record, world.monotonic)
    return world.register(known.begin_turn(driver or a_driver(), address, permission))


class Start(Protocol):
    """A first visit, of either kind."""

    def __call__(
        self, world: World, *, driver: LoadBalancerDriver | Explanation
    ) -> tuple[RegistrationState, Finish]:
        """Visit a record for the first time."""


def word(record: BackendRecord) -> tuple[bool | None, str]:
    """Say what a record's Registered condition says."""
    found = conditions.find(record.status.conditions, conditions.REGISTERED)
    assert found is not None
    return found.status, found.reason


def test_own_record_with_an_address_takes_one_call_and_one_write() -> None:
    """The create was the permission and the claim: the record is not read, nor marked."""
    world = World(a_record())

    _, finish = take_up(world)

    assert ["ReadBalancer", "ensureBackend", "WriteStatus"] == world.kinds
    assert world.stored.is_settled
    assert world.stored.spec.address == world.stored.status.address
    assert Finish() == finish


LISTING = attrs.evolve(
    a_driver(), timeouts={Operation.LIST_BACKENDS.value: seconds(10)}
)


@pytest.mark.parametrize(("driver", "expected"), [(LISTING, ()), (None, (None,))])
def test_service_of_a_member_that_nobody_lists_is_unknown_from_the_start(
    driver: LoadBalancerDriver | None, expected: tuple[None, ...]
) -> None:
    """It is written with Registered, before it; who is listed is in service till told."""
    world = World(a_record())

    take_up(world, driver=driver)

    said = world.stored.status.conditions
    found = tuple(c.status for c in said if c.type == conditions.IN_SERVICE)
    assert (expected, 1) == (found, world.kinds.count("WriteStatus"))
    assert conditions.REGISTERED == said[-1].type


GATED = {ANNOTATION_DRAIN_GATE: "25"}


def test_pod_that_waits_is_read_once_before_the_first_ensure() -> None:
    """It is read when the record exists, by its name and uid (w60, w61)."""
    world = World(a_record(annotations=GATED))
    world.answers.append(NO)

    state, _ = take_up(world)

    assert ["ReadPod", "ReadBalancer", "ensureBackend", "WriteStatus"] == world.kinds
    assert ReadPod(a_key("web-1"), Uid("uid-web-1")) == world.steps[0]
    visit(world, state)
    assert 1 == world.kinds.count("ReadPod")
    assert world.stored.is_registered


def test_record_of_a_pod_that_is_being_deleted_is_never_ensured() -> None:
    """An older view made it, and the pod may have been told to end by now."""
    world = World(a_record(annotations=GATED), pod_is_ending=True)

    state, finish = take_up(world)
    visit(world, state)

    assert not world.calls(Operation.ENSURE_BACKEND)
    assert (False, "PodTerminating") == word(world.stored)
    assert finish.again_after is not None


def test_registered_record_is_ensured_again_without_a_look_at_its_pod() -> None:
    """Whoever registered it has looked; the record holds the pod until it is gone."""
    world = World(a_record(annotations=GATED, registered=True))
    world.put(spec=a_spec(parameters={"weight": "2"}))

    visit(world)

    assert world.calls(Operation.ENSURE_BACKEND)
    assert "ReadPod" not in world.kinds


def test_load_balancer_is_read_once_before_the_first_ensure() -> None:
    """It is read when the record exists: whoever deletes it lists its records (w86, w87)."""
    world = World(a_record())
    world.answers.append(NO)

    state, _ = take_up(world)

    assert ["ReadBalancer", "ensureBackend", "WriteStatus"] == world.kinds
    visit(world, state)
    assert 1 == world.kinds.count("ReadBalancer")
    assert world.stored.is_registered


def test_record_whose_load_balancer_goes_is_not_ensured_until_it_is_there() -> None:
    """It is looked at again: the load balancer may be made anew as the same one."""
    world = World(a_record(), balancer_is_ending=True)

    state, finish = visit(world)

    assert not world.calls(Operation.ENSURE_BACKEND)
    assert (False, "LoadBalancerDeleting") == word(world.stored)
    assert DRIVER_RECHECK == finish.again_after
    world.balancer_is_ending = False
    visit(world, state)
    assert world.stored.is_registered


def test_record_whose_load_balancer_cannot_be_understood_says_so() -> None:
    """Nobody knows whether it is being deleted."""
    world = World(a_record(), balancer_is_unreadable="front: ensurePolicy is odd")

    state, finish = visit(world)

    assert not world.calls(Operation.ENSURE_BACKEND)
    assert (False, "LoadBalancerUnreadable") == word(world.stored)
    assert DRIVER_RECHECK == finish.again_after
    world.balancer_is_unreadable = ""
    visit(world, state)
    assert world.stored.is_registered


def test_registered_record_is_ensured_again_without_a_look_at_its_load_balancer() -> (
    None
):
    """Whoever registered it has looked, and since then the load balancer waits for it."""
    world = World(a_record(registered=True))
    world.put(spec=a_spec(parameters={"weight": "2"}))

    visit(world)

    assert world.calls(Operation.ENSURE_BACKEND)
    assert "ReadBalancer" not in world.kinds


@pytest.mark.parametrize(
    ("said", "written"),
    [
        pytest.param({}, True, id="the usual time"),
        pytest.param({ANNOTATION_SETTLING: "74"}, True, id="less"),
        pytest.param({ANNOTATION_SETTLING: "75"}, False, id="as much"),
        pytest.param({ANNOTATION_SETTLING: "90"}, False, id="more"),
        pytest.param({ANNOTATION_SETTLING: "many"}, True, id="no number"),
    ],
)
def test_record_says_how_long_an_ensure_may_take_effect_before_it_is_sent(
    said: dict[str, str], written: bool
) -> None:
    """Its deregistrar goes by that, whatever the driver says to it by then."""
    world = World(a_record())
    world.put(annotations=said)
    slow = attrs.evolve(a_driver(), late_effect=seconds(60))

    take_up(world, driver=slow)

    first = ["WriteSettling"] if written else []
    assert [*first, "ReadBalancer", "ensureBackend", "WriteStatus"] == world.kinds
    assert world.stored.settling >= slow.settling(Operation.ENSURE_BACKEND)
    assert world.stored.is_settled


def test_member_known_by_address_is_locked_then_written_then_ensured() -> None:
    """What B must know before the first ensure is in the record by then."""
    world = World(NOWHERE)
    said = seconds(60)
    world.locks.append(LockTaken(said))

    take_up(world, driver=PLAIN, address="10.0.0.1:8080")

    assert [
        "TakeLock",
        "WriteStatus",
        "ReadBalancer",
        "ensureBackend",
        "WriteStatus",
    ] == world.kinds
    written = RecordStatus("10.0.0.1:8080", ensuring=ME, lock_settling=said)
    assert written == world.writes[0]
    assert world.stored.is_settled


def test_address_that_only_the_driver_knows_is_asked_for_first() -> None:
    """Its answer is locked and written like any other."""
    world = World(NOWHERE)
    world.answers.append(Succeeded(backend_addr="virtual:1"))

    take_up(world, driver=FINDER)

    assert ["generateBackendAddr", "TakeLock", "WriteStatus"] == world.kinds[:3]
    assert ["virtual:1"] == [c.address for c in world.calls(Operation.ENSURE_BACKEND)]
    assert "virtual:1" == world.stored.address


def test_driver_that_gives_no_address_is_asked_again_later() -> None:
    """Succ without an address is no answer: it must not be asked in a circle."""
    world = World(NOWHERE)
    world.answers.append(Succeeded())

    _, finish = take_up(world, driver=FINDER)

    assert (False, "DriverBadAnswer") == word(world.stored)
    assert ["generateBackendAddr", "WriteStatus"] == world.kinds
    assert Finish(again_after=RETRY_FIRST) == finish


def test_member_named_after_its_record_needs_no_lock() -> None:
    """Two of them may have one address."""
    world = World(NOWHERE)
    world.answers.append(Succeeded(backend_addr="virtual:1"))

    take_up(world, driver=NAMING_FINDER)

    expected = [
        "generateBackendAddr",
        "WriteStatus",
        "ReadBalancer",
        "ensureBackend",
        "WriteStatus",
    ]
    assert expected == world.kinds


def test_address_in_use_is_waited_for_and_not_written() -> None:
    """B would deregister the holder's member if it were."""
    world = World(NOWHERE)
    world.locks.append(held_by("other", seconds(7)))

    known, finish = take_up(world, driver=PLAIN, address="10.0.0.1:8080")

    assert (False, Reason.ADDRESS_IN_USE) == word(world.stored)
    assert "by record other; waiting" in world.stored.status.conditions[0].message
    assert Waiting(Uid("uid-other")) == world.stored.status.waiting
    assert ("", "") == (world.stored.address, world.stored.status.ensuring)
    assert Finish(again_after=seconds(7)) == finish

    visit(world, known, driver=PLAIN, address="10.0.0.1:8080")

    assert world.stored.is_registered
    assert None is world.stored.status.waiting


def test_who_waits_for_another_namespace_is_not_told_its_names() -> None:
    """What others call their records is nobody else's business."""
    world = World(NOWHERE)
    world.locks.append(held_by("their-secret", namespace="bank"))

    take_up(world, driver=PLAIN, address="10.0.0.1:8080")

    message = world.stored.status.conditions[0].message
    assert "10.0.0.1:8080 is held by a record of another namespace" in message
    assert "their-secret" not in message
    assert "bank" not in str(world.stored.status)


def test_who_waits_for_a_record_that_is_gone_is_told_until_when() -> None:
    """Nobody has said that its calls were answered: they may arrive until then."""
    world = World(NOWHERE)
    world.locks.append(held_by("other", seconds(25), gone_at=GONE_AT))

    take_up(world, driver=PLAIN, address="10.0.0.1:8080")

    assert (False, Reason.ADDRESS_NOT_FREE_YET) == word(world.stored)
    message = world.stored.status.conditions[0].message
    free_at = world.now().wall + seconds(25)
    assert f"at {free_at:%H:%M:%S} UTC at the latest" in message
    assert free_at == world.stored.status.next_attempt


def test_record_that_had_the_same_name_is_not_taken_for_the_one_that_waits() -> None:
    """The pod of a StatefulSet comes again under its name, at its address."""
    world = World(NOWHERE)
    held = held_by(world.stored.meta.key.name, seconds(25), gone_at=GONE_AT)
    world.locks.append(attrs.evolve(held, holder=world.stored.meta.key))

    take_up(world, driver=PLAIN, address="10.0.0.1:8080")

    message = world.stored.status.conditions[0].message
    assert "is held by an earlier record of this name, which is gone" in message


def test_since_when_the_holder_is_gone_is_written_once_for_each_machine() -> None:
    """A process that begins anew there goes on counting, and writes nothing more."""
    world = World(NOWHERE)
    for moment in (None, GONE_AT, BootTime(BOOT, 5.0), BootTime("another", 7.0)):
        world.locks.append(held_by(gone_at=moment))
        take_up(world, driver=PLAIN, address="10.0.0.1:8080")

    written = [status.waiting for status in world.writes]
    of_the_holder = partial(Waiting, Uid("uid-other"))
    moments = (None, GONE_AT, BootTime("another", 7.0))
    assert [of_the_holder(gone_at=moment) for moment in moments] == written


def test_a_lock_that_says_nothing_of_ours_is_named() -> None:
    """Somebody has edited it: whoever reads the condition can look at it."""
    world = World(NOWHERE)
    nobody = attrs.evolve(held_by(), holder=None, uid=Uid(""))
    world.locks.append(nobody)

    take_up(world, driver=PLAIN, address="10.0.0.1:8080")

    message = world.stored.status.conditions[0].message
    assert f"held by Lease {nobody.lock}" in message
    assert None is world.stored.status.waiting


def test_what_a_deregistrar_wrote_of_the_holder_is_handed_to_the_lock() -> None:
    """The address is free at once; what is told meanwhile leaves that as it is."""
    world = World(NOWHERE)
    world.locks.append(held_by())
    known, _ = take_up(world, driver=PLAIN, address="10.0.0.1:8080")
    told = Waiting(Uid("uid-other"), is_over=True)
    world.put(status=attrs.evolve(world.stored.status, waiting=told))
    world.locks.append(held_by())

    known, _ = visit(world, known, driver=PLAIN, address="10.0.0.1:8080")
    assert told == world.stored.status.waiting
    visit(world, known, driver=PLAIN, address="10.0.0.1:8080")

    asked = [step.waiting for step in world.steps if isinstance(step, TakeLock)]
    assert [None, told, told] == asked
    assert world.stored.is_registered


def test_whoever_ends_records_is_written_with_the_address() -> None:
    """Before the first call there is nobody else who could have called for its end."""
    world = World(NOWHERE)
    known = RegistrationState(ME, 0.0, deregistrar="its-end")

    visit(world, known, driver=PLAIN, address="10.0.0.1:8080")

    assert "its-end" == world.writes[0].deregistrar
    assert "its-end" == world.stored.status.deregistrar


def test_backend_that_moved_while_waiting_is_locked_anew() -> None:
    """Neither the address that it had then nor the lock on that is used."""
    world = World(NOWHERE)
    known = attrs.evolve(
        RegistrationState(ME, 0.0), address="10.0.0.1:8080", locked=True
    )

    visit(world, known, driver=PLAIN, address="10.0.0.7:8080")

    locks = [s.address for s in world.steps if isinstance(s, TakeLock)]
    assert ["10.0.0.7:8080"] == locks
    assert "10.0.0.7:8080" == world.stored.address


def test_lock_once_taken_is_not_asked_for_again() -> None:
    """A conflict at the write of the address costs a read, not another lock."""
    world = World(NOWHERE)
    world.before = conflict_at(WriteStatus)

    take_up(world, driver=PLAIN, address="10.0.0.1:8080")

    assert ["TakeLock", "WriteStatus", "ReadRecord", "WriteStatus"] == world.kinds[:4]


def test_address_found_by_a_driver_is_kept_for_the_next_turn() -> None:
    """It is not asked twice, and the lock stays."""
    world = World(NOWHERE)
    world.answers.append(Succeeded(backend_addr="virtual:1"))
    world.locks.append(held_by())
    known, _ = take_up(world, driver=FINDER)

    visit(world, known, driver=FINDER)

    assert 1 == len(world.calls(Operation.GENERATE_BACKEND_ADDR))
    assert "virtual:1" == world.stored.address


def test_unknown_address_of_a_backend_is_told_and_waited_for() -> None:
    """Without it there is nothing to lock, write or ensure."""
    for start in (visit, take_up):
        world = World(NOWHERE)

        _, finish = start(world, driver=PLAIN)

        assert (False, Reason.ADDRESS_UNKNOWN) == word(world.stored)
        assert "WriteStatus" == world.kinds[-1]
        assert None is not finish.again_after


def test_record_of_another_incarnation_is_doubted_for_good() -> None:
    """Its creator may have a call out, now and later: nobody knows, B must confirm."""
    world = World(a_record())

    visit(world)

    expected = [
        "ReadRecord",
        "WriteStatus",
        "ReadBalancer",
        "ensureBackend",
        "WriteStatus",
    ]
    assert expected == world.kinds
    assert ["*", "*"] == [status.ensuring for status in world.writes]
    assert world.stored.is_registered
    assert not world.stored.is_settled


@pytest.mark.parametrize("ensuring", ["other", "*"])
def test_marker_of_another_incarnation_becomes_a_star(ensuring: str) -> None:
    """It is never replaced by our own name."""
    world = World(a_record(ensuring=ensuring))

    visit(world)

    assert {"*"} == {status.ensuring for status in world.writes}


def test_marker_of_another_incarnation_outdoes_a_claim() -> None:
    """It signed at this generation after us: what we once knew is over."""
    world = World(a_record(ensuring="other"))

    visit(world, RegistrationState(ME, 0.0, claimed=1))

    assert "WriteStatus" == world.kinds[1]
    assert "*" == world.stored.status.ensuring


@pytest.mark.parametrize("answer", [NO, UNSENT], ids=["refused", "never sent"])
def test_definite_failure_lets_the_marker_go_in_the_end(answer: Reply) -> None:
    """All calls had definite answers: whoever signed signs off."""
    world = World(a_record())
    world.answers.append(answer)

    known, _ = take_up(world)
    assert ME == world.stored.status.ensuring
    visit(world, known)

    assert world.stored.is_settled


def test_report_of_a_call_does_not_sign_over_a_star() -> None:
    """Another incarnation took the record up while the driver was refusing ours."""
    world = World(a_record())
    world.answers.append(NO)

    def take_over(w: World, step: Step) -> None:
        if isinstance(step, WriteStatus) and not w.stored.status.ensuring:
            w.put(status=attrs.evolve(w.stored.status, ensuring="*"))

    world.before = take_over

    known, _ = take_up(world)
    visit(world, known)

    assert world.stored.is_registered
    assert "*" == world.stored.status.ensuring


def test_running_that_ends_in_success_is_an_answer() -> None:
    """The task is done with it: its record is settled, and its end waits for nothing."""
    world = World(a_record())
    world.answers.append(BUSY)

    known, _ = take_up(world)
    assert ME == world.stored.status.ensuring
    visit(world, known)

    assert world.stored.is_settled


def test_call_without_an_answer_leaves_the_mark_until_it_is_over() -> None:
    """It may land after the Registered write; one that is sent later clears the mark."""
    world = World(a_record())
    world.answers.append(LOST)

    known, _ = take_up(world)
    assert ME == world.stored.status.ensuring
    known, finish = visit(world, known)

    assert world.stored.is_registered
    assert ME == world.stored.status.ensuring
    assert finish.again_after is not None
    world.monotonic += finish.again_after.total_seconds()
    known, finish = visit(world, known)
    assert world.stored.is_settled
    assert not known.is_uncertain
    assert finish == Finish()


def test_call_without_an_answer_is_not_over_when_the_next_one_succeeds() -> None:
    """Nor is the mark cleared when the deregistrar could still be surprised by it."""
    world = World(a_record(ensuring=ME))
    out = UncertainCall(1, world.monotonic + 0.5)

    visit(world, RegistrationState(ME, first_seen=-100.0, uncertain_call=out))

    assert "ensureBackend" in world.kinds
    assert ME == world.stored.status.ensuring


def test_mark_of_one_that_ended_on_a_registered_record_is_confirmed() -> None:
    """An ensure of it with other parameters may have landed last."""
    world = World(a_record(registered=True, ensuring="other"))
    known, finish = visit(world)
    assert ["ReadRecord"] == world.kinds
    assert finish.again_after is not None
    world.monotonic += finish.again_after.total_seconds()

    _, finish = visit(world, known)

    assert "*" == world.stored.status.ensuring
    assert "ensureBackend" in world.kinds
    assert finish == Finish()


def test_sign_off_of_which_nothing_is_heard_is_made_impossible() -> None:
    """It could be made while the next ensure is out; the star is another version."""
    world = World(a_record())
    known = RegistrationState(ME, first_seen=0.0, claimed=world.stored.meta.generation)
    unheard = WriteStatus(world.stored, RecordStatus())

    visit(world, learn(known, unheard, WriteUnconfirmed(), world.now()))

    assert [
        "ReadRecord",
        "WriteStatus",
        "ReadBalancer",
        "ensureBackend",
        "WriteStatus",
    ] == world.kinds
    assert ["*", "*"] == [status.ensuring for status in world.writes]


def test_write_that_leaves_a_mark_may_be_made_whenever_it_likes() -> None:
    """Whoever reads it then expects the call that is out."""
    world = World(a_record(ensuring=ME))
    known = RegistrationState(ME, first_seen=0.0)
    unheard = WriteStatus(world.stored, RecordStatus(ensuring=ME))

    visit(world, learn(known, unheard, WriteUnconfirmed(), world.now()))

    assert ["ReadRecord", "ReadBalancer", "ensureBackend", "WriteStatus"] == world.kinds
    assert world.stored.is_settled


def test_call_without_an_answer_is_remembered_over_a_change() -> None:
    """The next generation is claimed, but it is not signed off."""
    world = World(a_record())
    world.answers.append(LOST)
    known, _ = take_up(world)
    world.put(spec=a_spec(parameters={"weight": "2"}))

    visit(world, attrs.evolve(known, claimed=2))

    assert ME == world.stored.status.ensuring


def test_refusal_is_told_with_its_words_and_the_next_attempt() -> None:
    """Nothing is stuck in the dark."""
    world = World(a_record())
    world.answers.append(NO)

    _, finish = take_up(world)

    (condition,) = world.stored.status.conditions
    assert (False, "DriverRefused") == (condition.status, condition.reason)
    assert condition.message == (
        "driver shop/proxy at ensureBackend answered Fail: quota exceeded"
    )
    assert START + RETRY_FIRST == world.stored.status.next_attempt
    assert Finish(again_after=RETRY_FIRST) == finish


def test_same_refusal_is_told_once() -> None:
    """A driver that says no for a day costs one write."""
    world = World(a_record())
    world.answers.extend([NO] * 8)
    known, _ = take_up(world)
    pauses = []
    for _ in range(7):
        known, finish = visit(world, known)
        assert finish.again_after is not None
        pauses.append(finish.again_after.total_seconds())

    assert [0.5, 1, 2, 4, 8, 16, 32] == pauses
    assert 1 == len(world.writes)


def test_busy_driver_is_asked_again_soon_and_a_failing_one_seldom() -> None:
    """Patience with the one is not counted as failures of the other."""
    world = World(a_record())
    world.answers.extend([BUSY] * 7 + [NO])
    known, finish = take_up(world)
    pauses = [finish.again_after]
    for _ in range(7):
        known, finish = visit(world, known)
        pauses.append(finish.again_after)

    assert [*map(seconds, (1, 2, 3, 4, 5, 5, 5)), RETRY_FIRST] == pauses


@pytest.mark.parametrize(
    "answer", [CallRefused("no", seconds(300)), StillRunning("wait", seconds(300))]
)
def test_wish_of_the_driver_is_honoured(answer: Reply) -> None:
    """It knows best when it can be asked again."""
    world = World(a_record())
    world.answers.append(answer)

    _, finish = take_up(world)

    assert Finish(again_after=seconds(300)) == finish


def test_success_clears_the_next_attempt_and_keeps_what_the_driver_wants_back() -> None:
    """An answer that says nothing of injectedInfo changes nothing of it."""
    status = RecordStatus(injected_info={"id": "7"}, next_attempt=START)
    world = World(a_record(status=status))

    take_up(world)

    assert {"id": "7"} == world.stored.status.injected_info
    assert None is world.stored.status.next_attempt


def test_what_the_driver_wants_back_is_written_with_the_success() -> None:
    """Also when it takes something back."""
    world = World(a_record(status=RecordStatus(injected_info={"id": "7"})))
    world.answers.append(Succeeded(injected_info={}))

    take_up(world)

    assert {} == world.stored.status.injected_info


def test_conflict_at_the_end_starts_over() -> None:
    """The answer was for another version: read, ensure, write."""
    world = World(a_record())
    world.before = conflict_at(WriteStatus)

    take_up(world)

    expected = ["ReadRecord", "ensureBackend", "WriteStatus"]
    assert ["ReadBalancer", "ensureBackend", "WriteStatus", *expected] == world.kinds
    assert world.stored.is_registered


def test_call_under_an_old_permission_is_made_under_the_new_one() -> None:
    """The record changed while the call waited for its place."""
    world = World(a_record())

    def wait(w: World, _step: Step) -> None:
        if len(w.steps) == 1:
            w.monotonic += 5
            w.put(spec=a_spec(parameters={"weight": "2"}))

    world.before = wait

    take_up(world)

    last = world.calls(Operation.ENSURE_BACKEND)[-1]
    assert {"weight": "2"} == last.permission.record.spec.parameters
    assert world.stored.is_registered
    assert not world.stored.is_settled


def test_record_that_is_deleted_meanwhile_is_left_alone() -> None:
    """No ensure under a permission that showed it deleting."""
    world = World(a_record())
    world.delete()

    _, finish = visit(world)

    assert ["ReadRecord"] == world.kinds
    assert Finish() == finish


def test_record_that_is_gone_ends_the_turn() -> None:
    """Wherever that is noticed."""
    for at_step in (1, 2, 3):
        world = World(NOWHERE)
        world.before = gone_at(at_step)

        known, finish = visit(world, driver=PLAIN, address="10.0.0.1:8080")

        assert known.is_over
        assert Finish() == finish


@pytest.mark.parametrize("start", [visit, take_up])
def test_missing_driver_is_told_once(start: Start) -> None:
    """And looked for again, though the news of it should come by itself."""
    world = World(a_record())

    known, finish = start(world, driver=MISSING)

    assert (False, "DriverNotFound") == word(world.stored)
    assert Finish(again_after=DRIVER_RECHECK) == finish

    _, again = visit(world, known, driver=MISSING)
    assert (1, finish) == (len(world.writes), again)
    assert [] == world.calls(Operation.ENSURE_BACKEND)


def test_missing_driver_writes_no_marker_for_a_record_without_an_address() -> None:
    """Nobody is ensuring it."""
    world = World(NOWHERE)

    take_up(world, driver=MISSING)

    assert [("", "")] == [(s.address, s.ensuring) for s in world.writes]


def test_changed_parameters_are_ensured_with_one_call_and_one_write() -> None:
    """The update of a settled record was our own: it is the claim and the permission."""
    before = a_record(registered=True)
    world = World(before)
    world.put(spec=a_spec(parameters={"weight": "2"}))
    after = world.stored
    known = RegistrationState(ME, 0.0, claimed=claim_after_update(None, before, after))

    world.register(known.begin_turn(a_driver(), "", Permission(after, 0.0)))

    assert ["ensureBackend", "WriteStatus"] == world.kinds
    assert world.stored.is_settled


def test_change_that_others_made_is_ensured_under_a_star() -> None:
    """Whoever made it may have a call out."""
    world = World(a_record(registered=True))
    world.put(spec=a_spec(parameters={"weight": "2"}))

    visit(world)

    assert {"*"} == {status.ensuring for status in world.writes}
    assert world.stored.is_registered


# --- ensuring again ---------------------------------------------------------------


def test_policy_always_ensures_by_period_without_a_write() -> None:
    """Its permission is a quorum read."""
    world = World(a_record(registered=True, spec=a_spec(ensure_policy=ALWAYS)))
    known, finish = visit(world)
    assert ([], Finish(seconds(60))) == (world.calls(Operation.ENSURE_BACKEND), finish)
    world.monotonic = 60.0

    known, finish = visit(world, known)

    assert ["ReadRecord", "ensureBackend"] == world.kinds[-2:]
    assert Finish(seconds(60)) == finish
    assert [] == world.writes


def test_policy_always_writes_what_the_driver_says_anew() -> None:
    """What it wants back may change at each call."""
    world = World(a_record(registered=True, spec=a_spec(ensure_policy=ALWAYS)))
    known = RegistrationState(ME, 0.0)
    world.monotonic = 60.0
    world.answers.append(Succeeded(injected_info={"id": "8"}))

    visit(world, known)

    assert {"id": "8"} == world.stored.status.injected_info
    assert 1 == len(world.writes)


@pytest.mark.parametrize("answer", [NO, LOST, BUSY])
def test_member_that_is_in_stays_registered_while_ensuring_it_fails(
    answer: Reply,
) -> None:
    """It was not taken out; the driver is asked again after a pause."""
    world = World(a_record(registered=True, spec=a_spec(ensure_policy=ALWAYS)))
    world.monotonic = 60.0
    world.answers.append(answer)

    _, finish = visit(world, RegistrationState(ME, 0.0))

    assert world.stored.is_registered
    assert [] == world.writes
    assert Finish(again_after=_first_pause(answer)) == finish


def _first_pause(answer: Reply) -> timedelta:
    return seconds(1) if isinstance(answer, StillRunning) else RETRY_FIRST


def test_member_that_is_in_stays_registered_while_its_driver_is_missing() -> None:
    """Only ensuring it again is late."""
    world = World(a_record(registered=True, spec=a_spec(ensure_policy=ALWAYS)))
    world.monotonic = 60.0
    known = attrs.evolve(RegistrationState(ME, 0.0), due=True)

    _, finish = world.register(known.begin_turn(MISSING, ""))

    assert world.stored.is_registered
    assert Finish(again_after=DRIVER_RECHECK) == finish


def test_doubted_record_is_ensured_once_more_when_all_older_calls_are_over() -> None:
    """One of them may have landed over ours with older parameters."""
    world = World(a_record())
    known, finish = visit(world)
    assert Finish(seconds(SETTLING)) == finish
    world.monotonic = SETTLING

    known, finish = visit(world, known)

    assert 2 == len(world.calls(Operation.ENSURE_BACKEND))
    assert Finish() == finish
    assert "*" == world.stored.status.ensuring

    world.monotonic = 1000.0
    assert Finish() == visit(world, known)[1]
    assert 2 == len(world.calls(Operation.ENSURE_BACKEND))


def test_own_lost_call_with_older_parameters_is_outwaited_too() -> None:
    """It may land over the new ones: measured on LBCF in Go, where it stays for ever."""
    world = World(a_record())
    world.monotonic = 100.0
    world.answers.append(LOST)
    known, _ = visit(world, RegistrationState(ME, 0.0))
    world.monotonic = 105.0
    world.put(spec=a_spec(parameters={"weight": "2"}))

    known, finish = visit(world, known)

    assert world.stored.is_registered
    assert Finish(seconds(SETTLING - 5)) == finish
    world.monotonic = 100.0 + SETTLING
    assert Finish() == visit(world, known)[1]
    assert 3 == len(world.calls(Operation.ENSURE_BACKEND))


def test_own_lost_call_is_outwaited_over_two_changes() -> None:
    """A later lost call does not make the earlier one forgotten."""
    world = World(a_record())
    world.monotonic = 100.0
    world.answers.extend([LOST, LOST])
    known, _ = visit(world, RegistrationState(ME, 0.0))
    world.put(spec=a_spec(parameters={"weight": "2"}))
    known, _ = visit(world, known)

    known, finish = visit(world, known)

    assert Finish(seconds(SETTLING)) == finish


def test_ensure_that_is_answered_late_confirms_nothing() -> None:
    """One with older parameters may have landed between its effect and its answer."""
    world = World(a_record(registered=True, ensuring="*"), monotonic=100.0)
    world.put(spec=a_spec(parameters={"weight": "2"}))

    def answered_late(world: World, step: Step) -> None:
        """Let the process stand still between its call and the answer."""
        if isinstance(step, CallDriver):
            world.monotonic = 100.0 + SETTLING

    world.before = answered_late
    known, finish = visit(world)

    assert world.stored.is_registered
    assert Finish(seconds(0)) == finish
    assert Finish() == visit(world, known)[1]
    assert 2 == len(world.calls(Operation.ENSURE_BACKEND))


def test_driver_that_is_always_busy_first_is_confirmed_once() -> None:
    """A call with the present parameters does no harm, however late it lands."""
    world = World(a_record())
    world.answers.extend([BUSY, Succeeded(), BUSY, Succeeded()])
    known, _ = visit(world)
    known, _ = visit(world, known)
    world.monotonic = SETTLING
    known, _ = visit(world, known)

    _, finish = visit(world, known)

    assert Finish() == finish
    assert 4 == len(world.calls(Operation.ENSURE_BACKEND))


# --- a load balancer that lost its members ------------------------------------------


def test_lost_member_is_written_down_as_lost_before_it_is_put_back() -> None:
    """A crash in between leaves a record that asks for it."""
    world = World(a_record(registered=True))

    known, _ = visit(
        world, attrs.evolve(RegistrationState(ME, 0.0), reset="it was reset")
    )

    expected = [
        "ReadRecord",
        "WriteStatus",
        "ReadBalancer",
        "ensureBackend",
        "WriteStatus",
    ]
    assert expected == world.kinds
    confessed = world.writes[0]
    assert ME == confessed.ensuring
    assert Reason.LOAD_BALANCER_RESET == confessed.conditions[0].reason
    assert world.stored.is_settled
    assert "" == known.reset


def test_lost_member_of_a_doubted_record_stays_doubted() -> None:
    """The star outlives everything."""
    world = World(a_record(registered=True, ensuring="*"))

    visit(world, attrs.evolve(RegistrationState(ME, 0.0), reset="it was reset"))

    assert {"*"} == {status.ensuring for status in world.writes}


def test_lost_member_without_a_driver_is_told() -> None:
    """It is out, and nobody can put it back."""
    world = World(a_record(registered=True))
    known = attrs.evolve(RegistrationState(ME, 0.0), reset="it was reset")

    known, finish = visit(world, known, driver=MISSING)

    assert (False, "DriverNotFound") == word(world.stored)
    assert Finish(again_after=DRIVER_RECHECK) == finish


# --- claims ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claimed", "before", "may_claim"),
    [
        pytest.param(None, a_record(registered=True), True, id="it was settled"),
        pytest.param(1, a_record(), True, id="it was claimed"),
        pytest.param(None, a_record(), False, id="it was not"),
        pytest.param(7, a_record(), False, id="another generation was"),
        pytest.param(1, a_record(ensuring="other"), False, id="others signed"),
        pytest.param(1, a_record(ensuring="*"), False, id="it was doubted"),
        pytest.param(
            1,
            a_record(spec=a_spec(ensure_policy=ALWAYS)),
            False,
            id="calls at any time",
        ),
    ],
)
def test_own_update_claims_what_nobody_else_can_be_ensuring(
    claimed: int | None, before: BackendRecord, may_claim: bool
) -> None:
    """The version that was changed tells."""
    after = attrs.evolve(before, meta=attrs.evolve(before.meta, generation=2))

    assert (2 if may_claim else None) == claim_after_update(claimed, before, after)


# --- single answers -------------------------------------------------------------------


FRESH = RegistrationState(ME, first_seen=0.0, driver=a_driver())
OLD_REPORT = Report(Condition(conditions.REGISTERED, False, Reason.DRIVER_REFUSED))


def a_call(operation: Operation, record: BackendRecord) -> CallDriver:
    """Make a call about a record that has just been read."""
    return CallDriver(operation, FINDER, Permission(record, 0.0), record.address)


def test_report_is_void_once_it_is_written() -> None:
    """And in a new turn."""
    record = a_record(registered=True)
    told = attrs.evolve(FRESH, report=OLD_REPORT)
    written = Observed(Permission(record, 1.0))

    assert told.begin_turn(a_driver(), "").report is None
    assert (
        learn(told, WriteStatus(record, record.status), written, at(1)).report is None
    )


@pytest.mark.parametrize("ensured", [None, Succeeded()])
def test_reset_is_over_when_the_ensure_after_it_is_written(
    ensured: Succeeded | None,
) -> None:
    """Another write of a registered record says nothing of it."""
    record = a_record(registered=True)
    lost = attrs.evolve(FRESH, reset="lost", due=True, ensured=ensured)
    written = Observed(Permission(record, 1.0))

    known = learn(lost, WriteStatus(record, record.status), written, at(1))

    assert (ensured is None, ensured is None) == (bool(known.reset), known.due)


@pytest.mark.parametrize("earlier", [None, UncertainCall(1, 60.0)])
def test_write_without_an_answer_that_cleared_ensuring_is_remembered(
    earlier: UncertainCall | None,
) -> None:
    """Beside a call without one."""
    record = a_record(registered=True, generation=4)
    known = attrs.evolve(FRESH, claimed=4, uncertain_call=earlier)

    known = learn(known, WriteStatus(record, record.status), WriteUnconfirmed(), at(5))

    assert known.claimed is None
    assert (earlier, True) == (known.uncertain_call, known.unheard)


@pytest.mark.parametrize("boot", ["", BOOT])
def test_held_address_is_told_with_what_can_be_counted_from(boot: str) -> None:
    """Of a machine that is not known no clock is written."""
    record = a_record(generation=4)
    step = TakeLock(a_driver(), record, record.address, seconds(1))

    known = learn(FRESH, step, held_by(gone_at=BootTime(boot, 3.0)), at(5))

    assert known.report is not None
    told = known.report.condition
    assert "is held by record other, which is gone" in told.message
    assert record.meta.generation == told.observed_generation
    assert known.report.waiting is not None
    assert (BootTime(boot, 3.0) if boot else None) == known.report.waiting.gone_at


@pytest.mark.parametrize(
    "operation", [Operation.GENERATE_BACKEND_ADDR, Operation.ENSURE_BACKEND]
)
def test_success_ends_a_streak_of_failures(operation: Operation) -> None:
    """Of either call."""
    failed = attrs.evolve(FRESH, streak=NO_FAILURES.with_answer(operation, NO, at(0)))
    call = a_call(operation, NOWHERE)

    known = learn(failed, call, Succeeded(backend_addr="eni-7:1"), at(1))

    assert NO_FAILURES == known.streak


def test_record_without_an_address_is_not_marked() -> None:
    """No ensure of it can be out."""
    call = a_call(Operation.GENERATE_BACKEND_ADDR, NOWHERE)

    known = learn(FRESH, call, NO, at(1))

    assert known.report is not None
    assert known.report.marker is None


@pytest.mark.parametrize(
    ("mark", "incarnation", "is_of_it"),
    [
        ("me", "me", True),
        ("me", "me/heir", True),
        ("me/heir", "me/another", True),
        ("me", "you/me", False),
        ("", "me", False),
        ("", "", False),
    ],
)
def test_mark_is_of_all_that_began_in_each_other_s_place(
    mark: str, incarnation: str, *, is_of_it: bool
) -> None:
    """By the name of the first; no mark is nobody's."""
    assert is_of_it is is_of_line(mark, incarnation)
