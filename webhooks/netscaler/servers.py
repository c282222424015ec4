"""Server objects: the addresses that members of all service groups share.

An appliance has one server object per address, whoever made it. `group` asks here for
the one to bind to, and tells when a member is gone. Ours have a name and a comment that
nobody else would give; others are used, and never changed.
"""

import ipaddress

from collections.abc import Iterable

from webhooks.netscaler.changes import Call, argued, named
from webhooks.netscaler.errors import AlreadyExists, NoSuchResource
from webhooks.netscaler.members import server_comment, server_name
from webhooks.netscaler.nitro import Nitro
from webhooks.netscaler.replies import Row, ServerRow, rows, server_of
from webhooks.shared.addresses import IPAddress


def add_call(prefix: str, ip: IPAddress) -> Call:
    """Return how a server object of ours is made."""
    wanted = {
        "name": server_name(prefix, ip),
        "ipaddress": str(ip),
        "comment": server_comment(prefix),
    }
    return Call("POST", "server", {"server": wanted})


def remove_call(prefix: str, ip: IPAddress) -> Call:
    """Return how a server object of ours is removed."""
    return Call("DELETE", named("server", server_name(prefix, ip)))


async def find_or_add(nitro: Nitro, prefix: str, ip: IPAddress) -> str:
    """Return the name of the server object of an address; make one if there is none.

    Raises:
        AlreadyExists: our name for it is taken, by a server with another address.
        DeviceError: the unit could not be asked.
    """
    known = await nitro.config(argued("server", "filter", ipaddress=ip))
    found = _at(map(server_of, rows(known, "server")), ip)
    if found is not None:
        return found
    try:
        await nitro.call(add_call(prefix, ip))
    except AlreadyExists:
        # Made meanwhile; or the filter does not find it (an IPv6 address has colons,
        # and may be written in other ways).
        known = await nitro.config("server")
        found = _at(map(server_of, rows(known, "server")), ip)
        if found is None:
            raise
        return found
    return server_name(prefix, ip)


async def remove_unused(nitro: Nitro, prefix: str, ip: IPAddress) -> bool:
    """Remove the server object of an address if it is ours, and no member has it.

    An appliance takes a server's members along with it: nobody may bind one between
    the question and the removal. Our own changes wait for each other, and on ours is
    written that it goes.

    Returns:
        Whether it was removed.

    Raises:
        DeviceError: the unit could not be asked.
    """
    name = server_name(prefix, ip)
    try:
        found = rows(await nitro.config(named("server", name)), "server")
        if not any(_is_ours(server_of(row), prefix, ip) for row in found):
            return False
        bound = rows(
            await nitro.config(named("server_binding", name)), "server_binding"
        )
        if any(map(_has_bindings, bound)):
            return False
        await nitro.call(remove_call(prefix, ip))
    except NoSuchResource:
        return False
    return True


def _has_bindings(row: Row) -> bool:
    """Tell whether a row of server_binding has any list of bindings."""
    return any(isinstance(value, list) and value for value in row.values())


def _is_ours(server: ServerRow, prefix: str, ip: IPAddress) -> bool:
    """Tell whether a server object is one that we made."""
    return server.comment == server_comment(prefix) and _is_at(server, ip)


def _at(servers: Iterable[ServerRow], ip: IPAddress) -> str | None:
    """Return the name of the server that has the address."""
    return next((server.name for server in servers if _is_at(server, ip)), None)


def _is_at(server: ServerRow, ip: IPAddress) -> bool:
    """Tell whether a server has the address; one known by its domain has none."""
    try:
        return ipaddress.ip_address(server.ip) == ip
    except ValueError:
        return False
