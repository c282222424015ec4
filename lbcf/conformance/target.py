"""What is examined: a driver, a load balancer of it, and what the kit may do to both."""

import ssl

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta

import attrs

from lbcf.core.model.operations import SINGLE, Operation
from lbcf.core.model.values import MemberKey


OPTIONAL = frozenset({Operation.DRAIN_BACKEND, Operation.LIST_BACKENDS, *SINGLE})
"""Operations that are called only where the driver declares them."""

ALWAYS_SERVED = frozenset(
    {Operation.HEALTHZ, Operation.ENSURE_BACKEND, Operation.DEREGISTER_BACKEND}
)
"""Operations that no driver can do without."""

DEFAULT_ADDRESSES = tuple(f"198.18.0.{last}:8080" for last in range(1, 33))
"""Of the network that RFC 2544 sets aside for measurements: nobody listens there."""

Restart = Callable[[], Awaitable[None]]
Connect = Callable[[str, str, int], Awaitable[None]]
"""Given address, record id and a number: gives the member so many connections."""


@attrs.frozen(kw_only=True)
class Target:
    """A driver and how it may be examined.

    Attributes:
        url: of the driver, without an operation.
        lb_spec: of a load balancer that is there for this, or may be created.
        gone: overrides of its identity that name one which is not there; empty: the
            kit makes one up, and a driver that does not take it is only noted.
        parameters: of the backends.
        member_key: as in spec.memberKey of its LoadBalancerDriver.
        declared: operations that it must serve.
        addresses: which it may register.
        restart: kills the driver and starts it again; None: cannot be done.
        connect: None: connections cannot be made.
        seed: the same seed sends the same record ids.
        timeout: of one call.
        patience: how long a task may be Running.
        tls: how https is verified; None: by the system's authorities.
        token: of `Authorization: Bearer`; empty: not sent.
    """

    url: str
    lb_spec: Mapping[str, str] = attrs.field(factory=dict)
    gone: Mapping[str, str] = attrs.field(factory=dict)
    parameters: Mapping[str, str] = attrs.field(factory=dict)
    member_key: MemberKey = MemberKey.ADDRESS
    declared: frozenset[Operation] = frozenset()
    addresses: Sequence[str] = DEFAULT_ADDRESSES
    restart: Restart | None = None
    connect: Connect | None = None
    seed: int = 1
    timeout: timedelta = timedelta(seconds=10)
    patience: timedelta = timedelta(seconds=20)
    tls: ssl.SSLContext | None = None
    token: str = attrs.field(default="", repr=False)

    @property
    def is_plain(self) -> bool:
        """Return whether it declares nothing that LBCF in Go does not know."""
        return not self.declared & OPTIONAL

    def lacks(self, operation: Operation) -> bool:
        """Return whether the operation is optional and not declared."""
        return operation in OPTIONAL and operation not in self.declared

    def must_serve(self, operation: Operation) -> bool:
        """Return whether the driver declares the operation, or no driver can do without."""
        return operation in self.declared or operation in ALWAYS_SERVED
