"""Random interleavings of registrars, a deregistrar, late calls, crashes and time.

Two registrars run side by side, as when a paused leader wakes up beside its successor;
the deregistrar may be restarted too; each step of each may come at any moment, and each
driver call may be lost, refused, or take effect as late as drivers may be. What must
hold whatever happens: nothing that we registered is left behind (promise 2 of the
design), and `ensuring` never says that nobody is out there while somebody is.
"""

from collections.abc import Iterator

import attrs

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from lbcf.core.lifecycle import deregistration, registration
from lbcf.core.lifecycle.deregistration import DeregistrationState
from lbcf.core.lifecycle.registration import (
    RegistrationState,
    claim_after_update,
    with_due,
)
from lbcf.core.lifecycle.steps import (
    CallDriver,
    CallRefused,
    Finish,
    NoAnswer,
    Permission,
    ReleaseRecord,
    Reply,
    Step,
    StillRunning,
    Succeeded,
    TakeLock,
    WriteStatus,
)
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    ANY_INCARNATION,
    BackendRecord,
    LoadBalancerDriver,
)
from lbcf.core.model.values import AddressSource, MemberKey
from lbcf.core.reasons import Reason
from tests.builders import a_driver, a_record, a_spec, seconds
from tests.core.world import World


FATES = ("lands", "lands", "refused", "unsent", "lost", "running", "crash")
LATEST = 22.0
"""Seconds after its permission at which a call may still take effect: window, lateness."""

ANSWERS: dict[str, Reply] = {
    "lands": Succeeded(),
    "refused": CallRefused("no"),
    "unsent": NoAnswer(Reason.DRIVER_UNREACHABLE, "refused", may_land=False),
    "lost": NoAnswer(Reason.DRIVER_TIMED_OUT, "silence", may_land=True),
    "running": StillRunning("wait"),
}

DRIVERS = st.builds(
    a_driver,
    member_key=st.sampled_from(MemberKey),
    address_source=st.just(AddressSource.BACKEND),
    drains=st.booleans(),
)


@attrs.define
class Flight:
    """A call that will take effect, or may.

    Attributes:
        generation: of the parameters of an ensure; 0 for a deregister.
        lands_at: seconds.
        by: the registrar or deregistrar that sent it.
        running: it was answered by `Running`; a later success ends it.
    """

    generation: int
    lands_at: float
    by: str
    running: bool


@attrs.define
class Registrar:
    """One registrar: its memory, and the turn it is in."""

    name: str
    memory: RegistrationState | None = None
    in_turn: bool = False


class Crash(Exception):  # noqa: N818 - an event, not an error
    """The process ends after the call was sent."""


@attrs.define
class LateWorld(World):
    """A world whose driver may be late.

    Attributes:
        fate: of the next call.
        delay: from its permission until it takes effect, if it is late.
        actor: who steps now.
        flights: calls under way.
        member: generation of the parameters that the load balancer has; 0: no member.
        ensures: how many were ever sent.
    """

    fate: str = "lands"
    delay: float = 0.0
    actor: str = ""
    flights: list[Flight] = attrs.Factory(list)
    member: int = 0
    ensures: int = 0

    def answer(self, step: CallDriver) -> Reply:
        """Let a call meet its fate."""
        assert step.permission.at <= self.monotonic
        seen = step.permission.record
        ensures = step.operation is Operation.ENSURE_BACKEND
        assert seen.is_deleting is not ensures, "a call that the version forbids"
        self.ensures += ensures
        generation = seen.meta.generation if ensures else 0
        if step.operation is not Operation.DRAIN_BACKEND:
            self._fly(generation, step.permission.at)
        if self.fate == "crash":
            raise Crash
        return ANSWERS[self.fate]

    def _fly(self, generation: int, permitted_at: float) -> None:
        """Let a call take effect now, later or never.

        Where it succeeds nothing takes effect any more that earlier calls of the same
        operation were answered by `Running` for (docs/protocol.md).
        """
        if self.fate == "lands":
            self.member = generation
            self.flights = [
                flight
                for flight in self.flights
                if not flight.running or bool(flight.generation) != bool(generation)
            ]
        elif self.fate in {"lost", "running", "crash"}:
            lands_at = max(self.monotonic, permitted_at + self.delay)
            running = self.fate == "running"
            self.flights.append(Flight(generation, lands_at, self.actor, running))

    def advance(self, length: float) -> None:
        """Let time pass, and land what is due in its order."""
        self.monotonic += length
        due = sorted(
            (f for f in self.flights if f.lands_at <= self.monotonic),
            key=lambda f: f.lands_at,
        )
        for flight in due:
            self.flights.remove(flight)
            self.member = flight.generation


