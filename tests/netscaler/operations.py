"""The operations of NITRO that this appliance has: a resource and a method each.

`nitro` looks an operation up here, with what the client sent taken apart. Which ones
take which method and arguments is the vendor's reference, "basic", "ns" and "ha".
"""

from collections.abc import Callable, Mapping

import attrs

from tests.netscaler import replies
from tests.netscaler.configuration import Configuration, Member
from tests.netscaler.errors import (
    EXCLUSIVE,
    INVALID_ARGUMENT,
    NO_SUCH_ARGUMENT,
    NitroRefusal,
    missing,
)
from tests.netscaler.replies import Row
from tests.netscaler.unit import Unit


BINDING = "servicegroup_servicegroupmember_binding"

_MOST_WEIGHT = 100


@attrs.frozen
class Asked:
    """A request, taken apart.

    Attributes:
        unit: who is asked.
        name: of the resource, behind its kind; empty where none was said.
        action: of POST: enable, disable, save; empty for adding.
        fields: of the body's resource.
        args: of `args=`, by names in small letters.
        filter: the text of `filter=`.
        statbindings: whether statistics are to hold those of what is bound.
    """

    unit: Unit
    name: str = ""
    action: str = ""
    fields: Mapping[str, object] = attrs.field(factory=dict)
    args: Mapping[str, str] = attrs.field(factory=dict)
    filter: str = ""
    statbindings: bool = False

    def text(self, name: str) -> str:
        """Return a field of the body; refuse if it is missing."""
        value = self.fields.get(name)
        if value in {None, ""}:
            raise missing(name)
        return str(value)

    def number(self, name: str, default: int) -> int:
        """Return a field of the body as a number."""
        return _number(name, self.fields.get(name, default))


Operation = Callable[[Asked], list[Row] | Row | None]


def _number(name: str, value: object) -> int:
    """Read a number, which clients send as one or as a text."""
    try:
        return int(str(value))
    except ValueError as error:
        raise NitroRefusal(INVALID_ARGUMENT, f"Invalid argument [{name}]") from error


def _add_server(asked: Asked) -> None:
    """Add a server object; or, as bulk requests say it, remove one."""
    if asked.action == "rm":
        _delete_server(attrs.evolve(asked, name=asked.text("name")))
        return
    name, address = asked.text("name"), asked.text("ipaddress")
    comment = str(asked.fields.get("comment", ""))
    asked.unit.change(lambda config: config.add_server(name, address, comment))


def _get_servers(asked: Asked) -> list[Row]:
    """List servers, or show one."""
    servers = asked.unit.running.servers
    chosen = (
        [asked.unit.running.find_server(asked.name)] if asked.name else servers.values()
    )
    return replies.filtered(
        [replies.server_row(server) for server in chosen], asked.filter
    )


def _delete_server(asked: Asked) -> None:
    """Delete a server, and its members in all groups."""
    asked.unit.change(lambda config: config.delete_server(asked.name))


def _bind(asked: Asked) -> None:
    """Bind a member; with an address in place of a server, make that one too.

    With `action=unbind`, as bulk requests say it, unbind one.
    """
    if asked.action == "unbind":
        said = {name: str(value) for name, value in asked.fields.items()}
        _unbind(attrs.evolve(asked, args=said))
        return
    group, port = asked.text("servicegroupname"), asked.number("port", 0)
    if not port:
        raise missing("port")
    server = str(asked.fields.get("servername", ""))
    address = str(asked.fields.get("ip", ""))
    if bool(server) == bool(address):
        raise _exclusive() if server else missing("servername")
    member = Member(
        group=group,
        server=server or address,
        ip="",
        port=port,
        weight=_checked_weight(asked.number("weight", 1)),
        customserverid=str(asked.fields.get("customserverid", "None")),
        state=str(asked.fields.get("state", "ENABLED")),
    )

    def bind(config: Configuration) -> None:
        """Bind it."""
        if address and address not in config.servers:
            config.add_server(address, address)
        at = config.find_server(member.server).ipaddress
        if at in asked.unit.spoilt:
            raise NitroRefusal(INVALID_ARGUMENT, asked.unit.spoilt[at])
        config.bind(member)

    asked.unit.change(bind)


def _exclusive() -> NitroRefusal:
    """Return the refusal of a name and an address at once."""
    text = "Arguments cannot both be specified [serverName, IP]"
    return NitroRefusal(EXCLUSIVE, text)


