"""The model allows what the core does, and refuses what breaks a rule of it."""

import copy

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import attrs
import pytest

from lbcf.core.lifecycle import deregistration, registration
from lbcf.core.lifecycle.deregistration import DeregistrationState
from lbcf.core.lifecycle.registration import RegistrationState
from lbcf.core.lifecycle.steps import (
    CallRefused,
    Finish,
    NoAnswer,
    Permission,
    Reply,
    Step,
    StillRunning,
    Succeeded,
)
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model.names import ANNOTATION_ABANDON
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import MemberKey
from lbcf.core.reasons import Reason
from tests.builders import SETTLING, a_driver, a_record, a_spec
from tests.core.world import World
from tests.lab.model.follow import follow
from tests.lab.model.tape import Json, Tape, facts


S = TypeVar("S")
UID = "uid-web-1"
RECORD = a_driver()
ADDRESS = a_driver(member_key=MemberKey.ADDRESS)
DRAINING = a_driver(drains=True)
BUSY = a_record(
    spec=a_spec(drain_timeout=timedelta(seconds=30)), registered=True, deleting=True
)
"""To be drained."""
SILENCE = NoAnswer(Reason.DRIVER_TIMED_OUT, "no answer", may_land=True)
UNSENT = NoAnswer(Reason.DRIVER_UNREACHABLE, "cannot connect", may_land=False)
RUNNING = StillRunning()


def played(
    tape: Tape,
    world: World,
    actor: str,
    state: S,
    *,
    next_step: Callable[[S, Now], Step],
    learn: Callable[[S, Step, Reply, Now], S],
) -> S:
    """Let a turn run to its end on a tape."""
    while True:
        step = next_step(state, world.now())
        if isinstance(step, Finish):
            return state
        began = world.now()
        reply = world.perform(step)
        tape.note(actor, step, reply, uid=UID, began=began, ended=world.now())
        state = learn(state, step, reply, world.now())


def registered(
    tape: Tape, world: World, actor: str, state: RegistrationState
) -> RegistrationState:
    """Let a registrar's turn run to its end on a tape."""
    step, learn = registration.next_step, registration.learn
    return played(tape, world, actor, state, next_step=step, learn=learn)


def ended(
    tape: Tape, world: World, actor: str, state: DeregistrationState
) -> DeregistrationState:
    """Let a deregistrar's turn run to its end on a tape."""
    step, learn = deregistration.next_step, deregistration.learn
    return played(tape, world, actor, state, next_step=step, learn=learn)


def delta(seconds: float) -> Json:
    """Make a driver whose calls may take effect for so long, as a step shows it."""
    operations = ("ensure", "deregister", "drain", "generate")
    return {"settling": dict.fromkeys(operations, seconds), "drains": False}


def a_life(*answers: Reply) -> Json:
    """Play a record's life from its create to its end, with members named after it."""
    world, tape = World(a_record()), Tape(RECORD)
    world.answers.extend(answers)
    created = Permission(world.stored, 0.0)
    tape.wrote("A1", "create", created, 0.0)
    enrolment = RegistrationState("A1", first_seen=0.0, claimed=1)
    enrolment = registered(tape, world, "A1", enrolment.begin_turn(RECORD, "", created))
    if answers:
        world.monotonic += 5.0
        registered(tape, world, "A1", enrolment.begin_turn(RECORD, ""))
    world.delete()
    tape.wrote("A1", "delete", Permission(world.stored, world.monotonic), 5.0)
    ending = DeregistrationState(first_seen=world.monotonic)
    ending = ended(tape, world, "B1", ending.begin_turn(RECORD))
    if world.record is not None:
        world.monotonic += SETTLING
        ended(tape, world, "B1", ending.begin_turn(RECORD))
    assert world.record is None
    return tape.trace()


def altered(trace: Json, place: int, **changes: object) -> Json:
    """Change one step of a trace."""
    other = copy.deepcopy(trace)
    steps = other["steps"]
    assert isinstance(steps, list)
    steps[place].update(changes)
    return other


