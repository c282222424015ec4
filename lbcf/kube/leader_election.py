"""Elects one leader among the processes of a kind, by a Lease.

`lbcf.process.host` runs a process's work under it; `client` makes the compare-and-swap writes.
A candidate never compares the Lease's times with its own clock: a Lease whose version
did not change for its whole duration, by one's own monotonic clock, is free; so is one
whose holder is known to have ended. A leader that cannot renew stops working before
anybody else can think so.

    free Lease -> compare-and-swap -> ours, answered soon -------------> work and renew
                                      ours, answered late or unheard -> renew -> work

A renewal is written if the Lease still names its sender, whatever its version: so several
may be under way, where each takes long, and one without an answer harms no other. That
it was written proves that nobody else led in between; it counts from when it was sent.
"""

import asyncio
import math
import os

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn, TypeVar

import attrs
import structlog

from lbcf.core.errors import LbcfError
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from lbcf.kube.leases import (
    ANNOTATION_HOLDER,
    LEASES,
    Lease,
    micro_time,
    render_holder,
)
from lbcf.runtime.clock import Clock
from lbcf.runtime.journal import Predecessor
from lbcf.runtime.process_identity import ProcessIdentity, ProcessWitness, until_refused
from lbcf.runtime.tasks import CutError, cut_is_error, end_tasks, is_ending
from lbcf.wire.metadata import Identity, identity_of


T = TypeVar("T")

log = structlog.get_logger(__name__)


class LeadershipLostError(LbcfError):
    """This process led, and may do so no longer; its work has been stopped."""


@attrs.frozen
class Timing:
    """The election's periods; each must be well below the one before it.

    A leader that is killed is replaced as soon as its end is known (see
    `runtime.process_identity`), one whose machine is off after `duration`, which begins
    with the look that saw its last renewal: a `retry` after that at most.

    Both a machine's end and a slow API server are rare: the other periods have a lead live
    through as much as `duration` allows, at a write each `renew` (client-go's 15, 10 and
    2 seconds make one each two seconds). At any moment one renewal has been sent within the
    last `renew`, or within the last `request` where they have no answer. A lead is kept

    - where no write takes longer than `renew_deadline` without one `renew`, 4.1 s, however
      they differ; 4.7 s where all take longer than `request`;
    - through a silence of `renew_deadline` without one `renew`, one `request` and what two
      writes take otherwise: 3.3 s without these, if what is asked meanwhile is lost. Three
      seconds are what a change of etcd's leader takes.

    Attributes:
        duration: others wait that long after the last renewal they saw; whole seconds.
        renew_deadline: a leader gives up when it could not renew for that long; no request
            is waited for any longer.
        renew: from one renewal to the next, each counted from when it is sent.
        request: after that long without an answer another request goes out, on another
            connection: the first one's may be dead, or its answer under way.
        retry: between two looks at the Lease of another, and after a failed attempt.
    """

    duration: timedelta = timedelta(seconds=7)
    renew_deadline: timedelta = timedelta(seconds=5.5)
    renew: timedelta = timedelta(seconds=1.4)
    request: timedelta = timedelta(seconds=0.8)
    retry: timedelta = timedelta(seconds=0.5)


_RETRY_SPREAD = 0.2
"""The part of `retry` by which pauses differ, so that two candidates never keep step."""
_HOLDER = "/spec/holderIdentity"
_EXIT_BEFORE_END = 0.95
"""The part of the duration after which a process that still works is ended: clocks of
two machines do not run at quite the same speed."""


async def wait_to_look(candidates: Sequence["LeaderElector"], clock: Clock) -> None:
    """Wait for the next attempt of some, or for the end of a leader that is watched."""
    waiting = asyncio.ensure_future(clock.sleep(min(one.pause for one in candidates)))
    ends = (one.following for one in candidates)
    try:
        await asyncio.wait(
            {waiting, *(end for end in ends if end is not None)},
            return_when=asyncio.FIRST_COMPLETED,
        )
    finally:
        waiting.cancel()


