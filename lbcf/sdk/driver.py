"""What an author writes: a class with one method per operation of the protocol.

`lbcf.sdk.server` calls the methods, `lbcf.sdk.replies` makes answers of what they return
and raise. All retrying is the caller's: a method does one attempt and never sleeps to wait
for its load balancer. All methods are idempotent, and touch only what they were asked to.

    Exception
    |- Refusal
    |  |- Fail         the attempt failed
    |  |  |- Permanent   and so will others, until somebody changes something
    |  |  `- RetrySingly  of a batch: ask for this member alone
    |  `- RetryAfter   not yet: ask again
    `- NotThere        (a LookupError) what is to be taken out is not there
"""

import abc

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import ClassVar

import attrs

from aiohttp import web
from prometheus_client import CollectorRegistry

from lbcf.core.model.operations import Operation
from lbcf.core.model.values import MemberKey
from lbcf.sdk.mistakes import (
    check_batch,
    check_delay,
    check_fields,
    check_listed,
    check_methods,
    check_setting_names,
    check_settings,
)
from lbcf.wire import driver_answers as answers
from lbcf.wire.driver import LONGEST_DELAY
from lbcf.wire.driver_answers import Ingress, WholeObject
from lbcf.wire.driver_requests import (
    CreateLoadBalancerRequest,
    DeleteLoadBalancerRequest,
    DeregisterBackendRequest,
    DrainBackendRequest,
    EnsureBackendRequest,
    EnsureLoadBalancerRequest,
    GenerateBackendAddrRequest,
    JudgePodDeregisterRequest,
    ListBackendsRequest,
    ValidateBackendRequest,
    ValidateLoadBalancerRequest,
)


@attrs.frozen(kw_only=True)
class Batch:
    """How many members may come in one call: `batch` of spec.webhooks.

    Attributes:
        max_items: the most members of one call, 1 to 1000.
        max_delay: how long the caller may gather them while another batch is under way,
            up to 5 s; a call that finds nothing under way is sent at once.
    """

    max_items: int = 100
    max_delay: timedelta = timedelta(milliseconds=100)

    def __attrs_post_init__(self) -> None:
        """Refuse what no LoadBalancerDriver may declare."""
        check_batch(self, self.max_items, self.max_delay)


@attrs.frozen(kw_only=True)
class Succ:
    """It is done.

    Each operation takes some of the fields; with another one the call is answered as
    after any other mistake, and the log tells. Fields of other types than these are
    refused by a TypeError, when it is made.

    Attributes:
        msg: a sentence for people.
        lb_info: createLoadBalancer: the identity from now on.
        lock_key: createLoadBalancer, ensureLoadBalancer: names the physical load balancer,
            or the pool in it. Two LoadBalancers that have members in common must have
            the same, whatever the spelling of their lbSpec or the object that is their
            driver; two that have none must not. At most 512 characters, no secret.
        ingress: createLoadBalancer, ensureLoadBalancer: where clients reach it, at most 16
            addresses; an empty one says that there is none, None leaves what was said.
        backend_addr: generateBackendAddr: how the load balancer knows the backend.
        injected_info: operations on backends: handed back at every later call.
        in_service: ensureBackend: False where the load balancer sends the member nothing
            before its own checks have passed. `list_backends` tells when they have: until
            then readiness gates wait. None: nobody waits for checks.
    """

    msg: str | None = None
    lb_info: Mapping[str, str] | None = None
    lock_key: str | None = None
    ingress: Sequence[Ingress] | None = None
    backend_addr: str | None = None
    injected_info: Mapping[str, str] | None = None
    in_service: bool | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse what no answer could carry."""
        check_fields(self)


@attrs.frozen(kw_only=True)
class Running:
    """It goes on; the caller asks again.

    Fields of other types than these are refused by a TypeError, when it is made.

    Attributes:
        msg: a sentence for people.
        retry_after: the least time before that; more than an hour counts as an hour.
            None: as the caller likes.
        active_connections: drainBackend: what is left on the backend.
    """

    msg: str | None = None
    retry_after: timedelta | None = None
    active_connections: int | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse what no answer could carry."""
        check_fields(self)


class ListedBackend(answers.ListedBackend, frozen=True, kw_only=True):
    """A member of a load balancer.

    Fields of other types than these are refused by a TypeError, when it is made.
    """

    # The class of the wire does not check them: the controller decodes thousands of these
    # every 2 s, and JSON is checked by its types.

    def __post_init__(self) -> None:
        """Refuse what no answer could carry."""
        check_listed(self)


