"""Server objects: the addresses that members of all service groups share.

An appliance has one server object per address, whoever made it. `group` asks here for
the one to bind to, and tells when a member is gone. Ours have a name and a comment that
nobody else would give; others are used, and never changed.
"""

import asyncio
import ipaddress

from collections.abc import Collection, Iterable, Mapping

from webhooks.netscaler.changes import Bulk, Call, argued, named
from webhooks.netscaler.errors import AlreadyExists, NoSuchResource
from webhooks.netscaler.members import server_comment, server_name
from webhooks.netscaler.nitro import Nitro
from webhooks.netscaler.replies import Row, ServerRow, rows, server_of
from webhooks.shared.addresses import IPAddress


def add_call(prefix: str, ip: IPAddress) -> Call:
    """Return how a server object of ours is made."""
    return Call("POST", "server", {"server": _fields(prefix, ip)})


def _fields(prefix: str, ip: IPAddress) -> Mapping[str, object]:
    """Return what a server object of ours is like."""
    return {
        "name": server_name(prefix, ip),
        "ipaddress": str(ip),
        "comment": server_comment(prefix),
    }


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


async def find_or_add_all(
    nitro: Nitro, prefix: str, ips: Collection[IPAddress]
) -> Mapping[IPAddress, str]:
    """Return the names of the server objects of addresses; make those that are missing.

    An address for which there is none, even then, is left out: `find_or_add` tells why.

    Raises:
        DeviceError: the unit could not be asked.
    """
    known = await _names(nitro, ips)
    missing = [_fields(prefix, ip) for ip in ips if ip not in known]
    if not missing:
        return known
    await nitro.call_all(Bulk("POST", "server", missing))
    return await _names(nitro, ips)


async def remove_all_unused(
    nitro: Nitro, prefix: str, ips: Collection[IPAddress]
) -> Mapping[IPAddress, bool]:
    """Remove the server objects of addresses, as `remove_unused` does with one.

    Returns:
        Whether it was removed, for each address whose server object was to be.
    """
    found = [
        ip
        for server in map(server_of, rows(await nitro.config("server"), "server"))
        for ip in ips
        if _is_ours(server, prefix, ip) and server.name == server_name(prefix, ip)
    ]
    bound = await asyncio.gather(*(_is_bound(nitro, prefix, ip) for ip in found))
    unused = [
        ip for ip, has_members in zip(found, bound, strict=True) if not has_members
    ]
    if not unused:
        return {}
    names = [{"name": server_name(prefix, ip)} for ip in unused]
    if await nitro.call_all(Bulk("POST", "server?action=rm", names)):
        return dict.fromkeys(unused, True)
    left = await _names(nitro, unused)
    return {ip: ip not in left for ip in unused}


async def _names(nitro: Nitro, ips: Collection[IPAddress]) -> dict[IPAddress, str]:
    """Return the names of the server objects that there are of addresses."""
    found: dict[IPAddress, str] = {}
    for server in map(server_of, rows(await nitro.config("server"), "server")):
        try:
            ip = ipaddress.ip_address(server.ip)
        except ValueError:
            continue  # known by its domain
        if ip in ips:
            found.setdefault(ip, server.name)
    return found


async def _is_bound(nitro: Nitro, prefix: str, ip: IPAddress) -> bool:
    """Tell whether anything is bound to our server object of an address."""
    path = named("server_binding", server_name(prefix, ip))
    try:
        found = rows(await nitro.config(path), "server_binding")
    except NoSuchResource:
        return False
    return any(map(_has_bindings, found))


async def remove_unused(nitro: Nitro, prefix: str, ip: IPAddress) -> bool:
    """Remove the server object of an address if it is ours, and no member has it.

    An appliance takes a server's members along with it: nobody may bind one between
    the question and the removal. Our own changes on a unit wait for each other, whatever
    load balancer they are for, and on ours is written that it goes.

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
        if await _is_bound(nitro, prefix, ip):
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
