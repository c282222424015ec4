"""What an appliance is configured to be, and the rules by which that changes.

`nitro` calls the methods, `unit` keeps a running and a saved one. Rules that are not in
the vendor's reference, but that the driver has to bear: one server object per address,
and a server that is deleted takes its members in all groups along.
"""

import ipaddress

from collections.abc import Iterator

import attrs

from tests.netscaler.errors import (
    INVALID_ARGUMENT,
    NO_SUCH_SERVER,
    NitroRefusal,
    exists,
    no_such,
)
from tests.netscaler.traffic import Traffic


MemberKey = tuple[str, str, int]
"""Names of the group and the server, and the port."""


@attrs.define
class Server:
    """A server object: a name for an address.

    Attributes:
        name: unique.
        ipaddress: unique too, as text in its usual form.
        state: ENABLED or DISABLED, for all of its members.
        comment: whatever somebody wrote.
    """

    name: str
    ipaddress: str
    state: str = "ENABLED"
    comment: str = ""


@attrs.define
class Member:
    """A server and port bound to a service group.

    Attributes:
        group: its name.
        server: the server's name.
        ip: the server's address.
        port: 1 to 65535.
        weight: 1 to 100.
        customserverid: `None`, as a text, where unsaid.
        state: ENABLED or DISABLED.
        graceful: whether the last disabling waits for connections: YES or NO.
        delay: how many seconds it waits at most; 0: without end.
        disabled_at: seconds of the appliance's clock.
    """

    group: str
    server: str
    ip: str
    port: int
    weight: int = 1
    customserverid: str = "None"
    state: str = "ENABLED"
    graceful: str = "NO"
    delay: int = 0
    disabled_at: float = 0.0

    @property
    def key(self) -> MemberKey:
        """What it is known by."""
        return (self.group, self.server, self.port)

    def waits(self, now: float, connections: int) -> bool:
        """Tell whether it is still going out of service."""
        is_over = bool(self.delay) and now >= self.disabled_at + self.delay
        if self.graceful == "YES":
            return connections > 0 and not is_over
        return self.delay > 0 and not is_over


@attrs.define
class Configuration:
    """Servers, service groups and their members.

    Attributes:
        servers: by name.
        groups: names.
        members: in the order in which they were bound.
    """

    servers: dict[str, Server] = attrs.field(factory=dict)
    groups: list[str] = attrs.field(factory=list)
    members: dict[MemberKey, Member] = attrs.field(factory=dict)

    def copy(self) -> "Configuration":
        """Return another one that is like this one is now."""
        return Configuration(
            {name: attrs.evolve(one) for name, one in self.servers.items()},
            list(self.groups),
            {key: attrs.evolve(one) for key, one in self.members.items()},
        )

    def check_group(self, name: str) -> None:
        """Refuse a group that is not there."""
        if name not in self.groups:
            raise no_such("serviceGroupName", name)

    def find_server(self, name: str) -> Server:
        """Return a server; refuse if it is not there."""
        if name not in self.servers:
            raise NitroRefusal(NO_SUCH_SERVER, f"No such server [{name}]")
        return self.servers[name]

    def add_server(self, name: str, address: str, comment: str = "") -> None:
        """Add a server object."""
        try:
            text = str(ipaddress.ip_address(address))
        except ValueError as error:
            raise NitroRefusal(
                INVALID_ARGUMENT, f"Invalid argument [ipAddress, {address}]"
            ) from error
        if name in self.servers:
            raise exists("name", name)
        if any(server.ipaddress == text for server in self.servers.values()):
            raise exists("ipAddress", text)
        self.servers[name] = Server(name, text, comment=comment)

    def delete_server(self, name: str) -> None:
        """Delete a server and all of its members."""
        self.find_server(name)
        del self.servers[name]
        for key in [key for key in self.members if key[1] == name]:
            del self.members[key]

    def bind(self, member: Member) -> None:
        """Bind a member to its group."""
        self.check_group(member.group)
        server = self.find_server(member.server)
        if member.key in self.members:
            raise exists("serverName", f"{member.server}, port, {member.port}")
        self.members[member.key] = attrs.evolve(member, ip=server.ipaddress)

    def find(self, group: str, server: str, port: int) -> Member:
        """Return a member; refuse if it is not there."""
        self.check_group(group)
        try:
            return self.members[group, server, port]
        except KeyError:
            raise no_such("serverName", server) from None

    def of_group(self, group: str) -> list[Member]:
        """Return the members of a group."""
        self.check_group(group)
        return [one for one in self.members.values() if one.group == group]

    def chosen(self, group: str, server: str, port: int | None) -> Iterator[Member]:
        """Go through one member or, without a server, through the whole group.

        That trap is real: `disable servicegroup` with no member takes all of them.
        """
        if server and port is not None:
            yield self.find(group, server, port)
        else:
            yield from self.of_group(group)


def is_disabled(configuration: Configuration, member: Member) -> bool:
    """Tell whether the member, or its server, is disabled."""
    server = configuration.servers[member.server]
    return "DISABLED" in {member.state, server.state}


def svrstate(
    configuration: Configuration, member: Member, traffic: Traffic, now: float
) -> str:
    """Return the state in which a member is, in the words of the reference."""
    is_up = member.key not in traffic.failing
    if not is_disabled(configuration, member):
        return "UP" if is_up else "DOWN"
    waiting = member.state == "DISABLED" and member.waits(
        now, traffic.count(member.key)
    )
    if waiting:
        return "GOING OUT OF SERVICE" if is_up else "DOWN WHEN GOING OUT OF SERVICE"
    return "OUT OF SERVICE"