def with_facts(trace: Json, **changes: object) -> Json:
    """Let each version of the record say something else."""
    other = copy.deepcopy(trace)
    steps = other["steps"]
    assert isinstance(steps, list)
    for step in steps:
        for version in ("of", "now"):
            if isinstance(step.get(version), dict):
                step[version].update(changes)
    return other


def without(trace: Json, place: int) -> Json:
    """Leave one step of a trace out."""
    steps = trace["steps"]
    assert isinstance(steps, list)
    return {**trace, "steps": [*steps[:place], *steps[place + 1 :]]}


def place_of(trace: Json, step: str, op: str = "") -> int:
    """Find the first step of a kind."""
    steps = trace["steps"]
    assert isinstance(steps, list)
    kinds = [(s["step"], s.get("op", "")) for s in steps]
    return kinds.index((step, op))


@pytest.mark.parametrize(
    "answers",
    [(), (SILENCE,), (StillRunning(),), (SILENCE, Succeeded())],
    ids=["at once", "unanswered", "running", "answered later"],
)
def test_a_life_of_the_core_is_one_of_the_model(answers: tuple[Reply, ...]) -> None:
    """Create, ensure, delete and deregister are allowed, with or without an answer."""
    assert follow(a_life(*answers)) is None


def a_life_with_a_lock() -> Json:
    """Play a record's life until it is registered, with a member known by its address."""
    world, tape = World(a_record(spec=a_spec(address=""))), Tape(ADDRESS)
    tape.wrote("A1", "create", Permission(world.stored, 0.0), 0.0)
    enrolment = RegistrationState("A1", first_seen=0.0).begin_turn(
        ADDRESS, "10.0.0.1:8080"
    )
    registered(tape, world, "A1", enrolment)
    assert world.stored.is_settled
    return tape.trace()


def test_a_life_with_a_lock_is_one_of_the_model() -> None:
    """The lock, the address and the mark come before the ensure."""
    assert follow(a_life_with_a_lock()) is None


def test_another_incarnation_marks_first() -> None:
    """One that did not write the record makes its mark `*`, which the model wants."""
    world, tape = World(a_record()), Tape(RECORD)

    registered(tape, world, "A2", RegistrationState("A2", 0.0).begin_turn(RECORD, ""))

    assert "*" == world.stored.status.ensuring
    assert follow(tape.trace()) is None


def test_an_ensure_without_claim_is_refused() -> None:
    """The same call by one that has only read the record is none of the model's."""
    life = a_life()
    refusal = follow(altered(life, place_of(life, "create"), step="read"))

    assert refusal is not None
    assert "does not tell of this call" in str(refusal)


def test_signing_off_after_silence_is_refused() -> None:
    """Whoever had a call without a definite answer leaves `*`."""
    life = a_life(SILENCE)
    writes = life["steps"]
    assert isinstance(writes, list)
    last = max(n for n, s in enumerate(writes) if s["step"] == "write" and n < 7)
    cleared = {**writes[last]["now"], "ensuring": ""}

    refusal = follow(altered(life, last, now=cleared))

    assert refusal is not None
    assert "left behind" in refusal.why


def test_an_ensure_beside_a_write_that_clears_the_mark_is_refused() -> None:
    """The write had no answer: it may be made while the ensure is out (w32)."""
    trace = a_life()
    place = place_of(trace, "write")
    steps = altered(trace, place, outcome="unknown", now=None)["steps"]
    assert isinstance(steps, list)
    again = steps[place_of(trace, "call", "ensure")]

    refusal = follow({**trace, "steps": [*steps[: place + 1], again]})

    assert refusal is not None
    assert place + 1 == refusal.event.number
    assert "does not tell of this call" in refusal.why


