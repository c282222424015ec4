"""What NITRO answers, as values: numbers are texts in places, lists are absent if empty.

`nitro` has taken errors out; `group` and `pair` read what is left here. Types as in
public recordings of real appliances: `port` is a number and `weight` a text in the same
row, statistics of one thing are an object where several would be a list.
"""

import ipaddress

from collections.abc import Mapping, Sequence

import attrs

from webhooks.device.errors import Unreadable
from webhooks.device.replies import Document
from webhooks.shared.addresses import Address


_OUT = frozenset({"OUT OF SERVICE", "DISABLED", "DOWN"})
"""States (`svrstate`) in which a disabled member is sent nothing, and waits no more."""

_GOING = frozenset({"GOING OUT OF SERVICE", "DOWN WHEN GOING OUT OF SERVICE"})

Row = Mapping[str, object]


@attrs.frozen
class MemberRow:
    """A member of a service group, as it was read.

    Attributes:
        server: name of its server object.
        address: where it listens.
        weight: 1 to 100.
        mark: `customserverid`; `None`, as a text, where nobody said one.
        enabled: whether it is to serve.
        svrstate: how it is in fact.
    """

    server: str
    address: Address
    weight: int
    mark: str
    enabled: bool
    svrstate: str

    @property
    def is_going(self) -> bool:
        """Whether the appliance waits for its connections to end."""
        return self.svrstate in _GOING

    @property
    def is_out(self) -> bool:
        """Whether the appliance is through with it."""
        return not self.enabled and self.svrstate in _OUT

    @property
    def is_overruled(self) -> bool:
        """Whether it is enabled in vain: its server object is not."""
        return self.enabled and self.svrstate == "OUT OF SERVICE"

    @property
    def is_up(self) -> bool:
        """Whether it is sent new traffic."""
        return self.enabled and self.svrstate == "UP"


@attrs.frozen
class ServerRow:
    """A server object.

    Attributes:
        name: what members refer to.
        ip: as text; empty for one that is known by its domain.
        comment: empty where nobody wrote one.
    """

    name: str
    ip: str
    comment: str


@attrs.frozen
class UnitRow:
    """What a unit says of itself.

    Attributes:
        role: Primary or Secondary; others are on the way from one to the other.
        started: when it was started, as text; another one after each reboot.
    """

    role: str
    started: str


def rows(document: Document, name: str) -> Sequence[Row]:
    """Return what a document has under a name: nothing, an object, or a list of them.

    Raises:
        Unreadable: something else.
    """
    match document.get(name):
        case None:
            return ()
        case dict() as row:
            return (row,)
        case list() as several if all(isinstance(row, dict) for row in several):
            return several
        case other:
            raise Unreadable(f"{name} is neither a list nor an object: {other!r:.80}")


def member_of(row: Row) -> MemberRow | None:
    """Read a row of servicegroup_servicegroupmember_binding.

    None: a member that is known by its domain and has no address yet; ours have one.

    Raises:
        Unreadable: a field is missing or no number.
    """
    try:
        ip = ipaddress.ip_address(text_of(row, "ip"))
    except ValueError:
        return None
    return MemberRow(
        server=text_of(row, "servername"),
        address=Address(ip, number_of(row, "port")),
        weight=number_of(row, "weight", 1),
        mark=text_of(row, "customserverid", "None"),
        enabled=text_of(row, "state", "ENABLED") == "ENABLED",
        svrstate=text_of(row, "svrstate", "UNKNOWN"),
    )


def server_of(row: Row) -> ServerRow:
    """Read a row of server."""
    return ServerRow(
        text_of(row, "name"), text_of(row, "ipaddress", ""), text_of(row, "comment", "")
    )


def load_of(row: Row) -> tuple[Address, int] | None:
    """Read a member's statistics: where it listens, and what is left on it.

    Idle connections to the server that the appliance keeps for later are not counted:
    `cursrvrconnections` has them, these two have not.

    Raises:
        Unreadable: a field is missing or no number.
    """
    try:
        ip = ipaddress.ip_address(text_of(row, "primaryipaddress"))
    except ValueError:
        return None
    clients = number_of(row, "curclntconnections", 0)
    established = number_of(row, "svrestablishedconn", 0)
    return Address(ip, number_of(row, "primaryport")), max(clients, established)


def unit_of(row: Row) -> UnitRow:
    """Read a unit's own statistics; one that was never in a pair may say no role."""
    return UnitRow(
        text_of(row, "hacurmasterstate", "") or "Primary", text_of(row, "starttime", "")
    )


def text_of(row: Row, name: str, default: str | None = None) -> str:
    """Return a field as text.

    Raises:
        Unreadable: it is missing and has no default.
    """
    value = row.get(name, default)
    if value is None:
        raise Unreadable(f"the appliance's answer has no {name}: {dict(row)!r:.120}")
    return str(value)


def number_of(row: Row, name: str, default: int | None = None) -> int:
    """Return a field as a number, whether it is one or a text.

    Raises:
        Unreadable: it is neither, or missing and has no default.
    """
    value = row.get(name, default)
    try:
        return int(str(value))
    except ValueError as error:
        raise Unreadable(f"{name} is no number: {value!r:.60}") from error


def is_unsaved(document: Document) -> bool:
    """Tell whether nsconfig says that its configuration is not all on disk.

    Appliances say `true` or `"true"`; some say nothing, which counts as unsaved.
    """
    found = rows(document, "nsconfig")
    said = {str(row.get("configchanged", True)).lower() for row in found}
    return said != {"false"}