class ListBackendsAnswer(answers.ListBackendsAnswer, frozen=True, kw_only=True):
    """What this driver has on a load balancer.

    Fields of other types than these are refused by a TypeError, when it is made.
    """

    def __post_init__(self) -> None:
        """Refuse what no answer could carry."""
        check_listed(self)


class Refusal(Exception):  # noqa: N818  (the two below say which)
    """An attempt that did not succeed, told to the caller.

    Attributes:
        msg: a sentence for people: what happened, to what, and what to do.
        retry_after: the least time before another attempt; more than an hour counts as an
            hour. None: as the caller likes.
    """

    def __init__(self, msg: str, retry_after: timedelta | None = None) -> None:
        check_delay(self, retry_after)
        super().__init__(msg)
        self.msg = msg
        self.retry_after = retry_after


class Fail(Refusal):
    """The attempt is over and failed; in a validation: this is not allowed."""


class Permanent(Fail):
    """No attempt will fare better before somebody changes the object: a wrong parameter.

    A change of the object is told at once; without one the caller asks again after an
    hour, the longest delay of the protocol, since people also change load balancers.
    """

    def __init__(self, msg: str) -> None:
        super().__init__(msg, timedelta(seconds=LONGEST_DELAY))


class RetryAfter(Refusal):
    """It cannot be done yet, and nothing is wrong: ask again after the delay."""

    def __init__(self, delay: timedelta, msg: str = "") -> None:
        super().__init__(msg, delay)