def test_registered_stands_on_a_success() -> None:
    """A record is not written Registered after an ensure without an answer."""
    life = a_life()
    place = place_of(life, "call", "ensure")
    refusal = follow(altered(life, place, outcome="refused"))

    assert refusal is not None
    assert "no ensure has succeeded" in refusal.why


def test_an_early_success_lets_nothing_go() -> None:
    """A release stands on a deregister that counts."""
    life = a_life()
    refusal = follow(altered(life, place_of(life, "call", "deregister"), final=False))

    assert refusal is not None
    assert "release" == refusal.event.step


def test_counting_too_early_is_refused() -> None:
    """A deregister of a record with a mark counts when all ensures are over only."""
    life = a_life(SILENCE)
    refusal = follow(altered(life, place_of(life, "call", "deregister"), final=True))

    assert refusal is not None
    assert "cannot count yet" in refusal.why


def test_a_deletion_counts_from_the_first_delete() -> None:
    """Whoever sent it was killed before the answer; its heir deletes the record again."""
    life = a_life(SILENCE)
    steps = life["steps"]
    assert isinstance(steps, list)
    *before, delete = steps[: place_of(life, "delete") + 1]
    read, call, write, *last = steps[len(before) + 1 :]
    again = {**delete, "actor": "A2", "began": 8.0, "ended": 8.0, "now": write["now"]}

    assert follow({**life, "steps": [*before, read, call, write, again, *last]}) is None


def test_a_call_on_an_older_version_is_refused() -> None:
    """What was observed last permits, and nothing older."""
    life = a_life()
    refusal = follow(altered(life, place_of(life, "call", "deregister"), of=1))

    assert refusal is not None
    assert "on version 1" in refusal.why


def test_a_write_over_an_unread_version_is_refused() -> None:
    """A version between the one read and the one written has been lost."""
    life = a_life()
    place = place_of(life, "write")
    steps = life["steps"]
    assert isinstance(steps, list)
    now = {**steps[place]["now"], "version": 9}
    other = {**steps[place], "actor": "A3", "step": "read"}
    steps.insert(place, other)

    refusal = follow(altered(life, place + 1, now=now))

    assert refusal is not None
    assert refusal.event.number == place + 1


def test_an_incarnation_that_has_ended_does_nothing() -> None:
    """A restart has another name."""
    life = a_life()
    steps = life["steps"]
    assert isinstance(steps, list)
    steps.insert(1, {"actor": "A1", "step": "crash", "began": 0.0, "ended": 0.0})

    refusal = follow(life)

    assert refusal is not None
    assert "has ended" in refusal.why


def test_a_lock_is_not_taken_from_a_holder_that_exists() -> None:
    """Two records that want one address: the second waits for the first one's end."""
    taken = {"actor": "A1", "step": "lock", "lock": "addr-1", "outcome": "taken"}
    times = {"began": 0.0, "ended": 0.0}
    of = facts(a_record())
    steps = [{**taken, **times, "record": r, "of": of} for r in ("r1", "r2")]

    refusal = follow({"keyed": [], "steps": steps})

    assert refusal is not None
    assert "r1 holds the lock" in refusal.why


# --- how long calls may take effect ---------------------------------------------------


def test_counting_by_the_driver_of_now_is_refused() -> None:
    """The record says that an ensure may take effect for longer than it does by now."""
    life = a_life(SILENCE)

    assert follow(with_facts(life, settling=SETTLING)) is None
    refusal = follow(with_facts(life, settling=3 * SETTLING))

    assert refusal is not None
    assert "cannot count yet" in refusal.why


def test_an_ensure_for_longer_than_the_record_says_is_refused() -> None:
    """Its deregistrar would not wait for it."""
    life = a_life()
    place = place_of(life, "call", "ensure")

    assert follow(altered(life, place, driver=delta(SETTLING))) is None
    refusal = follow(altered(life, place, driver=delta(SETTLING + 1)))

    assert refusal is not None
    assert "the record says 25.0 s" in refusal.why


