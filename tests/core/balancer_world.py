"""A small world for the lives of load balancers: a status, a driver, time that tests move.

It answers steps as `lbcf.executor` does, without I/O, of a LoadBalancer object or of an
entry of a Bind. What its driver has is tracked on the side of the driver.
"""

from collections import deque

import attrs

from lbcf.core.lifecycle import bind_status, load_balancer, load_balancer_status
from lbcf.core.lifecycle.load_balancer import LoadBalancerState
from lbcf.core.lifecycle.load_balancer_steps import (
    CallForLoadBalancer,
    DriverSucceeded,
    HoldLoadBalancer,
    ListRecords,
    LoadBalancerGone,
    LockMembers,
    Observation,
    ReadLoadBalancer,
    ReleaseLoadBalancer,
    Reply,
    Step,
    WriteOutcome,
)
from lbcf.core.lifecycle.steps import (
    CallFailure,
    Conflicted,
    Finish,
    LockTaken,
    NoAnswer,
    Released,
    StillRunning,
)
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model import names
from lbcf.core.model.binds import Bind, Entry, EntryStatus, recorded
from lbcf.core.model.names import bind_group_key
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation
from tests.builders import (
    SETTLING,
    START,
    a_driver,
    a_group,
    a_load_balancer,
    a_meta,
    at,
)


MOST_STEPS = 20
"""A turn that takes more steps than this runs hot."""
DRIVER = attrs.evolve(
    a_driver(), meta=attrs.evolve(a_driver().meta, finalizers=(names.FINALIZER_DRIVER,))
)
NEW = a_load_balancer(created=False)
FRONT = Entry("front", "proxy", {"id": "front"})

CREATE, ENSURE, DELETE, VALIDATE = (
    Operation.CREATE_LOAD_BALANCER,
    Operation.ENSURE_LOAD_BALANCER,
    Operation.DELETE_LOAD_BALANCER,
    Operation.VALIDATE_LOAD_BALANCER,
)


def an_object(balancer: LoadBalancer = NEW) -> LoadBalancer:
    """Make a LoadBalancer that our finalizer keeps."""
    held = attrs.evolve(balancer.meta, finalizers=(names.FINALIZER_LOAD_BALANCER,))
    return attrs.evolve(balancer, meta=held)


def a_bind(*entries: Entry, statuses: tuple[EntryStatus, ...] = ()) -> Bind:
    """Make a Bind of the everyday pods, its statuses written down."""
    meta, group = a_meta("shop"), a_group()
    inner = attrs.evolve(meta, key=bind_group_key(meta.key))
    bind = Bind(meta, attrs.evolve(group, meta=inner), entries or (FRONT,), statuses)
    return attrs.evolve(bind, statuses=recorded(bind, START))


