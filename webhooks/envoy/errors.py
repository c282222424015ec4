"""What can go wrong with Envoys, and what to do about it, in one line each.

EnvoyError
|- InvalidInput    the request cannot be carried out, whatever Envoys say
|- NotCreated      there is no such load balancer in the driver's state
|- Rejected        an Envoy refused what it was sent (NACK), with its own text
|- Foreign         an Envoy has it from a driver with other state
|- NotSaved        the state cannot be written to disk
`- NotYet          an Envoy has not taken it up so far, or none is connected

TurnedAway          a stream ends, for one of the reasons of TurnedAwayFor
"""

from enum import Enum, auto


class EnvoyError(Exception):
    """Something that is expected to go wrong, told in one line."""


class InvalidInput(EnvoyError, ValueError):  # noqa: N818
    """A field of the request, or a flag, cannot be used; nothing was changed."""


class NotCreated(EnvoyError, LookupError):  # noqa: N818
    """Nobody created the load balancer, or it was deleted."""


class Rejected(EnvoyError):  # noqa: N818
    """An Envoy answered with an error what it was sent, and keeps what it had."""


class Foreign(EnvoyError):  # noqa: N818
    """An Envoy has this load balancer from a driver with another state directory."""


class NotSaved(EnvoyError):  # noqa: N818
    """The state cannot be written, so that no Envoy was told."""


class NotYet(EnvoyError):  # noqa: N818
    """Nothing is wrong as far as is known, and it is not done."""


class TurnedAwayFor(Enum):
    """Reasons to end a stream. The log has each once a minute, whatever the peer's words."""

    UNREADABLE = auto()
    WHOLE_STATES = auto()
    MOST_FLEETS = auto()
    MOST_ENVOYS = auto()
    MOST_STREAMS = auto()
    MOST_NAMES = auto()
    LONG_NAME = auto()


class TurnedAway(Exception):  # noqa: N818
    """A stream has to end; its text has words of the peer.

    Attributes:
        reason: why.
    """

    def __init__(self, reason: TurnedAwayFor, text: str) -> None:
        super().__init__(text)
        self.reason = reason
