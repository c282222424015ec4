"""Whose a member of a service group is, and where it listens.

A member is ours if its `customserverid` begins with our prefix; the rest of it is the
id of the record that it stands for. Changes take a `Mark`, and none can be made that
does not begin with the prefix.

NITRO: identifiers of services may be alphanumeric with hyphens between ("Custom server
ID persistence" in the product's documentation); a server's name may have letters,
digits and `_ # . space : @ = -`.
"""

import re

from typing import Self

import attrs

from webhooks.device.errors import InvalidInput
from webhooks.shared.addresses import Address, IPAddress, read_address
from webhooks.shared.identity import DIGEST, Owner


DEFAULT_PREFIX = "lbcf"

LAST_PORT = 65534
"""NITRO writes 65535 for `*`, every port: a member there would be another one."""

_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9]{0,19}")
_RECORD_ID = re.compile(r"[A-Za-z0-9](-?[A-Za-z0-9]){0,62}")
_POOL = re.compile(rf"(.+)-k([0-9a-f]{{{DIGEST}}})")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_#. :@=-]{0,126}")
"""NITRO reference, servicegroup and server: what names may consist of."""


def checked_prefix(text: str) -> str:
    """Return a prefix that marks and names can begin with.

    There is no `-` in it: it ends the prefix, so that no prefix begins another's marks.

    Raises:
        InvalidInput: it cannot be used.
    """
    if _PREFIX.fullmatch(text) is None:
        raise InvalidInput(
            f"name prefix {text!r:.60}: at most 20 letters and digits, the first a "
            "letter"
        )
    return text


@attrs.frozen
class Mark:
    """What makes a member ours.

    Attributes:
        prefix: of this driver; the same as long as it has members anywhere.
        record_id: of the record that the member stands for.
        pool: digest of the pool's key; empty: not written down.
    """

    prefix: str = attrs.field(converter=checked_prefix)
    record_id: str = attrs.field()
    pool: str = ""

    @record_id.validator
    def _check(self, _: object, value: str) -> None:
        """Let pass what the appliance takes, and what can be read back."""
        if _RECORD_ID.fullmatch(value) is None or _POOL.fullmatch(value) is not None:
            raise InvalidInput(
                f"recordID {value!r:.120}: letters and digits with single hyphens "
                "between can be written on a member"
            )

    @property
    def owner(self) -> Owner:
        """Whose the member is."""
        return Owner(self.record_id, self.pool)

    def __str__(self) -> str:
        pool = f"-k{self.pool}" if self.pool else ""
        return f"{self.prefix}-{self.record_id}{pool}"

    @classmethod
    def read(cls, prefix: str, customserverid: str) -> Self | None:
        """Return the mark that a member has if it is one of ours, else None."""
        begin = f"{prefix}-"
        rest = customserverid.removeprefix(begin)
        found = _POOL.fullmatch(rest)
        record, pool = found.groups() if found else (rest, "")
        if not customserverid.startswith(begin) or _RECORD_ID.fullmatch(record) is None:
            return None
        return None if _POOL.fullmatch(record) else cls(prefix, record, pool)


def parse_address(text: str) -> Address:
    """Read `IP:port` or `[IPv6]:port`.

    Raises:
        InvalidInput: anything else, and addresses that are nobody's or everybody's.
    """
    address = read_address(text, LAST_PORT)
    if address is None:
        raise InvalidInput(
            f"backendAddr {text!r:.120}: write IP:port, or [IPv6]:port without a zone, "
            f"with a port of 1 to {LAST_PORT}"
        )
    if address.is_nobodys:
        raise InvalidInput(f"backendAddr: nobody listens at {text}")
    return address


def checked_name(text: str) -> str:
    """Return a name that NITRO takes, and that a query cannot be confused by.

    Raises:
        InvalidInput: it is none.
    """
    if _NAME.fullmatch(text) is None:
        raise InvalidInput(
            f"{text!r:.140} is no name that NITRO takes: letters, digits and "
            "`_ # . space : @ = -`"
        )
    return text


def server_name(prefix: str, ip: IPAddress) -> str:
    """Return what we call a server object of ours.

    Colons are allowed in names, but queries separate by them.
    """
    return f"{checked_prefix(prefix)}-{ip}".replace(":", "_")


def server_comment(prefix: str) -> str:
    """Return what is written on a server object that may be removed when unused."""
    return f"made by {checked_prefix(prefix)}, removed with its last member"