@attrs.define
class World:
    """One load balancer, its driver and the API server.

    Attributes:
        stored: as the API server has it: a LoadBalancer, or a Bind with one load balancer.
        answers: of the driver, in order; after them it always succeeds.
        unseen: records of it that only a list shows.
        unread: records that only a list shows, and nobody understands.
        conflicts: writes that fail for somebody else's, counted from the next one.
        exists: the driver has it.
        may_land: until when a create without a definite answer may make it.
        life: what the process remembers.
        steps: those of all turns.
        is_over: it is gone.
    """

    stored: LoadBalancer | Bind
    driver: LoadBalancerDriver | Explanation = DRIVER
    answers: deque[CallFailure | DriverSucceeded] = attrs.Factory(deque)
    users: int = 0
    unseen: int = 0
    unread: tuple[ObjectKey, ...] = ()
    unreadable: ObjectKey | None = None
    members: int = 0
    locks_answered: bool = True
    conflicts: int = 0
    monotonic: float = 0.0
    exists: bool = False
    may_land: float = 0.0
    life: LoadBalancerState = attrs.Factory(LoadBalancerState)
    steps: list[Step] = attrs.Factory(list)
    is_over: bool = False

    def now(self) -> Now:
        """Read the clock."""
        return at(self.monotonic)

    @property
    def is_out(self) -> bool:
        """Whether a create may still take effect, to what timedelta rounds off."""
        return self.monotonic < self.may_land - 1e-6

    @property
    def status(self) -> EntryStatus:
        """The status of the Bind's load balancer."""
        assert isinstance(self.stored, Bind)
        return self.stored.statuses[0]

    @property
    def balancer(self) -> LoadBalancer:
        """The load balancer, in the form that its life sees."""
        return self.look().balancer

    def look(self) -> Observation:
        """Put together what the life depends on."""
        if isinstance(self.stored, Bind):
            now = self.now().wall
            observed = bind_status.observe_entry(
                self.stored, self.status, self.driver, now=now
            )
        else:
            observed = load_balancer_status.observe_load_balancer(
                self.stored, self.driver, members=self.members
            )
        unreadable = () if self.unreadable is None else (self.unreadable,)
        return observed.with_records(self.users, unreadable)

    def turn(self) -> Finish:
        """Take one turn; returns how it ended."""
        if self.is_over:
            return Finish()
        self.life = self.life.begin_turn(self.look(), self.now())
        for _ in range(MOST_STEPS):
            step = load_balancer.next_step(self.life, self.now())
            if isinstance(step, Finish):
                return step
            self.steps.append(step)
            reply = self.perform(step)
            self.life = load_balancer.learn(self.life, step, reply, self.now())
        raise AssertionError(f"the turn runs hot: {self.steps[-4:]}")

    def restart(self) -> None:
        """Forget all that a process remembers."""
        self.life = LoadBalancerState()

    def delete(self, *, abandoned: str = "") -> None:
        """Ask for its end, or take it out of the spec."""
        meta = self.stored.meta
        marks = {names.ANNOTATION_ABANDON: abandoned} if abandoned else {}
        meta = attrs.evolve(
            meta,
            deleting_since=self.now().wall,
            generation=meta.generation + 1,
            annotations=marks,
        )
        self.stored = attrs.evolve(self.stored, meta=meta)
        if isinstance(self.stored, Bind):
            statuses = recorded(self.stored, self.now().wall)
            self.stored = attrs.evolve(self.stored, statuses=statuses)

    def edit(self, attributes: dict[str, str]) -> None:
        """Change the attributes that it is to have."""
        stored = self.stored
        meta = attrs.evolve(stored.meta, generation=stored.meta.generation + 1)
        if isinstance(stored, Bind):
            entry = attrs.evolve(stored.entries[0], attributes=attributes)
            self.stored = attrs.evolve(stored, meta=meta, entries=(entry,))
        else:
            self.stored = attrs.evolve(stored, meta=meta, attributes=attributes)

    def perform(self, step: Step) -> Reply:
        """Answer one step."""
        match step:
            case CallForLoadBalancer():
                return self._call(step)
            case LockMembers():
                return LockTaken() if self.locks_answered else Conflicted()
            case ListRecords():
                return self._list()
            case ReadLoadBalancer():
                return LoadBalancerGone() if self.is_over else self.look()
            case HoldLoadBalancer() | WriteOutcome() | ReleaseLoadBalancer():
                if self.conflicts > 0:
                    self.conflicts -= 1
                    return Conflicted()
                return self._write(step)
            case Finish():
                raise AssertionError("nothing to perform")

    def _write(
        self, step: HoldLoadBalancer | WriteOutcome | ReleaseLoadBalancer
    ) -> Reply:
        """Write, as the adapters do."""
        if isinstance(step, ReleaseLoadBalancer):
            self.is_over = True
            return Released()
        now, stored = self.now().wall, self.stored
        if isinstance(step, HoldLoadBalancer):
            assert isinstance(stored, LoadBalancer)
            self.stored = an_object(stored)
        elif isinstance(stored, Bind):
            status = bind_status.with_outcome(
                self.status, step.outcome, now, stored.meta.generation
            )
            self.stored = attrs.evolve(stored, statuses=(status,))
        else:
            self.stored = load_balancer_status.with_outcome(stored, step.outcome, now)
        return self.look()

    def _list(self) -> Reply:
        """Show what only a list shows."""
        return self.look().with_records(self.unseen, self.unread)

    def _call(self, step: CallForLoadBalancer) -> Reply:
        """Answer as the driver."""
        reply = self.answers.popleft() if self.answers else DriverSucceeded()
        succeeded = isinstance(reply, DriverSucceeded)
        if step.operation is CREATE:
            if isinstance(reply, DriverSucceeded):
                self.exists, self.may_land = True, 0.0
                return attrs.evolve(reply, info=dict(step.balancer.spec))
            if isinstance(reply, StillRunning) or (
                isinstance(reply, NoAnswer) and reply.may_land
            ):
                self.may_land = self.monotonic + SETTLING
        if step.operation is DELETE and succeeded:
            self.exists = False
        return reply