def test_a_record_says_no_less_than_before() -> None:
    """An ensure that was sent under the longer time may be out."""
    life = a_life(SILENCE)
    place = place_of(life, "write")
    steps = life["steps"]
    assert isinstance(steps, list)
    less = {**steps[place]["now"], "settling": SETTLING - 1}

    refusal = follow(altered(life, place, now=less))

    assert refusal is not None
    assert "may take effect for longer" in refusal.why


def test_a_record_says_what_its_lock_says() -> None:
    """Its deregistrar would announce nothing, and the next owner wait for the lock's."""
    life = a_life_with_a_lock()
    place = place_of(life, "write")
    steps = life["steps"]
    assert isinstance(steps, list)
    more = {**steps[place]["now"], "lock_settling": SETTLING + 1}

    refusal = follow(altered(life, place, now=more))

    assert refusal is not None
    assert "the lock says 25.0 s" in refusal.why


def test_an_end_for_longer_than_the_lock_says_is_announced() -> None:
    """The lock of a record that does not say it is taken for one that says nothing."""
    life = an_end("B1")
    place = place_of(life, "cover")

    assert follow(life) is None
    assert follow(with_facts(without(life, place), lock_settling=SETTLING)) is None
    refusal = follow(without(life, place))

    assert refusal is not None
    assert "the next owner knows of 0.0 s" in refusal.why


def test_a_record_is_read_once_more_when_its_end_was_announced() -> None:
    """The next owner may have looked before, if it is gone (w46)."""
    life = an_end("B1")
    refusal = follow(without(life, place_of(life, "cover") + 1))

    assert refusal is not None
    assert "without having observed the record" in refusal.why


@pytest.mark.parametrize("by", ["lock", "driver", "announcement"])
def test_an_address_is_free_after_the_longest_time_that_is_known(by: str) -> None:
    """By the lock, by the driver as its next owner knows it, and by what was announced."""
    long = 3 * SETTLING
    end = an_end("")
    if by == "announcement":
        end = altered(end, place_of(end, "cover"), settling=long)
    said = long if by == "lock" else SETTLING
    known = long if by == "driver" else SETTLING

    assert follow(with_takeover(end, long, said=said, known=known)) is None
    refusal = follow(with_takeover(end, long - 1, said=said, known=known))

    assert refusal is not None
    assert "not 75.0 s" in refusal.why


def test_how_members_are_known_goes_by_the_driver() -> None:
    """Where they are known by their addresses, an address is nobody's before its lock."""
    life = a_life()
    others = with_facts(life, driver="shop/other")

    assert follow({**others, "keyed": ["shop/other"]}) is None
    refusal = follow(others)

    assert refusal is not None
    assert "no lock on it is held" in refusal.why


def an_end(deregistrar: str, *answers: Reply) -> Json:
    """Play the end of a record whose member is known by its address, by B1."""
    record = a_record(registered=True, deleting=True)
    status = attrs.evolve(record.status, deregistrar=deregistrar)
    world, tape = World(attrs.evolve(record, status=status)), Tape(ADDRESS)
    world.answers.extend(answers)
    ending = DeregistrationState(0.0, incarnation="B1")
    while not ending.is_over:
        ending = ended(tape, world, "B1", ending.begin_turn(ADDRESS))
        world.monotonic += 5.0
    return tape.trace()


def with_takeover(
    trace: Json, after: float = 0.0, *, said: float = 0.0, known: float = SETTLING
) -> Json:
    """Let the next record have the address so many seconds after the end.

    Args:
        trace: of the end.
        after: seconds.
        said: by the lock, of calls for the end of its holder.
        known: of the driver, to whoever takes it over.
    """
    steps = trace["steps"]
    assert isinstance(steps, list)
    lock: Json = {"actor": "A1", "step": "lock", "lock": "addr-1", "outcome": "taken"}
    lock |= {"driver": delta(known), "settling": said}
    began = {**lock, "record": UID, "of": steps[0]["now"], "began": 0.0, "ended": 0.0}
    at = max(step["ended"] for step in steps) + after
    taken = {**began, "record": "uid-next", "began": at, "ended": at}
    return {**trace, "steps": [began, *steps, taken]}