def _nobody_listens(_leading: bool) -> None:
    """Do nothing."""


class LeaderElector:
    """One candidate.

    Args:
        client: talks to the API server.
        name: of the Lease.
        namespace: of the Lease.
        identity: of this process; another run of it must have another one.
        clock: only its monotonic seconds decide.
        timing: the periods.
        exit_now: ends the process on the spot when its work does not stop in time.
        on_leading: told True when it begins to lead and False when it ends.
        witness: knows whether an earlier holder has ended; None: nobody does.
        until_refused: returns when a leader elsewhere listens no more.
        reads_later: it reads nothing before it leads, so that whatever an ended holder has
            done, it did before that.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        name: str,
        namespace: str,
        identity: str,
        clock: Clock,
        timing: Timing | None = None,
        exit_now: Callable[[int], object] = os._exit,
        on_leading: Callable[[bool], None] = _nobody_listens,
        witness: ProcessWitness | None = None,
        until_refused: Callable[[str, int, Clock], Awaitable[None]] = until_refused,
        reads_later: bool = False,
    ) -> None:
        self._client = client
        self._key = ObjectKey(namespace, name)
        self._identity = identity
        self._clock = clock
        self._timing = timing or Timing()
        self._exit_now = exit_now
        self._on_leading = on_leading
        self._witness = witness
        self._until_refused = until_refused
        self._reads_later = reads_later
        self._followed: ProcessIdentity | None = None
        self._following: asyncio.Future[None] | None = None
        self._seen: Identity | None = None
        self._free_at = 0.0
        self._is_ours = False
        self._renewed_at = -math.inf
        self._is_sure = asyncio.Event()
        self._ended: tuple[Lease, float] | None = None
        self._predecessor: Predecessor | None = None

    @property
    def predecessor(self) -> Predecessor | None:
        """Return the run in whose place this one leads; None: that of nobody.

        That run had ended when `look_for_ended` was called, and nobody has led since.
        """
        return self._predecessor

    async def look_for_ended(self) -> None:
        """Find out whether the holder of the Lease has provably ended, by one look.

        To be called before anything is read: whatever that holder has done, it did
        before that. An API server that does not answer leaves it unknown.
        """
        try:
            found = await self._read()
        except KubeError:
            return
        self._note_ended(found)

    def _note_ended(self, found: Lease) -> None:
        """Remember a holder that has provably ended."""
        if self._witness is None or found.process is None or not found.holder:
            return
        # That nobody listens any more is a hint, and no proof: only the witness counts.
        if self._witness.has_ended(found.process):
            self._ended = found, self._clock.monotonic()

    async def run(self, worker: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lead, work, and give the lead back once the work has ended.

        Being cancelled cancels the worker; the Lease is renewed until that has ended.

        Raises:
            LeadershipLostError: others may lead now; the worker was cancelled and has
                ended. Let the process end.
        """
        await self._acquire()
        while not await self.lead(worker):
            await self._acquire()

    async def lead(self, worker: Callable[[], Awaitable[None]]) -> bool:
        """Work under a Lease that `attempt` has taken, and give it back afterwards.

        Returns:
            False: it was not ours for long enough, and nothing was done.

        Raises:
            LeadershipLostError: as `run`.
        """
        self._begin_to_renew()
        try:
            await self._beside_renewals(partial(self._work, worker))
        except LeadershipLostError:
            if self._is_sure.is_set():
                raise
            # A TaskGroup raises its tasks' errors in place of a cancellation that comes with
            # them: whoever is to end would go on as a candidate.
            if is_ending():
                raise asyncio.CancelledError from None
            return False
        finally:
            await self._release()
        return True

    def _begin_to_renew(self) -> None:
        """Find out whether there is time to work, or the Lease is to be renewed before."""
        now = self._clock.monotonic()
        self._is_ours = True
        if now - self._renewed_at <= self._timing.request.total_seconds():
            self._is_sure.set()
            return
        # Half of its time may be over, and a renewal would take as long again. Nobody
        # works before a renewal has been answered that is sent from now on.
        self._is_sure.clear()
        self._renewed_at = now

    async def _work(self, worker: Callable[[], Awaitable[None]]) -> None:
        """Work, guarded, once it is sure for how long the Lease is ours."""
        await self._is_sure.wait()
        log.info("leader.elected", lease=str(self._key), identity=self._identity)
        self._on_leading(True)
        guard = asyncio.create_task(self._guard())
        try:
            await worker()
        finally:
            # The guard stays until nothing works any more.
            self._on_leading(False)
            await end_tasks([guard])

    async def _acquire(self) -> None:
        """Try until the Lease is ours."""
        try:
            while not await self.attempt():
                await wait_to_look([self], self._clock)
        finally:
            self.leave()

    async def attempt(self) -> bool:
        """Take the Lease if it is free; False: it is not, or nobody knows."""
        try:
            return await self._attempt()
        except KubeError as error:
            log.warning("leader.unknown", lease=str(self._key), error=str(error))
            return False

    def leave(self) -> None:
        """Watch the present leader no more."""
        self._follow(None)

    @property
    def pause(self) -> timedelta:
        """Return when to look again: a Lease just when its duration is over."""
        pause, left = self._spread(), self._free_at - self._clock.monotonic()
        return (
            min(pause, timedelta(seconds=left, milliseconds=1)) if left > 0 else pause
        )

    @property
    def following(self) -> asyncio.Future[None] | None:
        """Return what is done when the leader that is watched listens no more."""
        following = self._following
        return None if following is None or following.done() else following

    def _follow(self, leader: ProcessIdentity | None) -> None:
        """Watch another leader, or nobody any more."""
        if leader == self._followed:
            return
        if self._following is not None:
            self._following.cancel()
        self._followed, self._following = leader, None
        if leader is not None and leader.host:
            ended = self._until_refused(leader.host, leader.port, self._clock)
            self._following = asyncio.ensure_future(ended)

    async def _attempt(self) -> bool:
        """Take the Lease if it is free; False if it is not, or another was faster."""
        try:
            found = await self._read()
        except NotFound:
            self._predecessor = None  # the deleted Lease may have had others meanwhile
            return await self._take(self._create)
        if self._was_written_unheard(found):
            return True
        if not self._is_free(found):
            self._follow(found.process)
            return False
        if self._reads_later:
            self._note_ended(found)
        self._predecessor = self._place_of(found)
        return await self._take(partial(self._replace, found))

    async def _take(self, write: Callable[[], Coroutine[Any, Any, float]]) -> bool:
        """Write that the Lease is ours; False: another was faster."""
        try:
            self._renewed_at = await self._first_answer(write)
        except (AlreadyExists, Conflict):
            # Another's write, or the first of our own two, whose answer is not there yet.
            return self._was_written_unheard(await self._read())
        except NotFound:
            return False
        return True

    def _was_written_unheard(self, found: Lease) -> bool:
        """Return whether a Lease is ours by a write whose answer was not heard."""
        if found.holder != self._identity:
            return False
        self._renewed_at = -math.inf  # nobody knows when that was
        if self._predecessor and self._predecessor.name != found.inherited:
            # An earlier write than the last: by its name nobody knows this one.
            self._predecessor = None
        return True

    async def _read(self) -> Lease:
        """Read the Lease."""
        within = self._timing.renew_deadline
        return await self._first_answer(
            lambda: self._client.get(LEASES, self._key, within=within)
        )

    async def _first_answer(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Ask, and again beside it after each `request` without an answer.

        Args:
            ask: waits for `renew_deadline` at most; so the first one is given up first, and
                the others with it.

        Raises:
            KubeError: what came first, be it that there is no way to the server.
        """
        end = self._clock.monotonic() + self._timing.renew_deadline.total_seconds()
        asked: list[asyncio.Task[T]] = []
        try:
            while True:
                if self._clock.monotonic() < end or not asked:
                    asked.append(asyncio.create_task(ask()))
                done, _ = await asyncio.wait(
                    asked,
                    timeout=self._timing.request.total_seconds(),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if done:
                    # Several may be done at the same moment.
                    answers = [one for one in asked if one in done]
                    made = (one for one in answers if one.exception() is None)
                    return next(made, answers[0]).result()
        finally:
            await end_tasks(asked)

    def _place_of(self, found: Lease) -> Predecessor | None:
        """Return in whose place the lead is taken from a holder."""
        # Whoever led in between has called under a name of its own.
        if self._ended is None or self._ended[0].holder != found.holder:
            return None
        return Predecessor(found.run, found.incarnation, self._ended[1])

    def _is_free(self, found: Lease) -> bool:
        """Return whether no process can still believe that it holds the Lease."""
        now = self._clock.monotonic()
        seen = identity_of(found.meta)
        if seen != self._seen:
            duration = found.duration or self._timing.duration.total_seconds()
            self._seen, self._free_at = seen, now + duration
        return not found.holder or now >= self._free_at or self._has_ended(found)

    def _has_ended(self, found: Lease) -> bool:
        """Return whether the process that holds it has ended."""
        if self._witness is None or found.process is None:
            return False
        following = self._following
        refused = found.process == self._followed and following and following.done()
        ended = bool(refused) or self._witness.has_ended(found.process)
        if ended:
            log.info("leader.ended", lease=str(self._key), identity=found.holder)
        return ended

    async def _create(self) -> float:
        """Write the first Lease of that name; returns when that was sent."""
        started = self._clock.monotonic()
        spec = self._taken(transitions=0)
        body = {"metadata": {"name": self._key.name, **self._metadata()}, "spec": spec}
        within = self._timing.renew_deadline
        await self._client.create(LEASES, self._key.namespace, body, within=within)
        return started

    async def _replace(self, found: Lease) -> float:
        """Take a free Lease by compare-and-swap; returns when that was sent."""
        started = self._clock.monotonic()
        spec = self._taken(transitions=found.transitions + 1)
        body = {"metadata": self._metadata(), "spec": spec}
        within = self._timing.renew_deadline
        await self._client.patch(LEASES, self._key, body, cas=found.meta, within=within)
        return started

    async def _beside_renewals(self, work: Callable[[], Awaitable[None]]) -> None:
        """Work and renew side by side; whichever fails ends the other."""
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew(group))
                # The work runs in this task and not in one of the group: when this
                # task is cancelled, renewals go on until the work has ended.
                try:
                    await work()
                finally:
                    renewing.cancel()
        except BaseExceptionGroup as failures:
            lost, others = failures.split(LeadershipLostError)
            if lost is None:
                raise failures.exceptions[0] from None
            for other in others.exceptions if others else ():
                log.exception("worker.failed", exc_info=other)
            raise lost.exceptions[0] from None

    async def _renew(self, group: asyncio.TaskGroup) -> NoReturn:
        """Renew until cancelled.

        Args:
            group: bears the renewals under way; what one raises ends the work.

        Raises:
            LeadershipLostError: another holds it, or the deadline is over.
        """
        pause = timedelta(0)
        if self._is_sure.is_set():
            pause = self._rest_of(self._timing.renew, self._renewed_at)
        under_way: list[asyncio.Task[bool]] = []
        try:
            while True:
                await self._clock.sleep(min(pause, self._left()))
                if self._left() <= timedelta(0):
                    self._lose(f"no renewal within {self._timing.renew_deadline}")
                renewal = group.create_task(self._renew_once())
                under_way = [one for one in under_way if not one.done()] + [renewal]
                pause = await self._pause_after(renewal)
        finally:
            for one in under_way:
                one.cancel()

    async def _pause_after(self, renewal: "asyncio.Task[bool]") -> timedelta:
        """Wait for a renewal's answer, but not for long; return when to send the next."""
        sent = self._clock.monotonic()
        limit = min(self._timing.request, self._left())
        await asyncio.wait({renewal}, timeout=limit.total_seconds())
        if not renewal.done():
            return timedelta(0)
        pause = self._timing.renew if renewal.result() else self._spread()
        # The deadline counts from when it was sent, and so does the pause: after its answer
        # a whole one would leave the next so much less time as this one took.
        return self._rest_of(pause, sent)

    def _rest_of(self, pause: timedelta, since: float) -> timedelta:
        """Return what is left of a pause that began at a moment of the clock."""
        passed = timedelta(seconds=self._clock.monotonic() - since)
        return max(pause - passed, timedelta(0))

    async def _renew_once(self) -> bool:
        """Send a renewal; return whether it has been written.

        Raises:
            LeadershipLostError: another holds it.
        """
        started = self._clock.monotonic()
        try:
            # Otherwise nobody would renew any more, and the guard would end the process.
            with cut_is_error("a renewal"):
                await self._write_if_ours(self._spec())
        except NotFound:
            self._lose("somebody deleted the lease")
        except (KubeError, CutError) as error:
            log.warning("leader.unrenewed", lease=str(self._key), error=str(error))
            return False
        # Others saw the write at the earliest when it was sent.
        self._renewed_at = max(self._renewed_at, started)
        if self._left() > timedelta(0):
            self._is_sure.set()
        return True

    async def _write_if_ours(self, spec: dict[str, object]) -> None:
        """Change the Lease if it is ours, in whatever version.

        Raises:
            LeadershipLostError: it is another's.
            KubeError: it is unknown whether it was written.
        """
        mine = {"op": "test", "path": _HOLDER, "value": self._identity}
        fields = (
            {"op": "add", "path": f"/spec/{name}", "value": value}
            for name, value in spec.items()
        )
        try:
            await self._client.patch(
                LEASES,
                self._key,
                [mine, *fields],
                within=self._timing.renew_deadline,
            )
        except Invalid:  # so the server calls a `test` that fails
            found = await self._read()
            if found.holder != self._identity:
                self._lose(f"it is held by {found.holder or 'nobody'}")
            raise

    def _lose(self, why: str) -> NoReturn:
        self._is_ours = False
        if self._is_sure.is_set():
            log.error("leader.lost", lease=str(self._key), reason=why)
        else:
            log.warning("leader.unconfirmed", lease=str(self._key), reason=why)
        raise LeadershipLostError(f"lease {self._key}: {why}")

    async def _guard(self) -> None:
        """End the process if it still works when others may begin to."""
        while True:
            held = self._clock.monotonic() - self._renewed_at
            left = self._timing.duration * _EXIT_BEFORE_END - timedelta(seconds=held)
            if left <= timedelta(0):
                log.critical("leader.overdue", lease=str(self._key))
                self._exit_now(1)
                return
            await self._clock.sleep(left)

    async def _release(self) -> None:
        """Release the Lease if it is still ours, so that the next leader need not wait."""
        if not self._is_ours:
            return
        self._is_ours = False
        released = {"holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            await self._write_if_ours(self._spec() | released)
        except (KubeError, LeadershipLostError) as error:
            log.warning("leader.unreleased", lease=str(self._key), error=str(error))
        else:
            log.info("leader.released", lease=str(self._key))

    def _left(self) -> timedelta:
        return self._rest_of(self._timing.renew_deadline, self._renewed_at)

    def _spread(self) -> timedelta:
        return self._timing.retry * (1 + _RETRY_SPREAD * self._clock.jitter())

    def _metadata(self) -> dict[str, object]:
        """Render which process we are, for one that starts in our place."""
        own = self._witness.own if self._witness is not None else None
        if own is None:
            return {}
        place = self._predecessor
        told = render_holder(self._identity, own, place.name if place else "")
        return {"annotations": {ANNOTATION_HOLDER: told}}

    def _taken(self, *, transitions: int) -> dict[str, object]:
        """Render that the Lease is ours from now on."""
        now = micro_time(self._clock.now())
        return self._spec() | {"acquireTime": now, "leaseTransitions": transitions}

    def _spec(self) -> dict[str, object]:
        """Render that the Lease is ours, and renewed now."""
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": round(self._timing.duration.total_seconds()),
            "renewTime": micro_time(self._clock.now()),
        }
