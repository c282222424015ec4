"""What a driver answers, one type per operation.

lbcf.sdk builds answers, lbcf.drivers reads them, `lbcf.wire.driver` turns them into
bytes and back. Maps are string to string; whole objects (Pod, Service, Node) are as
the API server gave them.
"""

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal

import msgspec


StringMap = dict[str, str]
WholeObject = dict[str, object]
LARGEST_COUNT = 2**63 - 1
"""What fits into a status; a larger count is no answer."""

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]

LONGEST_ADDRESS = 4096
"""Characters of a `backendAddr`; an answer with a longer one is not valid."""

LONGEST_EPOCH = 1024
"""Characters of an `epoch`; an answer with a longer one is not valid."""

LONGEST_RECORD_ID = 253
"""Characters of a member's `recordID`; an answer with a longer one is not valid."""

LONGEST_DELAY = 3600
"""Seconds; a driver's wish for a longer delay is cut, a negative one is none."""

Delay = Annotated[int, msgspec.Meta(ge=0, le=LONGEST_DELAY)]

LONGEST_LOCK_KEY = 512
"""Characters; an answer with a longer one is not valid."""

MOST_INGRESS = 16
"""Entries of an `ingress`; an answer with more is not valid."""
MOST_INGRESS_PORTS = 100
"""Ports of one entry, as a Service's status has room for; likewise."""
LONGEST_HOSTNAME = 253
"""Characters of a host name (RFC 1035)."""

LockKey = Annotated[str, msgspec.Meta(max_length=LONGEST_LOCK_KEY)]


class Status(StrEnum):
    """How an attempt ended: finished, failed, or going on (ask again)."""

    SUCC = "Succ"
    FAIL = "Fail"
    RUNNING = "Running"


class BackendState(StrEnum):
    """How a load balancer treats one of its members."""

    ACTIVE = "Active"
    DRAINING = "Draining"
    DOWN = "Down"


class Message(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    forbid_unknown_fields=True,
):
    """Anything that travels: field names are camelCase on the wire.

    Unknown fields are skipped all the same: `lbcf.wire.driver` takes them out.
    """


class Answer(Message, frozen=True, kw_only=True):
    """What a driver answers.

    Attributes:
        msg: a sentence for people; 256 visible characters of it are kept at most.
    """

    msg: str = ""


class HealthzAnswer(Answer, frozen=True, kw_only=True):
    """Whether the driver can serve."""

    healthy: bool


class ValidationAnswer(Answer, frozen=True, kw_only=True):
    """Whether the driver takes what it was shown; `msg` says why not."""

    succ: bool


class JudgePodDeregisterAnswer(ValidationAnswer, frozen=True, kw_only=True):
    """Which of the pods stay registered although they are not ready."""

    do_not_deregister: Sequence[WholeObject] = ()


class RetriedAnswer(Answer, frozen=True, kw_only=True):
    """How one attempt ended.

    Attributes:
        status: Succ ends the task; Fail and Running ask for another attempt.
        min_retry_delay_in_seconds: 0 to 3600; 0 leaves the delay to the caller.
    """

    status: Status
    min_retry_delay_in_seconds: Delay = 0

    @property
    def min_retry_delay(self) -> timedelta | None:
        """The least time before the next attempt; None leaves it to the caller."""
        seconds = self.min_retry_delay_in_seconds
        return timedelta(seconds=seconds) if seconds else None


