"""The steps of a record's life, which are effects to perform, and the replies to them.

`lbcf.core.lifecycle.registration` and `lbcf.core.lifecycle.deregistration` ask for one step at a time;
`lbcf.executor` performs it and hands the reply back. Nothing else has effects, so
a crash "between any two lines" is a crash before or after one of these.
"""

from collections.abc import Mapping
from datetime import timedelta

import attrs

from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    BackendRecord,
    DrainProgress,
    LoadBalancerDriver,
    RecordStatus,
    Waiting,
)
from lbcf.core.model.values import BootTime, ObjectKey, Uid
from lbcf.core.reasons import Explanation


@attrs.frozen
class Permission:
    """A linearizable observation of a record that allows a driver call.

    Attributes:
        record: as observed: by a quorum read, or by the answer of one's own write; of
            a deletion with memberKey Record, also by the watch.
        at: monotonic seconds at which the observing API call BEGAN, or the turn that
            goes by the watch.
    """

    record: BackendRecord
    at: float


# --- steps -----------------------------------------------------------------------


@attrs.frozen
class ReadRecord:
    """Read the record from the API server itself (a quorum read)."""


@attrs.frozen
class CallDriver:
    """Call the driver, if the permission still covers the whole call.

    Attributes:
        permission: renewed by a quorum read if the call had to queue for too long.
        drain: when it began and when it ends at the latest (drainBackend only).
        drained: whether nothing was left on the backend (deregisterBackend only).
        final: no other ensure can be out when this is sent, nor one with other
            parameters if it is one itself; decided then, not at the answer.
        urgent: goes first: new traffic comes to a backend that is about to end until then.
    """

    operation: Operation
    driver: LoadBalancerDriver
    permission: Permission
    address: str
    drain: DrainProgress | None = None
    drained: bool = False
    final: bool = False
    urgent: bool = False


@attrs.frozen
class WriteStatus:
    """Write the whole status, if the record is still the version that was read."""

    record: BackendRecord
    status: RecordStatus


@attrs.frozen
class WriteSettling:
    """Write how long ensures may take effect, if the record is still that version."""

    record: BackendRecord
    settling: timedelta


@attrs.frozen
class ReadPod:
    """Read the pod of a record from the API server itself (a quorum read)."""

    key: ObjectKey
    uid: Uid


@attrs.frozen
class ReadBalancer:
    """Read the load balancer of a record from the API server itself (a quorum read)."""

    record: BackendRecord


@attrs.frozen
class TakeLock:
    """Take the lock on (driver, load balancer, address) for this record.

    Attributes:
        takeover_after: how long its last holder must have been gone.
        waiting: for whose end the record is known to wait; from a holder that has ended
            and left no call out the lock is taken at once.
    """

    driver: LoadBalancerDriver
    record: BackendRecord
    address: str
    takeover_after: timedelta
    waiting: Waiting | None = None


@attrs.frozen
class CoverEnd:
    """Write for whoever takes the address over how long calls for a record's end may live.

    Attributes:
        settling: for how long at most each of them may take effect (Δ).
    """

    record: BackendRecord
    settling: timedelta


@attrs.frozen
class Deregistered:
    """The proof that a record's address is out of its load balancer for good."""

    record: BackendRecord


@attrs.frozen
class NeverRegistered:
    """The proof that nothing was ever registered: the record has no address."""

    record: BackendRecord


@attrs.frozen
class Abandoned:
    """A person's order to release the record without its driver, and why."""

    record: BackendRecord
    why: str


Proof = Deregistered | NeverRegistered | Abandoned


@attrs.frozen
class ReleaseRecord:
    """Take the finalizer off, if the record is still the version that was read."""

    proof: Proof


@attrs.frozen
class Finish:
    """Nothing more to do in this turn.

    Attributes:
        again_after: when to come again; None: when something changes.
        failed: count it as a failure, so that turns without progress grow apart.
    """

    again_after: timedelta | None = None
    failed: bool = False


Step = (
    ReadRecord
    | CallDriver
    | WriteStatus
    | WriteSettling
    | ReadPod
    | ReadBalancer
    | TakeLock
    | CoverEnd
    | ReleaseRecord
    | Finish
)


