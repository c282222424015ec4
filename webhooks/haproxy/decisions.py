"""What to change next about a member: pure functions of what was just read.

`pool` asks, carries the command out, reads again and asks again, until there is
nothing to change. So a crash anywhere, or a hand of somebody else, is no special case.
"""

from collections.abc import Collection

from webhooks.haproxy import commands
from webhooks.haproxy.commands import Command, Target
from webhooks.haproxy.errors import AddressConflict, OptionConflict
from webhooks.haproxy.members import NOBODY, Member, is_ours
from webhooks.haproxy.replies import (
    CHECK_CONFIGURED,
    CHECK_ENABLED,
    Server,
    Snapshot,
)


def next_to_ensure(
    target: Target, wanted: Member, server: Server | None, added_with: Collection[str]
) -> Command | None:
    """Return what brings the member nearer to full service; None: it is there.

    Args:
        target: the member.
        wanted: what it is to be like.
        server: what it is like; None: not there.
        added_with: the fixed options that it was added with, which HAProxy does not
            tell; several where it may be any of them, none where nobody knows.

    Raises:
        AddressConflict: the name is taken by another address. Stick tables know
            servers by name, so that a name must never move.
        OptionConflict: other fixed options are wanted than it was added with.
    """
    if server is None:
        return commands.add(target, wanted)
    _check_kept(target, wanted, server, added_with)
    if server.weight != wanted.options.weight:
        return commands.weigh(target, wanted.options.weight)
    check = wanted.options.check
    if server.admin:
        return commands.serve(target, check=check, fresh=server.in_maintenance)
    if check and not server.check & CHECK_ENABLED:
        return commands.watch(target)
    return None


def _check_kept(
    target: Target, wanted: Member, server: Server, added_with: Collection[str]
) -> None:
    """Let pass a server that can become the wanted one."""
    if not wanted.is_at(server):
        raise AddressConflict(
            f"{target} is at {server.address} port {server.port}, not at "
            f"{wanted.address}: deregister it first"
        )
    fixed = wanted.options.fixed
    has_check = bool(server.check & CHECK_CONFIGURED)
    if has_check != wanted.options.check or any(one != fixed for one in added_with):
        raise OptionConflict(
            f"{target} cannot be changed to {fixed or 'no check'!r} while it is "
            "registered: change back, or let its backend be registered anew"
        )


def next_to_drain(target: Target, server: Server) -> Command | None:
    """Return what stops new traffic; None: it is stopped.

    A server in maintenance is left there: `drain` would let persistent clients back in.
    """
    if server.in_maintenance or server.draining:
        return None
    return commands.drain(target)


def next_to_deregister(target: Target, server: Server) -> Command:
    """Return what brings a member that is there nearer to being gone."""
    if server.in_maintenance:
        return commands.delete(target)
    return commands.rest(target)


def next_to_detach(target: Target, left: int, *, may_cut: bool) -> Command | None:
    """Return what frees a member in maintenance of its connections.

    Args:
        target: the member.
        left: requests in progress on it.
        may_cut: whether these may fail.
    """
    if not left:
        return commands.loosen(target)
    return commands.cut(target) if may_cut else None


def must_stay(target: Target, server: Server, snapshot: Snapshot) -> bool:
    """Tell whether a drain now would leave the backend with nobody to serve.

    In a rolling update of one replica the new member may wait for its first checks
    when the old one is to go: all requests would get 503 until they pass. The old one
    stays for that while. With nobody waiting, staying would not help: a server of
    somebody else that is down is nobody's replacement, and may be so for good. A server
    at `NOBODY` has requests wait (docs/haproxy.md, Reload), and serves none.

    Args:
        target: the member.
        server: what it is like.
        snapshot: all servers of its backend.
    """
    prefix = target.name.prefix
    if not server.serving:
        return False
    waiting = False
    for other in snapshot.servers():
        nobody = (other.address, other.port) == (NOBODY.ip, NOBODY.port)
        if other.name != server.name and not nobody:
            if other.serving:
                return False
            waiting = waiting or (other.starting and is_ours(prefix, other.name))
    return waiting