def test_an_address_is_free_at_once_after_an_end_with_all_answers() -> None:
    """The one that is named has let it go, and nobody else has called."""
    assert follow(with_takeover(an_end("B1", CallRefused("no")))) is None


def test_an_address_is_not_free_while_its_holder_is_there() -> None:
    """All its calls have answers, and it still has its finalizer."""
    refusal = follow(with_takeover(an_end("B1", CallRefused("no")), -1.0))

    assert refusal is not None
    assert "ended -1.000 s ago" in refusal.why


def test_a_lock_may_be_said_to_be_taken_when_the_next_record_has_it() -> None:
    """Its holder ended while the answer was on its way; the next one waited all the same."""
    assert follow(answered_late(with_takeover(an_end("B1", SILENCE), 18.0))) is None
    refusal = follow(answered_late(with_takeover(an_end("B1", SILENCE), 17.0)))

    assert refusal is not None
    assert "uid-next" == refusal.event.record


def answered_late(trace: Json) -> Json:
    """Let the first step be answered after all others."""
    steps = trace["steps"]
    assert isinstance(steps, list)
    first, *others = steps
    late = {**first, "ended": others[-1]["ended"] + 5.0}
    return {**trace, "steps": [*others, late]}


def test_an_address_is_free_when_calls_without_an_answer_are_over() -> None:
    """They count from two seconds before each was sent, five before the end."""
    trace = an_end("B1", SILENCE)

    assert follow(with_takeover(trace, 18.0)) is None
    assert follow(with_takeover(trace, 17.0)) is not None


def test_an_end_counts_from_its_release_whoever_tells_of_it_first() -> None:
    """Another one reads that the record is gone before the release has its answer."""
    trace = with_takeover(an_end(""), SETTLING)
    steps = trace["steps"]
    assert isinstance(steps, list)
    *others, release, taken = steps
    within = {"began": taken["began"] - 1.0, "ended": taken["began"] - 1.0}
    read = {"actor": "B2", "step": "read", "record": UID, "outcome": "gone", **within}
    late = {**release, "ended": taken["ended"] + 5.0}

    assert follow({**trace, "steps": [*others, read, taken, late]}) is None


@pytest.mark.parametrize(
    ("named", "answers"),
    [
        pytest.param("B1", (SILENCE,), id="unanswered"),
        pytest.param("B2", (), id="another was named"),
        pytest.param("", (), id="nobody was named"),
    ],
)
def test_an_address_is_not_free_at_once(named: str, answers: tuple[Reply, ...]) -> None:
    """A call may be out, or another deregistrar's."""
    refusal = follow(with_takeover(an_end(named, *answers)))

    assert refusal is not None
    assert "ended" in refusal.why
    assert "lock" == refusal.event.step


def test_a_call_that_the_one_who_is_named_would_not_know_of_is_refused() -> None:
    """Another deregistrar writes `*` before it calls."""
    life = an_end("B1")
    place = place_of(life, "call", "deregister")
    steps = life["steps"]
    assert isinstance(steps, list)
    others = [{**step, "actor": "B2"} for step in steps[: place + 1]]

    refusal = follow({**life, "steps": others})

    assert refusal is not None
    assert "is not told that it is not alone" in refusal.why


def with_heir(
    trace: Json,
    began: float,
    *,
    is_dead: bool = True,
    recalls: str = "",
    called: Sequence[Json] = (),
) -> Json:
    """Let B3, which goes by the name of B1, end what B1 had only seen, or called for once."""
    steps = trace["steps"]
    assert isinstance(steps, list)
    crash = {"actor": "B1", "step": "crash", "began": 0.0, "ended": 0.0}
    delete = {"actor": "A1", "step": "delete", "outcome": "observed", "record": UID}
    deleted = {**delete, "began": 0.0, "ended": 0.0, "now": steps[0]["now"]}
    heir = {"actor": "B3", "step": "inherit", "name": "B1", "recalls": recalls}
    inherited = {**heir, "began": began, "ended": began}
    others = [{**step, "actor": "B3"} for step in steps]
    first = [deleted, steps[0], *called, *([crash] if is_dead else [])]
    return {**trace, "steps": [*first, inherited, *others]}


