"""What a BIG-IP refuses, told apart; beside the errors of `webhooks.device`.

    DeviceError
    |- Foreign, Unsettled
    |- Busy
    |  |- Starting         what answers is a proxy, or not all there yet
    |  `- NoActiveUnit
    `- Refused             one class per reason
       |- Missing          no such pool, member or node
       |  |- NoSuchGroup
       |  `- NoSuchPool
       |- Duplicate        it is there already
       |- AddressTaken     another node has the address
       |- NodeInUse        a member refers to the node
       |- Denied           who we say that we are is not taken
       `- Forbidden        it is, and may not do this: 403, or 401 with a reason

iControl REST answers errors as `{"code", "message", "errorStack", "apiError"}`; the
messages begin with a number that tells them apart. While the management interface
starts, or a proxy before it is alone, the body is a page and not JSON.
"""

import re

from collections.abc import Mapping
from datetime import timedelta

from webhooks.device.errors import Busy, DeviceError, Refused
from webhooks.device.replies import Reply


TOKENS_PAUSE = timedelta(minutes=1)
"""A user may have 100 tokens; they expire one by one."""

_BUSY = frozenset({429, 502, 503, 504})
_UNREGISTERED = "Public URI path not registered"
"""So says a management interface whose parts are not all up yet, with 404."""
_FAILED = "transaction failed:"
"""So begins what is said of a commit; what is wrong with one of its changes follows."""
_NO_RIGHT = re.compile(r"Authorization failed: user=\S+ resource=(\S+) verb=(\S+)")
"""So begins, with 401, what is said to somebody who is known and may not do this."""
_TOO_MANY_TOKENS = "maximum active login tokens"


class Foreign(DeviceError):  # noqa: N818  (adjectives say what is wrong)
    """The address is a member already, and this driver did not put it there."""


class Unsettled(DeviceError):  # noqa: N818
    """The member did not come to the wanted state in a bounded number of steps."""


class NoActiveUnit(Busy):
    """No unit of a pair says that it is active: a failover, or both are down."""


class Starting(Busy):
    """The management interface is not up: the unit, or a part of it, was restarted."""


class Missing(Refused):
    """What the path names is not there."""


class NoSuchGroup(Missing):
    """The device group of the load balancer is not there."""


class NoSuchPool(Missing):
    """The pool of the load balancer is not there."""


class Duplicate(Refused):
    """It is there already."""


class AddressTaken(Refused):
    """A node of another name has the address."""


class NodeInUse(Refused):
    """The node cannot go: it is the node of a member."""


class Denied(Refused):
    """The token, or name and password, are not taken."""


class Forbidden(Refused):
    """The user's role is too weak."""


_NUMBERS: Mapping[str, type[Refused]] = {
    "01020036": Missing,
    "01020066": Duplicate,
    "0107176c": AddressTaken,
    "01070110": NodeInUse,
}
"""What a message begins with, and its meaning."""

_STATUSES: Mapping[int, type[Refused]] = {
    401: Denied,
    403: Forbidden,
    404: Missing,
    409: Duplicate,
}

_ADVICE: Mapping[type[Refused], str] = {
    Denied: "check username and password in the driver's Secret",
    Forbidden: "give the driver's user the role Manager on the pool's partition",
}


def check(device: object, reply: Reply) -> Reply:
    """Return a reply that says yes.

    Raises:
        Busy: come again; the unit, or what speaks for it, cannot just now.
        Refused: it says no; which class says why.
    """
    document = reply.document
    if reply.is_ok and (document is not None or not reply.body.strip()):
        return reply
    said = document.get("message") if document else None
    message = said if isinstance(said, str) else ""
    text = f"{device} is busy (HTTP {reply.status}): {message or reply.gist}"
    if _is_starting(reply, message):
        raise Starting(text)
    if reply.status in _BUSY:
        raise Busy(text)
    if _TOO_MANY_TOKENS in message:
        text = f"{device}: {message}; waiting for some to expire"
        raise Busy(text, TOKENS_PAUSE)
    raise _refusal(device, reply.status, message)


def _is_starting(reply: Reply, message: str) -> bool:
    """Tell whether this is not the management interface at work."""
    if reply.document is None:
        # A page: only 400, 401, 403 and their like are meant by who sends one.
        return reply.status == 404 or not 400 <= reply.status < 500  # noqa: PLR2004
    return _UNREGISTERED in message


def _refusal(device: object, status: int, message: str) -> Refused:
    """Return the error that stands for what the unit said."""
    number = message.removeprefix(_FAILED).strip()[:8]
    kind = _NUMBERS.get(number) or _STATUSES.get(status, Refused)
    text = f"{device} answered {status}: {message or 'nothing more'}"
    right = _NO_RIGHT.match(message)
    if right is not None:
        kind, (resource, verb) = Forbidden, right.groups()
        text = f"{device} answered {status}: the user may not {verb} {resource}"
    advice = _ADVICE.get(kind)
    return kind(f"{text} ({advice})" if advice else text, status, message)
