"""Elects one leader among the processes of a kind, by a Lease.

`lbcf.process.host` runs a process's work under it; `client` makes the compare-and-swap writes.
A candidate never compares the Lease's times with its own clock: a Lease whose version
did not change for its whole duration, by one's own monotonic clock, is free; so is one
whose holder is known to have ended. A leader that cannot renew stops working before
anybody else can think so.
"""

import asyncio
import os

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import NoReturn

import attrs
import structlog

from lbcf.core.errors import LbcfError
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
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
from lbcf.wire.metadata import Identity, identity_of


log = structlog.get_logger(__name__)


class LeadershipLostError(LbcfError):
    """This process led, and may do so no longer; its work has been stopped."""


@attrs.frozen
class Timing:
    """The election's periods; each must be well below the one before it.

    A leader that is killed is replaced as soon as its end is known (see
    `runtime.process_identity`), one whose machine is off after `duration`, which begins
    with the look that saw its last renewal: a `retry` after that at most. Both a machine's
    end and a silent API server are rare: the periods leave room for an API server that
    answers nothing for three seconds, as at a change of etcd's leader, at no more writes
    than client-go's 15, 10 and 2 seconds.

    Attributes:
        duration: others wait that long after the last renewal they saw; whole seconds.
        renew_deadline: a leader gives up when it could not renew for that long.
        renew: between two renewals.
        request: the limit of one request, so that several fit before the deadline.
        retry: between two looks at the Lease of another, and after a failed attempt.
    """

    duration: timedelta = timedelta(seconds=7)
    renew_deadline: timedelta = timedelta(seconds=5.5)
    renew: timedelta = timedelta(seconds=2.2)
    request: timedelta = timedelta(seconds=1)
    retry: timedelta = timedelta(seconds=0.5)