def test_an_heir_frees_the_address_of_what_was_deleted_after_it_began() -> None:
    """It goes by the name that the record has, and the dead one had not called."""
    assert follow(with_takeover(with_heir(an_end("B1"), began=-1.0))) is None


def test_an_heir_frees_no_address_of_what_was_being_deleted() -> None:
    """A call of the dead one may be out."""
    refusal = follow(with_takeover(with_heir(an_end("B1"), began=1.0)))

    assert refusal is not None
    assert "lock" == refusal.event.step


def test_an_heir_that_recalls_answers_frees_the_address() -> None:
    """It knows that no call of the dead one was out."""
    trace = with_heir(an_end("B1"), began=1.0, recalls="B1")

    assert follow(with_takeover(trace)) is None


def test_an_heir_that_recalls_a_call_without_an_answer_waits_for_that() -> None:
    """Until it may have no effect any more, 23 s after it was sent, and no longer."""
    silent = an_end("B1", SILENCE)["steps"]
    assert isinstance(silent, list)
    outcomes = [step.get("outcome") for step in silent]
    called = silent[1 : outcomes.index("unanswered") + 1]
    trace = with_heir(an_end("B1"), began=1.0, recalls="B1", called=called)

    assert follow(with_takeover(trace, 22.0)) is None
    refusal = follow(with_takeover(trace, 21.0))
    assert refusal is not None
    assert "lock" == refusal.event.step


def test_an_heir_leaves_no_mark_on_a_record_that_it_created() -> None:
    """Nobody before it can have an ensure of that out."""
    life = a_life()
    steps = life["steps"]
    assert isinstance(steps, list)
    at_start = {"began": -1.0, "ended": -1.0}
    crash = {"actor": "A0", "step": "crash", **at_start}
    heir = {"actor": "A1", "step": "inherit", "name": "A0", "recalls": "", **at_start}
    written = place_of(life, "write")
    marked = {**steps[written]["now"], "ensuring": "A0/A1"}
    others = altered(life, written, now=marked)["steps"]
    assert isinstance(others, list)

    refusal = follow({**life, "steps": [crash, heir, *others]})

    assert follow({**life, "steps": [crash, heir, *steps]}) is None
    assert refusal is not None
    assert "left behind" in refusal.why


def test_nobody_inherits_the_name_of_one_that_works() -> None:
    """Each would think that it is alone."""
    refusal = follow(with_heir(an_end("B1"), began=-1.0, is_dead=False))

    assert refusal is not None
    assert "who has that name may be at work" in refusal.why


# --- drains ---------------------------------------------------------------------------


def a_drain(*answers: Reply, record: BackendRecord = BUSY, ahead: float = 0.0) -> Json:
    """Play the end of a record that is drained for 30 s, with a turn every 5 s.

    Args:
        answers: to its calls, one after another; then nothing is left.
        record: it.
        ahead: seconds by which the clock is ahead of a deregistrar that goes on after 12 s;
            0: the first one goes on.
    """
    world, tape = World(record), Tape(DRAINING)
    world.answers.extend(answers)
    actor, ending = "B1", DeregistrationState(0.0)
    while not ending.is_over:
        if ahead and actor == "B1" and world.monotonic > 12:
            actor, world.ahead = "B2", ahead
            ending = DeregistrationState(world.monotonic)
        ending = ended(tape, world, actor, ending.begin_turn(DRAINING))
        world.monotonic += 5.0
    return tape.trace()


