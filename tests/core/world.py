"""A small world for the step functions: one record, a driver, time that tests move.

It answers steps as `lbcf.executor` does, without I/O: compare-and-swap by version,
permissions that grow old, uids. Each step is noted, and so is whether it was allowed.
"""

from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import attrs

from lbcf.core.lifecycle import deregistration, registration
from lbcf.core.lifecycle.deregistration import DeregistrationState
from lbcf.core.lifecycle.registration import RegistrationState
from lbcf.core.lifecycle.steps import (
    BalancerRead,
    CallDriver,
    Conflicted,
    CoverEnd,
    EndCovered,
    Finish,
    LockTaken,
    Observed,
    Permission,
    PodRead,
    ReadBalancer,
    ReadPod,
    ReadRecord,
    RecordGone,
    Released,
    ReleaseRecord,
    Reply,
    Step,
    Succeeded,
    Superseded,
    TakeLock,
    WriteSettling,
    WriteStatus,
)
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model.names import ANNOTATION_SETTLING, FINALIZER_RECORD
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, RecordSpec, RecordStatus
from tests.builders import BOOT, START, at


S = TypeVar("S")

MOST_STEPS = 20
"""A turn that takes more steps than this runs hot."""

USE_WITHIN = 2.0
"""Seconds after which a permission is renewed before a call, as the executor does."""


