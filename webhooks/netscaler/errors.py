"""What an appliance refuses, by the numbers of NITRO, and what is wrong with a member.

    DeviceError (webhooks.device.errors)
    |- Refused
    |  `- NitroRefused       an `errorcode` that is none of these:
    |     |- NoSuchResource  258 and its like: what is to be removed is gone
    |     |- AlreadyExists   273: what is to be added is there
    |     |- SessionEnded    444, 1027: log in again
    |     `- WrongLogin, NotPermitted: the user, or the policies bound to it
    |- NoSuchGroup           the service group is gone
    |- ForeignMember         the address is bound by somebody else
    |- NotPrimary            the only unit that was named is a secondary
    `- Unsettled             the member does not stay as it was put

Numbers: the vendor's error table, as the public clients branch on it.
"""

from collections.abc import Mapping

from webhooks.device.errors import DeviceError, Refused


class NitroRefused(Refused):
    """The appliance answered with an error of its own.

    Attributes:
        code: its `errorcode`; 0 where it said none.
    """

    advice = "see the NITRO reference"

    def __init__(self, device: object, status: int, code: int, said: str) -> None:
        self.code = code
        number = f"error {code}" if code else f"HTTP {status}"
        text = f"{device} answered {number}, {said!r:.160}: {self.advice}"
        super().__init__(text, status, said)


class NoSuchResource(NitroRefused):
    """What the call was about is not there."""

    advice = "it was removed by hand, or never was there"


class AlreadyExists(NitroRefused):
    """What was to be added is there already."""

    advice = "something of that name or address is there already"


class SessionEnded(NitroRefused):
    """The session has ended: idle for too long, killed, or the appliance restarted."""

    advice = "the session does not last: is somebody ending it?"


class WrongLogin(NitroRefused):
    """The appliance does not know the user, or not with this password."""

    advice = "put the right username and password into the driver's Secret"


class NotPermitted(NitroRefused):
    """The user may not do this."""

    advice = (
        "give the driver's user a command policy with servers, service groups, "
        "`save ns config` and `stat ns`"
    )


class NoSuchGroup(DeviceError):  # noqa: N818  (adjectives say what is wrong)
    """The service group is not there."""


class ForeignMember(DeviceError):  # noqa: N818
    """The address is a member that this driver did not bind: it stays as it is."""


class NotPrimary(DeviceError):  # noqa: N818
    """Only a secondary was named: what is changed there is lost."""


class Unsettled(DeviceError):  # noqa: N818
    """The member did not come to the wanted state in a bounded number of steps."""


MEANINGS: Mapping[int, type[NitroRefused]] = {
    257: NotPermitted,
    258: NoSuchResource,
    273: AlreadyExists,
    344: NoSuchResource,
    351: NoSuchResource,
    354: WrongLogin,
    444: SessionEnded,
    1027: SessionEnded,
    2138: NotPermitted,
}
"""What a number means; all others are `NitroRefused` itself."""

BUSY = frozenset({292, 293, 445, 446, 447})
"""An operation is in progress, or too many sessions or connections: ask again."""


def refusal(device: object, status: int, code: int, said: str) -> NitroRefused:
    """Return the error that stands for an answer of the appliance."""
    return MEANINGS.get(code, NitroRefused)(device, status, code, said)