@pytest.mark.parametrize(
    "answers",
    [
        (),
        (RUNNING,),
        (SILENCE, RUNNING),
        (UNSENT,) * 9,
        (*(UNSENT,) * 9, *(RUNNING,) * 6),
        (*(RUNNING,) * 6, SILENCE),
        (RUNNING, Succeeded(), *(RUNNING,) * 9),
    ],
    ids=[
        "idle",
        "empty",
        "unanswered",
        "unheard",
        "unheard for long",
        "to its deadline",
        "sessions return",
    ],
)
def test_a_drain_of_the_core_is_one_of_the_model(answers: tuple[Reply, ...]) -> None:
    """It begins when it is heard, and ends when nothing is left, or at its deadline."""
    assert follow(a_drain(*answers)) is None


@pytest.mark.parametrize("ahead", [0.001, 10.0, -10.0, 3600.0, -3600.0])
def test_a_drain_that_goes_on_elsewhere_is_one_of_the_model(ahead: float) -> None:
    """By what is written, and by a clock that may be wrong."""
    assert follow(a_drain(*(RUNNING,) * 5, ahead=ahead)) is None


def test_a_deregister_before_the_drain_is_refused() -> None:
    """The first call of the end is the drain's."""
    life = a_drain(RUNNING)
    refusal = follow(altered(life, place_of(life, "call", "drain"), op="deregister"))

    assert refusal is not None
    assert "drained first" in refusal.why


def test_a_deregister_within_the_drain_is_refused() -> None:
    """One second too early, by the clock that nobody sets."""
    life = a_drain(*(RUNNING,) * 6)
    place = place_of(life, "call", "deregister")
    refusal = follow(altered(life, place, began=29.0))

    assert refusal is not None
    assert "has 1.000 s left" in refusal.why


def test_a_drain_after_its_deadline_is_refused() -> None:
    """One second too late."""
    life = a_drain(*(RUNNING,) * 6)
    steps = life["steps"]
    assert isinstance(steps, list)
    drains = [n for n, step in enumerate(steps) if step.get("op") == "drain"]
    refusal = follow(altered(life, drains[-1], began=31.0))

    assert refusal is not None
    assert "over 1.000 s ago" in refusal.why


def test_a_drain_that_was_not_heard_has_not_begun() -> None:
    """Thirty seconds after the first try its whole length is still to come."""
    life = a_drain(RUNNING, *(UNSENT,) * 5)
    refusal = follow(altered(life, place_of(life, "call", "drain"), outcome="unsent"))

    assert refusal is not None
    assert "does not end at" in refusal.why


def test_a_drain_elsewhere_goes_by_the_clock_there() -> None:
    """Where that is 10 s ahead, it ends so much earlier; where it is right, it may not."""
    life = a_drain(*(RUNNING,) * 9, ahead=10.0)
    steps = life["steps"]
    assert isinstance(steps, list)
    right = [{**s, "wall": [s["began"], s["ended"]]} for s in steps]

    refusal = follow({**life, "steps": right})

    assert refusal is not None
    assert "deregister" == refusal.event.op
    assert "has 10.000 s left" in refusal.why


@pytest.mark.parametrize("by", [-1.0, 1.0])
def test_a_drain_is_written_as_it_began(by: float) -> None:
    """Neither longer nor shorter than the record says."""
    life = a_drain(RUNNING)
    place = place_of(life, "write")
    steps = life["steps"]
    assert isinstance(steps, list)
    now = steps[place]["now"]
    other = {**now, "drain_deadline": now["drain_deadline"] + by}

    refusal = follow(altered(life, place, now=other))

    assert refusal is not None
    assert f"does not end at {30.0 + by}" in refusal.why