class Interleavings(RuleBasedStateMachine):
    """All that can happen to one record."""

    @initialize(driver=DRIVERS, drained=st.booleans(), alone=st.booleans())
    def begin(self, driver: LoadBalancerDriver, drained: bool, alone: bool) -> None:
        """The first registrar has created the record; it may be the only one."""
        self.driver = driver
        self.alone = alone
        self.incarnations = iter(f"life-{n}" for n in range(10**6))
        address = "10.0.0.1:8080" if driver.member_key is MemberKey.RECORD else ""
        timeout = seconds(8) if drained else None
        spec = a_spec(address=address, drain_timeout=timeout)
        self.world = LateWorld(a_record(spec=spec), monotonic=100.0)
        self.registrars = [self._born(), self._born()]
        self.ending: DeregistrationState | None = None
        self.ender_in_turn = False
        self.ender = next(self.incarnations)
        self.released = False
        first = self.registrars[0]
        first.memory = attrs.evolve(self._memory(first), claimed=1).begin_turn(
            driver, self._address(), Permission(self.world.stored, 100.0)
        )
        first.in_turn = True

    def _born(self) -> Registrar:
        """Start a registrar's process."""
        return Registrar(next(self.incarnations))

    def _memory(self, registrar: Registrar) -> RegistrationState:
        """Recall what a registrar knows."""
        return registrar.memory or RegistrationState(
            registrar.name, self.world.monotonic
        )

    def _address(self) -> str:
        """Say where the backend listens, if the record does not."""
        record = self.world.record
        return "" if record is None or record.address else "10.0.0.1:8080"

    # --- what happens ---------------------------------------------------------------

    @rule(
        number=st.integers(0, 1),
        fate=st.sampled_from(FATES),
        delay=st.floats(0, LATEST),
    )
    def registrar_steps(self, number: int, fate: str, delay: float) -> None:
        """A registrar takes one step."""
        number = 0 if self.alone else number
        registrar = self.registrars[number]
        self.world.fate, self.world.delay = fate, delay
        try:
            self._step(registrar)
        except Crash:
            self.registrars[number] = self._born()

    def _step(self, registrar: Registrar) -> Finish | None:
        """Take one step of a turn, or begin one."""
        world, moment = self.world, self.world.now()
        if not registrar.in_turn:
            if world.record is None:
                return None
            known = attrs.evolve(self._memory(registrar), driver=self.driver)
            known = with_due(known, world.record, moment)
            registrar.memory = known.begin_turn(self.driver, self._address())
            registrar.in_turn = True
        memory = self._memory(registrar)
        step = registration.next_step(memory, moment)
        if isinstance(step, Finish):
            registrar.in_turn = False
            return step
        self._judge_registrar(memory, step)
        world.actor = registrar.name
        reply = world.perform(step)
        registrar.memory = registration.learn(memory, step, reply, world.now())
        return None

    def _judge_registrar(self, memory: RegistrationState, step: Step) -> None:
        """Hold a registrar's step against its rules."""
        if isinstance(step, WriteStatus):
            new, old = step.status, step.record.status
            if self.driver.member_key is MemberKey.ADDRESS and not old.address:
                assert memory.locked or not new.address, "address before lock"
            if old.ensuring == ANY_INCARNATION:
                assert ANY_INCARNATION == new.ensuring, "somebody cleared the star"
            if old.ensuring not in {"", memory.incarnation}:
                assert ANY_INCARNATION == new.ensuring, "somebody else's marker went"
        assert not isinstance(step, TakeLock) or step.address

    @rule(fate=st.sampled_from(FATES), delay=st.floats(0, LATEST))
    def deregistrar_steps(self, fate: str, delay: float) -> None:
        """The deregistrar takes one step, if it has seen the deletion."""
        world = self.world
        if world.record is None or not world.record.is_deleting:
            return
        world.fate, world.delay = fate, delay
        try:
            self._end_step()
        except Crash:
            self.deregistrar_crashes()

    def _end_step(self) -> Finish | None:
        """Take one step of a turn, or begin one."""
        world, moment = self.world, self.world.now()
        ending = self.ending or DeregistrationState(first_seen=world.monotonic)
        if not self.ender_in_turn:
            ending = ending.begin_turn(self.driver)
            self.ender_in_turn = True
        self.ending = ending
        step = deregistration.next_step(ending, moment)
        if isinstance(step, Finish):
            self.ender_in_turn = False
            return step
        before, world.actor = world.record, self.ender
        reply = world.perform(step)
        if isinstance(step, ReleaseRecord) and world.record is None and before:
            self._judge_release(before)
        self.ending = deregistration.learn(ending, step, reply, world.now())
        return None

    def _judge_release(self, record: BackendRecord) -> None:
        """Hold a release against the promises."""
        self.released = True
        if not record.address:
            assert 0 == self.world.ensures, "let go as never registered, but it was"
        assert not self.world.member, "let go, but it is still in"
        late = [f for f in self.world.flights if f.generation]
        assert not late, "let go, but an ensure is still out"

    @rule(length=st.sampled_from((0.5, 1.0, 3.0, 10.0, 30.0)))
    def time_passes(self, length: float) -> None:
        """Nobody does anything for a while."""
        self.world.advance(length)

    @rule(number=st.integers(0, 1))
    def registrar_crashes(self, number: int) -> None:
        """All that it knew is lost."""
        self.registrars[number] = self._born()

    @rule()
    def deregistrar_crashes(self) -> None:
        """All that it knew is lost."""
        self.ending, self.ender_in_turn = None, False
        self.ender = next(self.incarnations)

    @precondition(lambda self: self.world.record and not self.world.record.is_deleting)
    @rule()
    def record_is_deleted(self) -> None:
        """Its backend is gone."""
        self.world.delete()

    @precondition(lambda self: self.world.record and not self.world.record.is_deleting)
    @rule(number=st.integers(0, 1))
    def parameters_change(self, number: int) -> None:
        """A registrar's process updates the spec, by compare-and-swap."""
        world, registrar = self.world, self.registrars[0 if self.alone else number]
        before = world.stored
        weight = {"weight": world.stored.meta.resource_version}
        world.put(spec=attrs.evolve(before.spec, parameters=weight))
        memory = self._memory(registrar)
        claimed = claim_after_update(memory.claimed, before, world.stored)
        registrar.memory = attrs.evolve(memory, claimed=claimed)

    @precondition(lambda self: self.world.record and self.world.record.is_registered)
    @rule(number=st.integers(0, 1))
    def load_balancer_is_reset(self, number: int) -> None:
        """One of them hears of it."""
        registrar = self.registrars[number]
        memory = self._memory(registrar)
        registrar.memory = attrs.evolve(memory, reset="it was reset")

    # --- what must hold ---------------------------------------------------------------

    @invariant()
    def settled_means_that_no_ensure_is_out(self) -> None:
        """Whoever believes it deregisters once only."""
        record = self.world.record
        if record is not None and record.is_settled:
            late = [f for f in self.world.flights if f.generation]
            assert not late, "settled, but an ensure is out"

    @invariant()
    def what_is_let_go_stays_out(self) -> None:
        """Nothing lands after the end."""
        if self.released:
            assert 0 == self.world.member

    def teardown(self) -> None:
        """From here on nothing goes wrong: what is wanted comes about, and soon."""
        if not hasattr(self, "world"):
            return
        self.world.fate = "lands"
        record = self.world.record
        if record is not None and record.is_deleting:
            self._end_well()
        elif record is not None:
            self._live_well()
        self.world.advance(100.0)
        self.what_is_let_go_stays_out()

    def _end_well(self) -> None:
        """A deregistrar alone brings the record to its end."""
        for _ in self._attempts():
            if self.world.record is None:
                return
            finish = self._end_step()
            if finish is not None:
                assert finish.again_after is not None or self.world.record is None
                self._sleep(finish)
        raise AssertionError("a deregistrar does not come to an end")

    def _live_well(self) -> None:
        """A registrar alone brings the member in, with the present parameters.

        It is a new leader, unless there was only one all the time.
        """
        registrar = self.registrars[0] if self.alone else self._born()
        under_way = registrar.in_turn
        for _ in self._attempts():
            finish = self._step(registrar)
            if finish is None:
                continue
            # One under way may not have seen the last change: the watch asks for another.
            if finish.again_after is None and not under_way:
                break
            under_way = False
            self._sleep(finish)
        record = self.world.stored
        self.world.advance(100.0)
        assert record.is_registered
        assert record.meta.generation == self.world.member, "stale parameters for ever"

    def _attempts(self) -> Iterator[int]:
        """Count steps, as many as any ending may take."""
        return iter(range(60))

    def _sleep(self, finish: Finish) -> None:
        """Wait as long as the core wishes; nobody sleeps for no time at all."""
        wish = finish.again_after
        if wish is not None:
            self.world.advance(wish.total_seconds() + 0.001)


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(
    max_examples=3 * settings().max_examples,
    stateful_step_count=40,
    deadline=None,
)
