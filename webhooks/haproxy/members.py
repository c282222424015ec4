"""Which server of a HAProxy is ours, and where it listens.

A record's id becomes a server's name behind our prefix. All commands take a
`MemberName`, and none can be made that does not begin with the prefix: that, and
nothing else, is what keeps the driver off the servers of other people.
"""

import re

from ipaddress import IPv4Address
from typing import Self

import attrs

from webhooks.haproxy.errors import InvalidInput
from webhooks.haproxy.parameters import Options
from webhooks.haproxy.replies import Server
from webhooks.shared.addresses import LAST_PORT, Address, read_address


DEFAULT_PREFIX = "lbcf"

NOBODY = Address(IPv4Address("127.0.0.1"), 1)
"""Where nobody listens: what is sent there is refused at once, and nobody has served it."""

_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]{0,19}")
_SLOT = re.compile(r"[1-9][0-9]{0,4}")
_RECORD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,98}")


def checked_prefix(text: str) -> str:
    """Return a prefix that names can begin with.

    There is no `-` in it: it ends the prefix, so that no prefix begins another's names.

    Raises:
        InvalidInput: it cannot be used.
    """
    if _PREFIX.fullmatch(text) is None:
        raise InvalidInput(
            f"name prefix {text!r:.60}: at most 20 letters, digits, `_` and `.`"
        )
    return text


@attrs.frozen
class MemberName:
    """The name of one of our servers.

    Attributes:
        prefix: of this driver; the same as long as it has servers anywhere.
        record_id: of the record that the server stands for.
    """

    prefix: str = attrs.field(converter=checked_prefix)
    record_id: str = attrs.field()

    @record_id.validator
    def _check(self, _: object, value: str) -> None:
        """Let pass what HAProxy takes as a name and a row cannot be confused by."""
        if _RECORD_ID.fullmatch(value) is None:
            raise InvalidInput(
                f"recordID {value!r:.120}: at most 99 letters, digits and `.` `_` `:` "
                "`-`, the first a letter or digit, can be in a server's name"
            )

    def __str__(self) -> str:
        return f"{self.prefix}-{self.record_id}"

    @classmethod
    def of_server(cls, prefix: str, server: str) -> Self | None:
        """Return the name if the server is ours, else None."""
        begin = f"{prefix}-"
        rest = server.removeprefix(begin)
        if not server.startswith(begin) or _RECORD_ID.fullmatch(rest) is None:
            return None
        return cls(prefix, rest)


@attrs.frozen
class SlotName:
    """The name of one of our slots, as a `server-template` of that prefix gives it.

    A number and nothing else is behind the `.`: so it is neither the name of another
    member of ours nor a slot of a driver whose prefix goes on with it.

    Attributes:
        prefix: of this driver.
        number: from 1 on.
    """

    prefix: str = attrs.field(converter=checked_prefix)
    number: int = attrs.field(validator=attrs.validators.ge(1))

    def __str__(self) -> str:
        return f"{self.prefix}.{self.number}"

    @classmethod
    def of_server(cls, prefix: str, server: str) -> Self | None:
        """Return the name if the server is a slot of ours, else None."""
        begin = f"{prefix}."
        number = server.removeprefix(begin)
        if not server.startswith(begin) or _SLOT.fullmatch(number) is None:
            return None
        return cls(prefix, int(number))


def is_ours(prefix: str, server: str) -> bool:
    """Tell whether a server is a member or a slot of the driver with this prefix."""
    kinds = (MemberName, SlotName)
    return any(kind.of_server(prefix, server) is not None for kind in kinds)


def parse_address(text: str) -> Address:
    """Read `IP:port` or `[IPv6]:port`.

    HAProxy itself takes a missing port, `300.0.0.1`, host names and zone ids without
    a word, and then has a server without an address (measured on 2.6.12).

    Raises:
        InvalidInput: anything else, and addresses that are nobody's or everybody's.
    """
    address = read_address(text)
    if address is None:
        raise InvalidInput(
            f"backendAddr {text!r:.120}: write IP:port, or [IPv6]:port without a zone, "
            f"with a port of 1 to {LAST_PORT}"
        )
    if address.is_nobodys:
        raise InvalidInput(f"backendAddr: nobody listens at {text}")
    return address


@attrs.frozen
class Member:
    """A server as it should be."""

    name: MemberName
    address: Address
    options: Options

    def is_at(self, server: Server) -> bool:
        """Tell whether the server has this address and port."""
        return (self.address.ip, self.address.port) == (server.address, server.port)