@pytest.mark.parametrize("step", ["write", "read"])
@pytest.mark.parametrize("ends", [29.0, 31.0])
def test_a_drain_is_written_once(step: str, ends: float) -> None:
    """Nobody moves its clock, nor does a write that had no answer."""
    life = a_drain(RUNNING)
    steps = life["steps"]
    assert isinstance(steps, list)
    place = place_of(life, "write")
    first = steps[place]["now"]
    again = {**first, "drain_deadline": ends, "version": first["version"] + 1}
    steps.insert(place + 1, {**steps[place], "step": step, "of": first, "now": again})

    refusal = follow(life)

    assert refusal is not None
    assert place + 1 == refusal.event.number
    assert "is written down once" in refusal.why


def test_a_drain_that_is_written_stays() -> None:
    """Another incarnation would begin it anew."""
    life = a_drain(RUNNING)
    steps = life["steps"]
    assert isinstance(steps, list)
    place = place_of(life, "write")
    first = steps[place]["now"]
    none = {"drain_started": None, "drain_deadline": None}
    again = {**first, **none, "version": first["version"] + 1}
    steps.insert(place + 1, {**steps[place], "of": first, "now": again})

    refusal = follow(life)

    assert refusal is not None
    assert place + 1 == refusal.event.number
    assert "and stays" in refusal.why


def test_nobody_is_drained_whose_backend_is_gone() -> None:
    """Then, and only then, the deregistration comes at once."""
    status = attrs.evolve(BUSY.status, backend_gone=True)
    life = a_drain(record=attrs.evolve(BUSY, status=status))

    assert follow(life) is None
    refusals = (
        follow(with_facts(life, backend_gone=False)),
        follow(with_facts(a_drain(RUNNING), backend_gone=True)),
    )

    assert ["deregister", "drain"] == [r.event.op for r in refusals if r]


@pytest.mark.parametrize(
    ("answers", "said"),
    [((), False), ((RUNNING,) * 6, True)],
    ids=["it was", "it was not"],
)
def test_a_deregister_says_whether_anything_was_left(
    answers: tuple[Reply, ...], said: bool
) -> None:
    """What came since an empty drain is spared, and nothing else."""
    life = a_drain(*answers)
    place = place_of(life, "call", "deregister")

    refusal = follow(altered(life, place, drained=said))

    assert refusal is not None
    assert "empty" in refusal.why


# --- abandonment ----------------------------------------------------------------------


def an_abandonment(why: str) -> Json:
    """Play the end of a record of which a person has said why it is let go of."""
    said = {ANNOTATION_ABANDON: why}
    record = a_record(registered=True, deleting=True, annotations=said)
    world, tape = World(record), Tape(RECORD)
    ended(tape, world, "B1", DeregistrationState(0.0).begin_turn(RECORD))
    assert world.record is None
    return tape.trace()


@pytest.mark.parametrize("why", ["it was scrapped", " "], ids=["a reason", "none"])
def test_an_abandonment_of_the_core_is_one_of_the_model(why: str) -> None:
    """With a reason it goes without a call, else with one."""
    assert follow(an_abandonment(why)) is None


def test_a_record_is_let_go_of_for_a_reason_alone() -> None:
    """Without one its driver takes it out."""
    life = an_abandonment("it was scrapped")
    refusals = (
        follow(with_facts(life, abandoned=False)),
        follow(altered(a_life(), place_of(a_life(), "release"), proof="abandoned")),
    )

    assert all(r and "nobody has said why" in r.why for r in refusals)


def test_a_record_that_is_let_go_of_is_not_called_for() -> None:
    """Its driver may be gone, or the address somebody else's."""
    life = an_abandonment(" ")
    refusal = follow(with_facts(life, abandoned=True))

    assert refusal is not None
    assert "deregister" == refusal.event.op
    assert "without its driver" in refusal.why


def test_only_a_record_without_an_address_was_never_registered() -> None:
    """Any other one needs a deregistration that counts, or a person's word."""
    life = an_abandonment("it was scrapped")
    never = altered(life, place_of(life, "release"), proof="never")

    assert follow(with_facts(never, address="")) is None
    refusal = follow(never)

    assert refusal is not None
    assert "something may be registered" in refusal.why