_RETRY_SPREAD = 0.2
"""The part of `retry` by which pauses differ, so that two candidates never keep step."""
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
        self._lease: Lease | None = None
        self._renewed_at = 0.0
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
            found = await self._client.get(
                LEASES, self._key, within=self._timing.request
            )
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
        await self.lead(await self._acquire(), worker)

    async def lead(self, lease: Lease, worker: Callable[[], Awaitable[None]]) -> None:
        """Work under a Lease that `attempt` has taken, and give it back afterwards.

        Raises:
            LeadershipLostError: as `run`.
        """
        log.info("leader.elected", lease=str(self._key), identity=self._identity)
        self._on_leading(True)
        guard = asyncio.create_task(self._guard())
        try:
            await self._lead(lease, worker)
        finally:
            self._on_leading(False)
            guard.cancel()
            await self._release()

    async def _acquire(self) -> Lease:
        """Try until the Lease is ours."""
        try:
            while True:
                lease = await self.attempt()
                if lease is not None:
                    return lease
                await wait_to_look([self], self._clock)
        finally:
            self.leave()

    async def attempt(self) -> Lease | None:
        """Take the Lease if it is free; None: it is not, or nobody knows."""
        try:
            return await self._attempt()
        except KubeError as error:
            log.warning("leader.unknown", lease=str(self._key), error=str(error))
            return None

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

    async def _attempt(self) -> Lease | None:
        """Take the Lease if it is free; None if it is not, or another was faster."""
        try:
            found = await self._client.get(
                LEASES, self._key, within=self._timing.request
            )
        except NotFound:
            return await self._create()
        if not self._is_free(found):
            self._follow(found.process)
            return None
        kept = found.holder == self._identity
        if self._reads_later:
            self._note_ended(found)
        if not kept:
            self._predecessor = self._place_of(found)
        spec = {
            "acquireTime": micro_time(self._clock.now()),
            "leaseTransitions": found.transitions + (0 if kept else 1),
        }
        try:
            return await self._write(found, spec)
        except (Conflict, NotFound):
            return None

    def _place_of(self, found: Lease) -> Predecessor | None:
        """Return in whose place the lead is taken from a holder."""
        # Whoever led in between has called under a name of its own.
        if self._ended is None or self._ended[0].holder != found.holder:
            return None
        return Predecessor(found.run, found.incarnation, self._ended[1])

    def _is_free(self, found: Lease) -> bool:
        """Return whether no process can still believe that it holds the Lease.

        Ours is free, too: it is what a write of ours left whose answer was lost.
        """
        now = self._clock.monotonic()
        seen = identity_of(found.meta)
        if seen != self._seen:
            duration = found.duration or self._timing.duration.total_seconds()
            self._seen, self._free_at = seen, now + duration
        if found.holder in ("", self._identity):
            return True
        return now >= self._free_at or self._has_ended(found)

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

    async def _create(self) -> Lease | None:
        """Write the first Lease of that name."""
        self._predecessor = None  # the deleted Lease may have had others meanwhile
        started = self._clock.monotonic()
        spec = self._spec() | {
            "acquireTime": micro_time(self._clock.now()),
            "leaseTransitions": 0,
        }
        body = {"metadata": {"name": self._key.name, **self._metadata()}, "spec": spec}
        try:
            lease = await self._client.create(
                LEASES, self._key.namespace, body, within=self._timing.request
            )
        except AlreadyExists:
            return None
        return self._keep(lease, started)

    async def _lead(self, lease: Lease, worker: Callable[[], Awaitable[None]]) -> None:
        """Work and renew side by side; whichever fails ends the other."""
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew(lease))
                # The worker runs in this task and not in one of the group: when this
                # task is cancelled, renewals go on until the work has ended.
                try:
                    await worker()
                finally:
                    renewing.cancel()
        except BaseExceptionGroup as failures:
            lost, others = failures.split(LeadershipLostError)
            if lost is None:
                raise failures.exceptions[0] from None
            for other in others.exceptions if others else ():
                log.exception("worker.failed", exc_info=other)
            raise lost.exceptions[0] from None

    async def _renew(self, lease: Lease) -> NoReturn:
        """Renew until cancelled.

        Raises:
            LeadershipLostError: another holds it, or the deadline is over.
        """
        pause = self._timing.renew
        while True:
            await self._clock.sleep(min(pause, self._left()))
            left = self._left()
            if left <= timedelta(0):
                self._lose(f"no renewal within {self._timing.renew_deadline}")
            began = self._clock.monotonic()
            try:
                lease = await self._renew_once(lease, min(left, self._timing.request))
                # After a conflict the Lease was only read.
                pause = self._timing.renew if lease is self._lease else timedelta(0)
            except NotFound:
                self._lose("somebody deleted the lease")
            except KubeError as error:
                log.warning("leader.unrenewed", lease=str(self._key), error=str(error))
                # A request that hung has used up the pause already.
                passed = timedelta(seconds=self._clock.monotonic() - began)
                pause = max(self._spread() - passed, timedelta(0))

    async def _renew_once(self, lease: Lease, within: timedelta) -> Lease:
        """Write a renewal; after a conflict find out whose the Lease is."""
        try:
            return await self._write(lease, {}, within)
        except Conflict:
            found = await self._client.get(LEASES, self._key, within=within)
            if found.holder != self._identity:
                self._lose(f"it is held by {found.holder or 'nobody'}")
            # A renewal of ours whose answer was lost, or a stranger's label.
            return found

    async def _write(
        self, lease: Lease, spec: dict[str, object], within: timedelta | None = None
    ) -> Lease:
        """CAS the Lease to be ours from now on."""
        started = self._clock.monotonic()
        written = await self._client.patch(
            LEASES,
            self._key,
            {"metadata": self._metadata(), "spec": self._spec() | spec},
            cas=lease.meta,
            within=within or self._timing.request,
        )
        return self._keep(written, started)

    def _keep(self, lease: Lease, started: float) -> Lease:
        # Others saw the write at the earliest when it was sent.
        self._lease, self._renewed_at = lease, started
        return lease

    def _lose(self, why: str) -> NoReturn:
        self._lease = None
        log.error("leader.lost", lease=str(self._key), reason=why)
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
        if self._lease is None:
            return
        lease, self._lease = self._lease, None
        released = {"holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            await self._client.patch(
                LEASES,
                self._key,
                {"spec": self._spec() | released},
                cas=lease.meta,
                within=self._timing.request,
            )
        except KubeError as error:
            log.warning("leader.unreleased", lease=str(self._key), error=str(error))
        else:
            log.info("leader.released", lease=str(self._key))

    def _left(self) -> timedelta:
        passed = timedelta(seconds=self._clock.monotonic() - self._renewed_at)
        return self._timing.renew_deadline - passed

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

    def _spec(self) -> dict[str, object]:
        """Render that the Lease is ours, and renewed now."""
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": round(self._timing.duration.total_seconds()),
            "renewTime": micro_time(self._clock.now()),
        }
