"""What can go wrong with a HAProxy, and what to do about it, in one line each.

    HaproxyError
    |- InvalidInput      the request cannot be carried out, whatever HAProxy says
    |- Unreachable       nothing answers at the socket
    |- NoAnswer          it did not answer in time, or not completely
    |  `- Uncertain      the same, and a change was sent
    |- Unreadable        it answered something that is not in its manual
    |- AddressConflict, OptionConflict, Unsettled: the member is not as it should be
    |- NoSlots, SlotsTaken, SlotOwned: no server can be given to the member
    |- NoCookie          the backend knows no cookie that members could have
    |- PartlyFailed      some of several HAProxys failed
    `- Refused           HAProxy answered no; one class per reason

The runtime API has no error codes, only texts: `refusal` tells them apart. Measured on
2.6.12; the same texts were seen in 2.8.0, 3.0.0 and 3.2.0.
"""

from collections.abc import Mapping


class HaproxyError(Exception):
    """Something that is expected to go wrong, told in one line."""


class InvalidInput(HaproxyError, ValueError):  # noqa: N818
    """A field of the request, or a flag, cannot be used; nothing was sent."""


class Unreachable(HaproxyError):  # noqa: N818  (adjectives say what is wrong)
    """Nothing answers at the socket: HAProxy is down, or the path is wrong."""


class NoAnswer(HaproxyError):  # noqa: N818
    """No complete answer in time."""


class Uncertain(NoAnswer):
    """A change was sent and not answered: it may have, or still take, effect."""


class Unreadable(HaproxyError):  # noqa: N818
    """The answer is not what the management guide describes."""


class AddressConflict(HaproxyError):  # noqa: N818
    """The member exists with another address; a name never changes its address."""


class OptionConflict(HaproxyError):  # noqa: N818
    """The member exists with options that cannot be changed while it is there."""


class NoCookie(HaproxyError):  # noqa: N818
    """Members are to have cookies, and the backend has no name for them."""


class NoSlots(HaproxyError):  # noqa: N818
    """The backend has no servers that could be given to members."""


class SlotsTaken(HaproxyError):  # noqa: N818
    """All servers that can be given to members are."""


class SlotOwned(HaproxyError):  # noqa: N818
    """The slot at the address is that of another record, which may live still."""


class Unsettled(HaproxyError):  # noqa: N818
    """The member did not come to the wanted state in a bounded number of steps."""


class PartlyFailed(HaproxyError):  # noqa: N818
    """At least one of the HAProxys behind a load balancer failed."""


class Refused(HaproxyError):  # noqa: N818
    """HAProxy answered no; `advice` says what to do.

    Attributes:
        answer: the first line of what HAProxy answered.
    """

    advice = "see HAProxy's management guide, section 9.3"

    def __init__(self, endpoint: object, answer: str) -> None:
        self.answer = answer
        super().__init__(f"HAProxy at {endpoint} answered {answer!r}: {self.advice}")


class PermissionDenied(Refused):
    """The socket's level is not admin."""

    advice = "say `level admin` at its `stats socket`"


class NoSuchBackend(Refused):
    """The backend is not in HAProxy's configuration."""

    advice = "there is no backend of that name in its configuration"


class NoSuchServer(Refused):
    """The member is not there (any more)."""

    advice = "the server is gone, taken out by hand or by a reload"


class ServerExists(Refused):
    """A server of that name is there already, whatever its address."""

    advice = "a server of that name is there already"


class StaticAlgorithm(Refused):
    """The backend's algorithm cannot take servers at run time."""

    advice = (
        "set `balance` to roundrobin, leastconn, first or random, "
        "add `hash-type consistent`, or run the driver with --slots"
    )


class NotInMaintenance(Refused):
    """Only a server in maintenance can be deleted; somebody put it back."""

    advice = "somebody changes the server's state meanwhile"


class StillConnected(Refused):
    """Connections are attached to the server."""

    advice = "it can be deleted once its connections have ended"


class NoHealthCheck(Refused):
    """The server was added without `check`."""

    advice = "register it again to give it a health check"


class InvalidAddress(Refused):
    """HAProxy does not take the address."""

    advice = "give an IP address and a port of 1 to 65535"


class InvalidName(Refused):
    """HAProxy does not take the server's name."""

    advice = "only letters, digits and . _ : - may be in a server's name"


class InvalidWeight(Refused):
    """HAProxy does not take the weight."""

    advice = "give a weight of 0 to 256"


class InvalidState(Refused):
    """HAProxy does not know the admin state."""

    advice = "only ready, drain and maint are known"


class OptionRefused(Refused):
    """The keyword is unknown, or not for servers that are added at run time."""

    advice = "this version takes no such option for servers added at run time"


class MissingArgument(Refused):
    """The command is not complete."""

    advice = "the driver composed an incomplete command: report it"


class UnknownCommand(Refused):
    """This HAProxy does not have the command."""

    advice = "HAProxy 2.6 or newer is needed"


class UnknownRefusal(Refused):
    """A text that is in no table."""


REFUSALS: Mapping[str, type[Refused]] = {
    "Permission denied": PermissionDenied,
    "No such backend": NoSuchBackend,
    "Can't find backend": NoSuchBackend,
    "No such server": NoSuchServer,
    "Already exists a server": ServerExists,
    "Backend must use a dynamic load balancing": StaticAlgorithm,
    "Only servers in maintenance mode": NotInMaintenance,
    "Server still has connections": StillConnected,
    "Health check was not configured": NoHealthCheck,
    "Require 'backend/server'": MissingArgument,
    "'server' expects <name>": MissingArgument,
    "'set server <srv> state' expects": InvalidState,
    "invalid port": InvalidAddress,
    "invalid character": InvalidAddress,
    "invalid address": InvalidAddress,
    "Invalid addr": InvalidAddress,
    "Absolute weight can only be": InvalidWeight,
    "weight of server": InvalidWeight,
    "unknown keyword": OptionRefused,
    "option is not accepted for dynamic server": OptionRefused,
    "verify is enabled by default but no CA file": OptionRefused,
    "is not permitted in server name": InvalidName,
    "Unknown command": UnknownCommand,
}
"""A part of HAProxy's answer, and what it means; the first that is found counts."""


def refusal(endpoint: object, answer: str) -> Refused:
    """Return the error that stands for HAProxy's answer to a command."""
    first = next((line for line in answer.splitlines() if line.strip()), "")
    for text, meaning in REFUSALS.items():
        if text in first:
            return meaning(endpoint, first)
    return UnknownRefusal(endpoint, first)
