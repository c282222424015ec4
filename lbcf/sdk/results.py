"""What an author's method gives back, or raises, instead of wire messages.

Methods of `lbcf.sdk.driver.Driver` return or raise these; `lbcf.sdk.replies` makes the
operation's answer of them.

    Exception
    |- Refusal
    |  |- Fail         the attempt failed
    |  |  `- Permanent   and so will others, until somebody changes something
    |  `- RetryAfter   not yet: ask again
    `- NotThere        (a LookupError) what is to be taken out is not there
"""

from collections.abc import Mapping
from datetime import timedelta

import attrs

from lbcf.wire.driver import LONGEST_DELAY


@attrs.frozen(kw_only=True)
class Succ:
    """It is done. A field that the operation's answer has not is a mistake.

    Attributes:
        msg: a sentence for people.
        lb_info: createLoadBalancer: the identity from now on.
        lock_key: createLoadBalancer, ensureLoadBalancer: names the physical load balancer,
            or the pool in it. Two LoadBalancers that have members in common must have
            the same, whatever the spelling of their lbSpec or the object that is their
            driver; two that have none must not. At most 512 characters, no secret.
        backend_addr: generateBackendAddr: how the load balancer knows the backend.
        injected_info: operations on backends: handed back at every later call.
    """

    msg: str | None = None
    lb_info: Mapping[str, str] | None = None
    lock_key: str | None = None
    backend_addr: str | None = None
    injected_info: Mapping[str, str] | None = None


@attrs.frozen(kw_only=True)
class Running:
    """It goes on; the caller asks again.

    Attributes:
        msg: a sentence for people.
        retry_after: the least time before that, up to an hour; None: as the caller
            likes.
        active_connections: drainBackend: what is left on the backend.
        injected_info: operations on backends: as in `Succ`.
    """

    msg: str | None = None
    retry_after: timedelta | None = None
    active_connections: int | None = None
    injected_info: Mapping[str, str] | None = None


class Refusal(Exception):  # noqa: N818  (the two below say which)
    """An attempt that did not succeed, told to the caller.

    Attributes:
        msg: a sentence for people: what happened, to what, and what to do.
        retry_after: the least time before another attempt; None: as the caller likes.
    """

    def __init__(self, msg: str, retry_after: timedelta | None = None) -> None:
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


class NotThere(LookupError):  # noqa: N818  (it is no error: it is done)
    """What is to be drained, deregistered or deleted is not there: that is done."""