# --- replies ---------------------------------------------------------------------


@attrs.frozen
class Observed:
    """The record as the API server has it now, by reading or by writing it."""

    permission: Permission


@attrs.frozen
class RecordGone:
    """No such record exists any more (or another one has its name)."""


@attrs.frozen
class Released:
    """Our own write took the finalizer off; nobody calls for the record any more."""


@attrs.frozen
class Conflicted:
    """Somebody wrote the record since it was read; nothing was written."""


@attrs.frozen
class WriteUnconfirmed:
    """A write had no answer: it was made, is still to be made, or never will be."""


@attrs.frozen
class Succeeded:
    """The driver has done it.

    Attributes:
        injected_info: None where the driver said nothing of it.
        backend_addr: of generateBackendAddr.
        in_service: of ensureBackend; None where the driver said nothing of it.
    """

    injected_info: Mapping[str, str] | None = None
    backend_addr: str = ""
    in_service: bool | None = None


@attrs.frozen
class StillRunning:
    """The driver answered Running and wants to be called again.

    Attributes:
        again_after: its wish, None where it has none.
        connections: what is left on the backend, None where it does not say.
    """

    message: str = ""
    again_after: timedelta | None = None
    connections: int | None = None


@attrs.frozen
class CallRefused:
    """The driver answered Fail; the call had no effect and will have none."""

    message: str
    again_after: timedelta | None = None


@attrs.frozen
class NoAnswer(Explanation):
    """The driver gave no valid answer.

    Attributes:
        may_land: the call may have taken effect, or may still.
        counts_from: monotonic seconds from which its Δ counts: when the permission began
            that it was sent under, or so much before it was sent that its time-out ends
            with W; None: not known.
    """

    may_land: bool
    counts_from: float | None = None

    def since(self, now: float, window: timedelta) -> float:
        """Return from when its Δ counts, once it has ended.

        Both its end here and its `notAfter` are within W after that; but a machine that
        was suspended meanwhile may have sent it just now.

        Args:
            now: monotonic seconds, after its end.
            window: W of its operation.
        """
        began = now if self.counts_from is None else self.counts_from
        return max(began, now - window.total_seconds())


CallFailure = CallRefused | StillRunning | NoAnswer
"""An answer of a driver, or the lack of one, that is no success."""


@attrs.frozen
class Superseded:
    """The call was not made: the record has changed, or its permission ran out."""

    permission: Permission


@attrs.frozen
class PodRead:
    """What a record's pod does.

    Attributes:
        is_ending: it is being deleted, or no pod of that uid exists any more.
    """

    is_ending: bool


@attrs.frozen
class BalancerRead:
    """What a record's load balancer does.

    Attributes:
        is_ending: it is being deleted, or is gone, or another one has its name.
        unreadable: why nobody can say, as it cannot be understood; else empty.
    """

    is_ending: bool
    unreadable: str = ""


@attrs.frozen
class LockTaken:
    """The address is this record's alone.

    Attributes:
        settling: for how long calls for the record's end may take effect as the lock says;
            zero where it says nothing.
    """

    settling: timedelta = timedelta(0)


@attrs.frozen
class EndCovered:
    """Whoever takes the address over waits for calls that live for so long."""

    settling: timedelta


@attrs.frozen
class LockHeld:
    """Another record holds the lock, or did until its takeover time.

    Attributes:
        lock: name of its Lease.
        holder: who, None where the lock does not say it in a way that we understand.
        uid: of that very record.
        gone_at: since when the holder is known to exist no more; None: it may exist.
        again_after: when to ask again; where the holder is gone, the lock is free then.
    """

    lock: ObjectKey
    holder: ObjectKey | None
    uid: Uid
    again_after: timedelta
    gone_at: BootTime | None = None


Reply = (
    Observed
    | RecordGone
    | Released
    | Conflicted
    | WriteUnconfirmed
    | Succeeded
    | StillRunning
    | CallRefused
    | NoAnswer
    | Superseded
    | PodRead
    | BalancerRead
    | LockTaken
    | EndCovered
    | LockHeld
)