def _checked_weight(weight: int) -> int:
    """Return a weight that may be."""
    if not 1 <= weight <= _MOST_WEIGHT:
        text = "Argument value exceeds limit [weight]"
        raise NitroRefusal(INVALID_ARGUMENT, text)
    return weight


def _get_members(asked: Asked) -> list[Row]:
    """List the members of a group."""
    found = asked.unit.running.of_group(asked.name)
    rows = [replies.member_row(asked.unit, member) for member in found]
    return replies.filtered(rows, asked.filter)


def _unbind(asked: Asked) -> None:
    """Unbind a member."""
    group = asked.name or asked.args.get("servicegroupname", "")
    server, address = asked.args.get("servername", ""), asked.args.get("ip", "")
    if server and address:
        raise _exclusive()
    name = server or _server_at(asked.unit.running, address)
    port = _number("port", asked.args.get("port", 0))

    def unbind(config: Configuration) -> None:
        """Unbind it."""
        del config.members[config.find(group, name, port).key]

    asked.unit.change(unbind)


def _server_at(config: Configuration, address: str) -> str:
    """Return the name of the server that has an address."""
    at = (one.name for one in config.servers.values() if one.ipaddress == address)
    return next(at, address)


def _get_groups(asked: Asked) -> list[Row]:
    """List service groups, or show one."""
    if asked.name:
        asked.unit.running.check_group(asked.name)
    names = [asked.name] if asked.name else asked.unit.running.groups
    return [replies.group_row(asked.unit, name) for name in names]


def _act_on_group(asked: Asked) -> None:
    """Enable or disable a member or, where none is named, the whole group."""
    group = asked.text("servicegroupname")
    server, port = str(asked.fields.get("servername", "")), asked.number("port", 0)
    unit = asked.unit
    for member in list(unit.running.chosen(group, server, port or None)):
        if asked.action == "enable":
            unit.enable(member)
        else:
            unit.disable(
                member,
                graceful=str(asked.fields.get("graceful", "NO")),
                delay=asked.number("delay", 0),
            )


def _set_member(asked: Asked) -> None:
    """Change the weight and the identifier of a member."""
    group, server = asked.text("servicegroupname"), asked.text("servername")
    port, weight = asked.number("port", 0), asked.number("weight", 0)

    def change(config: Configuration) -> None:
        """Change it."""
        member = config.find(group, server, port)
        member.weight = _checked_weight(weight or member.weight)
        own = asked.fields.get("customserverid", member.customserverid)
        member.customserverid = str(own)

    asked.unit.change(change)


def _save(asked: Asked) -> None:
    """Save the configuration."""
    if asked.action != "save":
        raise NitroRefusal(NO_SUCH_ARGUMENT, f"No such argument [{asked.action}]")
    asked.unit.save()


def _stat_member(asked: Asked) -> list[Row]:
    """Show the statistics of one member."""
    member = asked.unit.running.find(
        asked.args.get("servicegroupname", ""),
        asked.args.get("servername", ""),
        _number("port", asked.args.get("port", 0)),
    )
    return [replies.member_stat(asked.unit, member)]


def _stat_group(asked: Asked) -> list[Row]:
    """Show the statistics of a group."""
    return [
        replies.group_stat(asked.unit, asked.name, members=asked.statbindings),
    ]


CONFIG: Mapping[tuple[str, str], Operation] = {
    ("POST", "server"): _add_server,
    ("GET", "server"): _get_servers,
    ("DELETE", "server"): _delete_server,
    ("GET", "server_binding"): lambda asked: [
        replies.server_bindings(asked.unit, asked.name)
    ],
    ("POST", BINDING): _bind,
    ("PUT", BINDING): _bind,
    ("GET", BINDING): _get_members,
    ("DELETE", BINDING): _unbind,
    ("GET", "servicegroup"): _get_groups,
    ("POST", "servicegroup"): _act_on_group,
    ("PUT", "servicegroup"): _set_member,
    ("GET", "nsconfig"): lambda asked: replies.nsconfig_row(asked.unit),
    ("POST", "nsconfig"): _save,
}
"""Configuration: what is done by each method on each resource."""

STAT: Mapping[str, Operation] = {
    "servicegroupmember": _stat_member,
    "servicegroup": _stat_group,
    "ns": lambda asked: replies.ns_stat(asked.unit),
    "hanode": lambda asked: replies.hanode_stat(asked.unit),
}
"""Statistics; all are read."""