class IngressPort(Message, frozen=True, kw_only=True):
    """A port that answers at an address."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    protocol: Literal["TCP", "UDP"] = "TCP"


class Ingress(Message, frozen=True, kw_only=True):
    """Where clients reach the load balancer: exactly one of `ip` and `hostname`.

    Attributes:
        ip: IPv4 or IPv6.
        hostname: a DNS name.
        ports: that answer there; empty where the driver does not say.
    """

    ip: str = ""
    hostname: str = ""
    ports: Annotated[
        Sequence[IngressPort], msgspec.Meta(max_length=MOST_INGRESS_PORTS)
    ] = ()


class EnsureLoadBalancerAnswer(RetriedAnswer, frozen=True, kw_only=True):
    """Which physical load balancer it is.

    Attributes:
        lock_key: the same for all LoadBalancers that share members, however they are
            spelled, and another one for all others; empty where the driver does not say.
        ingress: where clients reach it; missing: as before, or not known.
    """

    lock_key: LockKey = ""
    ingress: (
        Annotated[Sequence[Ingress], msgspec.Meta(max_length=MOST_INGRESS)] | None
    ) = None


class CreateLoadBalancerAnswer(EnsureLoadBalancerAnswer, frozen=True, kw_only=True):
    """`lb_info` is the identity from now on; empty: lbSpec is the identity."""

    lb_info: StringMap = msgspec.field(default_factory=dict)


class GenerateBackendAddrAnswer(RetriedAnswer, frozen=True, kw_only=True):
    """`backend_addr` is how the load balancer will know the backend."""

    backend_addr: Annotated[str, msgspec.Meta(max_length=LONGEST_ADDRESS)] = ""


class BackendAnswer(RetriedAnswer, frozen=True, kw_only=True):
    """An answer about one member.

    Attributes:
        injected_info: kept on Succ and handed back at every later call; None where
            the driver says nothing of it.
        in_service: ensureBackend alone, on Succ: whether the load balancer sends it new
            traffic already; None where the driver says nothing of it.
    """

    injected_info: StringMap | None = None
    in_service: bool | None = None


class DrainBackendAnswer(BackendAnswer, frozen=True, kw_only=True):
    """`active_connections` is what is left on the backend, where it can be told."""

    active_connections: Count | None = None


class BackendResult(BackendAnswer, frozen=True, kw_only=True):
    """How the attempt at one item of a batch ended.

    Attributes:
        record_id: of the item.
        retry_singly: with `Fail`: nothing was tried of it; the caller asks for this item
            alone, at once, by the operation on one member.
    """

    record_id: str = msgspec.field(name="recordID")
    retry_singly: bool = False


class DrainResult(BackendResult, frozen=True, kw_only=True):
    """`active_connections` is what is left on the backend, where it can be told."""

    active_connections: Count | None = None


class BackendsAnswer(Answer, frozen=True, kw_only=True):
    """What became of each item of a batch; there is no success of the whole.

    Attributes:
        results: one for each item, in any order; an item without one had no answer.
    """

    results: Sequence[BackendResult]


class DrainBackendsAnswer(Answer, frozen=True, kw_only=True):
    """How far each drain of a batch is.

    Attributes:
        results: one for each item, in any order; an item without one had no answer.
    """

    results: Sequence[DrainResult]


BatchAnswer = BackendsAnswer | DrainBackendsAnswer


class ListedBackend(Message, frozen=True, kw_only=True):
    """A member that the driver put there.

    Attributes:
        record_id: empty where the driver does not know it.
        reason: why it is not Active, in the load balancer's own word, such as `MAINT`;
            256 characters of it are kept at most.
    """

    backend_addr: Annotated[str, msgspec.Meta(max_length=LONGEST_ADDRESS)]
    record_id: Annotated[str, msgspec.Meta(max_length=LONGEST_RECORD_ID)] = (
        msgspec.field(name="recordID", default="")
    )
    state: BackendState
    active_connections: Count = 0
    reason: str = ""


class ListBackendsAnswer(Answer, frozen=True, kw_only=True):
    """What this driver has on a load balancer.

    Attributes:
        status: Succ where the driver does not say; else the list means nothing.
        epoch: changes when members that were added at run time were lost.
    """

    status: Status = Status.SUCC
    epoch: Annotated[str, msgspec.Meta(max_length=LONGEST_EPOCH)] = ""
    backends: Sequence[ListedBackend] = ()


def outcome_of(answer: Answer) -> Status:
    """Return what a valid answer counts as in metrics."""
    match answer:
        case RetriedAnswer() | ListBackendsAnswer():
            return answer.status
        case HealthzAnswer(healthy=False) | ValidationAnswer(succ=False):
            return Status.FAIL
        case _:
            return Status.SUCC