class RetrySingly(Fail):
    """In a batch: nothing was tried of this item; the caller asks for it alone at once.

    For a load balancer that takes all of a change or nothing, where it cannot be told
    whose fault it was.
    """

    def __init__(
        self,
        msg: str = "nothing was tried: this one is to be asked for alone",
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(msg, retry_after)


class NotThere(LookupError):  # noqa: N818  (it is no error: it is done)
    """What is to be drained, deregistered or deleted is not there: that is done.

    Its one argument, which may be left out, is a sentence for people. In other operations
    it counts as `Fail`.
    """


Outcome = Succ | Running | Refusal | NotThere
"""What became of an item of a batch: what a method for one member returns, or raises."""


class Driver(abc.ABC):
    """Operates load balancers of one make; only overridden operations are served.

    Any method may raise `Fail`, `Permanent` or `RetryAfter`; those that take something out may
    raise `NotThere`, which counts as success. Any other exception is logged, and the
    caller is told `Fail` and where to look; of a validation, that it cannot be told now
    (HTTP 503).

    The definition of a class fails with a TypeError where a method is nearly spelt as an
    operation's, is not a coroutine function although it is awaited, or does not take the
    request; where a setting is nearly spelt as one of these, or has another type or value;
    and where there is a method for many members and no `batch`.

    Attributes:
        member_key: by what the load balancer tells its members apart. With ADDRESS the
            server refuses what a caller would put in under `memberKey: Record`: it
            locks no addresses, and one record would take the member of another.
        late_effect: how long after its time-out a call may still take effect.
        max_concurrent_calls: how many calls it bears at a time.
        timeouts: by operation, where the caller is to wait other than 10 s; up to a
            minute.
        batch: how many members ensureBackends, deregisterBackends and drainBackends
            bring at a time; one: the manifest does not declare them.
        batch_concurrency: how many items of a batch are performed at a time, by the
            methods for one member.
        summary: what `--help` says of the driver, where `run` is given the class.
    """

    member_key: MemberKey = MemberKey.ADDRESS
    late_effect: timedelta = timedelta(seconds=10)
    max_concurrent_calls: int = 32
    timeouts: ClassVar[Mapping[Operation, timedelta]] = MappingProxyType({})
    batch: Batch = Batch(max_items=1)
    batch_concurrency: int = 32
    summary: ClassVar[str] = "A driver of load balancers."

    def __init_subclass__(cls, **keywords: object) -> None:
        """Refuse methods that would never be called, and settings that none may have."""
        super().__init_subclass__(**keywords)
        check_methods(cls, Driver)
        check_settings(cls, Batch, Driver)
        check_setting_names(cls, Driver)

    async def start(self) -> None:  # noqa: B027  (nothing to open is common)
        """Open what is needed, before the first operation; errors end the process."""

    async def stop(self) -> None:  # noqa: B027  (nothing to close, likewise)
        """Close what `start` has opened, after the last operation."""

    def routes(self) -> Sequence[web.RouteDef]:
        """Return further endpoints of aiohttp, outside of the protocol; () unless overridden."""
        return ()

    def register_series(self, registry: CollectorRegistry) -> None:  # noqa: B027
        """Register series of your own, for /metrics; once, before `start`."""

    async def healthz(self) -> bool:
        """Return whether operations can be performed now: GET /healthz is 503 where not."""
        return True

    @abc.abstractmethod
    async def ensure_backend(self, request: EnsureBackendRequest) -> Succ | Running:
        """Put the member into full service, also if it was being drained."""

    @abc.abstractmethod
    async def deregister_backend(
        self, request: DeregisterBackendRequest
    ) -> Succ | Running:
        """Take the member out; unless `request.drained`, connections may be cut."""

    async def drain_backend(self, request: DrainBackendRequest) -> Succ | Running:
        """Send nothing new to the member; `Succ` when nothing is left on it.

        Until then `Running(active_connections=...)`, at once: the deadline is the
        caller's, who calls deregisterBackend when it has passed.
        """
        raise NotImplementedError

    async def ensure_backends(
        self, requests: Sequence[EnsureBackendRequest]
    ) -> Mapping[str, Outcome]:
        """Put many members of one load balancer into service; return outcomes by record id.

        Without this method `ensure_backend` is called for each. Where that would raise,
        this returns the exception as the item's outcome. An item without an outcome counts
        as a call without an answer; a `Refusal` that is raised counts for each item.
        """
        raise NotImplementedError

    async def deregister_backends(
        self, requests: Sequence[DeregisterBackendRequest]
    ) -> Mapping[str, Outcome]:
        """Take many members of one load balancer out; otherwise as `ensure_backends`."""
        raise NotImplementedError

    async def drain_backends(
        self, requests: Sequence[DrainBackendRequest]
    ) -> Mapping[str, Outcome]:
        """Send nothing new to many members; otherwise as `ensure_backends`."""
        raise NotImplementedError

    async def generate_backend_addr(
        self, request: GenerateBackendAddrRequest
    ) -> Succ | Running:
        """Find the address by which the load balancer knows a backend.

        `Succ(backend_addr=...)` has it. Asked where `addressSource` is `Driver`.
        """
        raise NotImplementedError

    async def validate_backend(self, request: ValidateBackendRequest) -> None:
        """Raise `Fail` if backends may not have these parameters.

        `RetryAfter` says that this cannot be told now, and is sent as HTTP 503.
        """
        raise NotImplementedError

    async def validate_load_balancer(
        self, request: ValidateLoadBalancerRequest
    ) -> None:
        """Raise `Fail` if a load balancer may not look like this.

        `RetryAfter` says that this cannot be told now, as while an appliance cannot be
        reached: it is sent as HTTP 503, and whoever applies the object tries again.
        """
        raise NotImplementedError

    async def create_load_balancer(
        self, request: CreateLoadBalancerRequest
    ) -> Succ | Running:
        """Create the load balancer that `request.lb_spec` describes, or find it.

        `Succ(lb_info=...)` is its identity, with which all later calls name it; without,
        that is the lb_spec. `Succ(lock_key=...)` names the physical load balancer, however
        it was spelled, `Succ(ingress=...)` where clients reach it.
        """
        raise NotImplementedError

    async def ensure_load_balancer(
        self, request: EnsureLoadBalancerRequest
    ) -> Succ | Running:
        """Give the load balancer its attributes.

        `lock_key` and `ingress` of the `Succ` are as those of `create_load_balancer`.
        """
        raise NotImplementedError

    async def delete_load_balancer(
        self, request: DeleteLoadBalancerRequest
    ) -> Succ | Running:
        """Delete the load balancer; one that is gone is deleted.

        `request.lb_info` is empty where nobody knows how its creation ended.
        """
        raise NotImplementedError

    async def judge_pod_deregister(
        self, request: JudgePodDeregisterRequest
    ) -> Sequence[WholeObject]:
        """Return those of `request.not_ready_pods`, whole, that stay registered."""
        raise NotImplementedError

    async def list_backends(self, request: ListBackendsRequest) -> ListBackendsAnswer:
        """List the members that this driver put on the load balancer, and the epoch."""
        raise NotImplementedError