@attrs.define
class World:
    """The API server's one record and the driver's answers.

    Attributes:
        record: as stored; None once it is gone.
        monotonic: seconds after the start, for both clocks.
        boot: of the machine.
        ahead: seconds that the wall clock is ahead of that.
        answers: of the driver, in order; after them it always succeeds.
        locks: answers of the locker; after them it always gives the lock.
        pod_is_ending: what a quorum read of the record's pod shows.
        balancer_is_ending: what one of its load balancer shows.
        balancer_is_unreadable: or why that cannot be understood.
        steps: all that was asked.
        before: called before each step; what it does comes in between.
    """

    record: BackendRecord | None
    monotonic: float = 0.0
    boot: str = BOOT
    ahead: float = 0.0
    answers: deque[Reply] = attrs.Factory(deque)
    locks: deque[Reply] = attrs.Factory(deque)
    pod_is_ending: bool = False
    balancer_is_ending: bool = False
    balancer_is_unreadable: str = ""
    steps: list[Step] = attrs.Factory(list)
    before: "Interference" = lambda _world, _step: None

    def now(self) -> Now:
        """Read the clock."""
        now = at(self.monotonic)
        wall = now.wall + timedelta(seconds=self.ahead)
        return attrs.evolve(now, wall=wall, boot=self.boot)

    @property
    def stored(self) -> BackendRecord:
        """Return the record, which must exist."""
        assert self.record is not None
        return self.record

    def calls(self, operation: Operation) -> list[CallDriver]:
        """Return the calls of an operation that were asked for."""
        return [
            step
            for step in self.steps
            if isinstance(step, CallDriver) and step.operation is operation
        ]

    @property
    def writes(self) -> list[RecordStatus]:
        """Return each status that was to be written."""
        return [s.status for s in self.steps if isinstance(s, WriteStatus)]

    @property
    def kinds(self) -> list[str]:
        """Name the steps in short; calls by their operation."""
        return [
            s.operation.value if isinstance(s, CallDriver) else type(s).__name__
            for s in self.steps
        ]

    def perform(self, step: Step) -> Reply:
        """Carry out one step."""
        self.steps.append(step)
        self.before(self, step)
        match step:
            case ReadRecord():
                return self._observed()
            case CallDriver():
                return self._call(step)
            case WriteStatus():
                return self._write(step)
            case WriteSettling():
                return self._write_settling(step)
            case ReadPod() | ReadBalancer() | TakeLock() | CoverEnd():
                return self._cleared(step)
            case ReleaseRecord():
                return self._release(step)
            case Finish():
                raise AssertionError("a finished turn was carried out")

    def _cleared(self, step: ReadPod | ReadBalancer | TakeLock | CoverEnd) -> Reply:
        """Tell of the pod, of the load balancer, of the lock, or of who takes it over."""
        if isinstance(step, CoverEnd):
            return EndCovered(step.settling)
        if isinstance(step, ReadPod):
            return PodRead(self.pod_is_ending)
        if isinstance(step, ReadBalancer):
            return BalancerRead(self.balancer_is_ending, self.balancer_is_unreadable)
        return self.locks.popleft() if self.locks else LockTaken(step.takeover_after)

    def _observed(self) -> Observed | RecordGone:
        """Show the record as it is now."""
        if self.record is None:
            return RecordGone()
        return Observed(Permission(self.record, self.monotonic))

    def _call(self, step: CallDriver) -> Reply:
        """Ask the driver, if the permission is young or nothing has changed since."""
        if self.monotonic > step.permission.at + USE_WITHIN:
            if self.record is None:
                return RecordGone()
            if not self._is_current(step.permission.record):
                return Superseded(Permission(self.record, self.monotonic))
        return self.answer(step)

    def answer(self, step: CallDriver) -> Reply:
        """Give the driver's next answer."""
        _ = step
        return self.answers.popleft() if self.answers else Succeeded()

    def _write(self, step: WriteStatus) -> Reply:
        """Write a status by compare-and-swap, as the CRD allows."""
        if self.record is None:
            return RecordGone()
        if not self._is_current(step.record):
            return Conflicted()
        before = self.record.status.address
        assert before in {"", step.status.address}, "backendAddr was changed"
        self.put(status=step.status)
        return self._observed()

    def _write_settling(self, step: WriteSettling) -> Reply:
        """Write an annotation by compare-and-swap."""
        if self.record is None:
            return RecordGone()
        if not self._is_current(step.record):
            return Conflicted()
        seconds = str(int(step.settling.total_seconds()))
        self.put(annotations={ANNOTATION_SETTLING: seconds})
        return self._observed()

    def _release(self, step: ReleaseRecord) -> Reply:
        """Take the finalizer off by compare-and-swap; the last one ends the record."""
        if self.record is None:
            return RecordGone()
        if not self._is_current(step.proof.record):
            return Conflicted()
        left = tuple(f for f in self.record.meta.finalizers if f != FINALIZER_RECORD)
        self.put(finalizers=left)
        if left:
            return self._observed()
        self.record = None
        return Released()

    def _is_current(self, record: BackendRecord) -> bool:
        """Tell whether a version is still the stored one."""
        stored = self.record
        return stored is not None and stored.meta == record.meta

    def put(
        self,
        *,
        status: RecordStatus | None = None,
        spec: RecordSpec | None = None,
        finalizers: tuple[str, ...] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> None:
        """Store another version; a change of the spec raises the generation."""
        old = self.stored
        kept = old.meta.finalizers if finalizers is None else finalizers
        said = old.meta.annotations if annotations is None else annotations
        meta = attrs.evolve(
            old.meta,
            resource_version=str(int(old.meta.resource_version) + 1),
            generation=old.meta.generation + (spec is not None),
            finalizers=kept,
            annotations=said,
        )
        self.record = attrs.evolve(
            old, meta=meta, status=status or old.status, spec=spec or old.spec
        )

    def delete(self) -> None:
        """Ask for the record's end, as the API server does where a finalizer holds it."""
        old = self.stored
        if old.is_deleting:
            return
        self.put(spec=old.spec)
        meta = attrs.evolve(self.stored.meta, deleting_since=START)
        self.record = attrs.evolve(self.stored, meta=meta)

    def turn(
        self,
        state: S,
        next_step: Callable[[S, Now], Step],
        learn: Callable[[S, Step, Reply, Now], S],
    ) -> tuple[S, Finish]:
        """Let a turn run to its end."""
        for _ in range(MOST_STEPS):
            step = next_step(state, self.now())
            if isinstance(step, Finish):
                return state, step
            state = learn(state, step, self.perform(step), self.now())
        raise AssertionError(f"a turn runs hot: {self.kinds[-6:]}")

    def register(
        self, enrolment: RegistrationState
    ) -> tuple[RegistrationState, Finish]:
        """Let a registrar's turn run to its end."""
        return self.turn(enrolment, registration.next_step, registration.learn)

    def end(self, ending: DeregistrationState) -> tuple[DeregistrationState, Finish]:
        """Let a deregistrar's turn run to its end."""
        return self.turn(ending, deregistration.next_step, deregistration.learn)


Interference = Callable[[World, Step], None]
"""What somebody else does just before a step."""


def conflict_at(kind: type[Step], times: int = 1) -> Interference:
    """Let somebody else write just before the first steps of a kind."""
    left = [times]

    def interfere(world: World, step: Step) -> None:
        if isinstance(step, kind) and left[0]:
            left[0] -= 1
            world.put()

    return interfere


def gone_at(number: int) -> Interference:
    """Let the record go just before the n-th step."""

    def interfere(world: World, _step: Step) -> None:
        if len(world.steps) == number:
            world.record = None

    return interfere
