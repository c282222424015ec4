"""Paths of BIG-IP's objects, and the mark by which ours are known. Pure.

`/Common/web` is an object of the partition Common; in URLs it is `~Common~web`. A
member is called after its node and port: `10.0.0.1:80`, for IPv6 `2001:db8::1.80`.
"""

import re
import urllib.parse

import attrs

from webhooks.device.errors import InvalidInput
from webhooks.shared import addresses
from webhooks.shared.identity import Owner


DEFAULT_PARTITION = "Common"
DEFAULT_MARK = "lbcf"

_PATH = re.compile(r"(/[A-Za-z0-9_.-]{1,60}){1,4}/[A-Za-z0-9_.:% -]{1,120}")
_GROUP = re.compile(r"/[A-Za-z0-9_.-]{1,60}/[A-Za-z0-9_.-]{1,120}")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,120}")
_MARK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]{0,19}")
_RECORD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,98}")
_POOL = re.compile(r"[0-9a-f]{16}")
_PORT = re.compile(r"[0-9]{1,5}")
_DOMAIN = re.compile(r"[0-9]{1,5}")
_LAST_DOMAIN = 65534


@attrs.frozen
class ObjectPath:
    """Where an object is: `/partition/name`, with folders between where there are."""

    text: str = attrs.field()

    @text.validator
    def _check(self, _: object, value: str) -> None:
        """Let pass what cannot name anything else in a URL."""
        if _PATH.fullmatch(value) is None or "/../" in value or "/./" in value:
            raise InvalidInput(f"{value!r:.120} is no path such as /Common/web")

    @property
    def folder(self) -> str:
        """The partition, and the folders below it, without the slash before it."""
        return self.text[1:].rpartition("/")[0]

    @property
    def partition(self) -> str:
        """The partition alone."""
        return self.text[1:].partition("/")[0]

    @property
    def name(self) -> str:
        """The last part."""
        return self.text.rpartition("/")[2]

    @property
    def in_url(self) -> str:
        """As one part of a URL's path; `%` of a route domain is encoded."""
        return urllib.parse.quote(self.text.replace("/", "~"), safe="~:")

    def __str__(self) -> str:
        return self.text


def parse_path(text: str) -> ObjectPath:
    """Read `/partition/name`, or a name of the partition Common.

    Raises:
        InvalidInput: anything else.
    """
    if _NAME.fullmatch(text):
        return ObjectPath(f"/{DEFAULT_PARTITION}/{text}")
    return ObjectPath(text)


def is_group(text: str) -> bool:
    """Tell whether this can be a device group: a path without folders, or a name."""
    return any(pattern.fullmatch(text) for pattern in (_GROUP, _NAME))


def parse_group(text: str) -> ObjectPath:
    """Read the path of a device group, or its name in the partition Common.

    It becomes a word of a command line: with a space in it, options of that command
    could be said, too.

    Raises:
        InvalidInput: anything else.
    """
    if not is_group(text):
        raise InvalidInput(
            f"syncGroup {text!r:.120}: write /Common/NAME, with letters, digits, `_`, "
            "`.` and `-`"
        )
    return parse_path(text)


@attrs.frozen
class Address(addresses.Address):
    """Where a member listens.

    Attributes:
        domain: number of the route domain; empty: the partition's own.
    """

    domain: str = ""

    @property
    def host(self) -> str:
        """As BIG-IP writes it: without brackets, with the route domain if any."""
        return f"{self.ip}%{self.domain}" if self.domain else str(self.ip)

    def named(self, node: str) -> str:
        """Return what the member at a node of this name is called."""
        separator = "." if ":" in node else ":"
        return f"{node}{separator}{self.port}"

    def node_in(self, folder: str) -> ObjectPath:
        """Return the path of the node that we would make for it."""
        return ObjectPath(f"/{folder}/{self.host}")

    def member_in(self, folder: str) -> ObjectPath:
        """Return the path of the member at that node."""
        return ObjectPath(f"/{folder}/{self.named(self.host)}")


def parse_address(text: str, domain: str = "") -> Address:
    """Read `IP:port` or `[IPv6]:port` of a backend.

    Raises:
        InvalidInput: anything else, and addresses that are nobody's or everybody's.
    """
    found = addresses.read_address(text)
    if found is None:
        raise InvalidInput(
            f"backendAddr {text!r:.120}: write IP:port, or [IPv6]:port without a zone, "
            "with a port of 1 to 65535"
        )
    if found.is_nobodys:
        raise InvalidInput(f"backendAddr: nobody listens at {text}")
    return Address(found.ip, found.port, domain)


def port_of(member: str) -> int | None:
    """Return the port that a member's name ends with; None: it is all ports."""
    node, _, port = member.rpartition(":")
    if ":" in node or not _PORT.fullmatch(port):
        port = member.rpartition(".")[2]
    return int(port) if _PORT.fullmatch(port) and int(port) else None


def checked_domain(text: str) -> str:
    """Return the number of a route domain.

    Raises:
        InvalidInput: it is none.
    """
    if text and (_DOMAIN.fullmatch(text) is None or int(text) > _LAST_DOMAIN):
        raise InvalidInput(
            f"routeDomain {text!r:.60}: write a number up to {_LAST_DOMAIN}"
        )
    return text


@attrs.frozen
class Mark:
    """What the descriptions of our objects begin with; the same for all time.

    There is no `:` in it: it ends the mark, so that no mark begins another's.
    """

    text: str = attrs.field(default=DEFAULT_MARK)

    @text.validator
    def _check(self, _: object, value: str) -> None:
        """Let pass what can be told from other people's descriptions."""
        if _MARK.fullmatch(value) is None:
            raise InvalidInput(
                f"mark {value!r:.60}: at most 20 letters, digits, `_` and `.`"
            )

    @property
    def of_node(self) -> str:
        """The description of a node that goes with its last member."""
        return f"{self.text}:node"

    def of_member(self, owner: Owner) -> str:
        """Return the description of a record's member.

        Raises:
            InvalidInput: such an id cannot be told apart in a description.
        """
        record_id = owner.record
        if _RECORD_ID.fullmatch(record_id) is None or record_id == "node":
            raise InvalidInput(
                f"recordID {record_id!r:.120}: at most 99 letters, digits and `.` `_` "
                "`:` `-`, the first a letter or digit, can be in a description"
            )
        pool = f"/{owner.pool}" if owner.pool else ""
        return f"{self.text}:{record_id}{pool}"

    def owner_of(self, description: str) -> Owner | None:
        """Return whose a member is; None: it is not ours."""
        mark, colon, rest = description.partition(":")
        record, slash, pool = rest.partition("/")
        if mark != self.text or not colon or _RECORD_ID.fullmatch(record) is None:
            return None
        if record == "node" or (slash and _POOL.fullmatch(pool) is None):
            return None
        return Owner(record, pool)

    def record_of(self, description: str) -> str | None:
        """Return the record of a member; None: it is not ours."""
        owner = self.owner_of(description)
        return owner.record if owner else None
