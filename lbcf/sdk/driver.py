"""What an author writes: a class with one method per operation of the protocol.

`lbcf.sdk.server` calls the methods, `lbcf.sdk.results` is what they return and raise.
All retrying is the caller's: a method does one attempt and never sleeps to wait for
its load balancer. All methods are idempotent, and touch only what they were asked to.
"""

import abc

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import ClassVar

from aiohttp import web
from prometheus_client import CollectorRegistry

from lbcf.core.model.operations import Operation
from lbcf.core.model.values import MemberKey
from lbcf.sdk.results import Running, Succ
from lbcf.wire.driver_answers import ListBackendsAnswer, WholeObject
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


class Driver(abc.ABC):
    """Operates load balancers of one make; only overridden operations are served.

    Any method may raise `Fail`, `Permanent` or `RetryAfter`; those that take something out may
    raise `NotThere`, which counts as success. Any other exception is logged, and the
    caller is told `Fail` and where to look.

    Attributes:
        member_key: by what the load balancer tells its members apart.
        late_effect: how long after a time-out an operation may still take effect.
        max_concurrent_calls: how many it bears at a time.
        timeouts: of operations that need other than 10 s, up to a minute.
    """

    member_key: MemberKey = MemberKey.ADDRESS
    late_effect: timedelta = timedelta(seconds=10)
    max_concurrent_calls: int = 32
    timeouts: ClassVar[Mapping[Operation, timedelta]] = MappingProxyType({})

    summary: ClassVar[str] = "A driver of load balancers."
    """What `--help` says of it."""

    async def start(self) -> None:  # noqa: B027  (nothing to open is common)
        """Open what is needed, before the first operation; errors end the process."""

    async def stop(self) -> None:  # noqa: B027  (nothing to close, likewise)
        """Close it, after the last operation."""

    def routes(self) -> Sequence[web.RouteDef]:
        """Return further endpoints, outside of the protocol; none unless overridden."""
        return ()

    def register_series(self, registry: CollectorRegistry) -> None:  # noqa: B027
        """Register series of your own, for /metrics; once, before `start`."""

    async def healthz(self) -> bool:
        """Tell whether operations can be performed now."""
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
        """Send nothing new to the member; `Succ` when nothing is left on it."""
        raise NotImplementedError

    async def generate_backend_addr(
        self, request: GenerateBackendAddrRequest
    ) -> Succ | Running:
        """Find the address of a backend: `Succ(backend_addr=...)`."""
        raise NotImplementedError

    async def validate_backend(self, request: ValidateBackendRequest) -> None:
        """Raise `Fail` if backends may not have these parameters."""
        raise NotImplementedError

    async def validate_load_balancer(
        self, request: ValidateLoadBalancerRequest
    ) -> None:
        """Raise `Fail` if a load balancer may not look like this."""
        raise NotImplementedError

    async def create_load_balancer(
        self, request: CreateLoadBalancerRequest
    ) -> Succ | Running:
        """Create or find it: `Succ(lb_info=...)`; without: lbSpec is the identity.

        `Succ(lock_key=...)` names the physical load balancer, however it was spelled.
        """
        raise NotImplementedError

    async def ensure_load_balancer(
        self, request: EnsureLoadBalancerRequest
    ) -> Succ | Running:
        """Give the load balancer its attributes; `Succ(lock_key=...)` as above."""
        raise NotImplementedError

    async def delete_load_balancer(
        self, request: DeleteLoadBalancerRequest
    ) -> Succ | Running:
        """Delete the load balancer."""
        raise NotImplementedError

    async def judge_pod_deregister(
        self, request: JudgePodDeregisterRequest
    ) -> Sequence[WholeObject]:
        """Return those of the pods that stay registered although not ready."""
        raise NotImplementedError

    async def list_backends(self, request: ListBackendsRequest) -> ListBackendsAnswer:
        """List the members that this driver put there, and the epoch."""
        raise NotImplementedError
