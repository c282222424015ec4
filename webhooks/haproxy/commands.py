"""The commands that change a HAProxy: composed here and nowhere else. Pure.

Each names one server, by a `MemberName`: so none can touch a server of other people.
Texts and order as measured on HAProxy 2.6.12; the same commands work up to 3.2.
"""

import re

import attrs

from webhooks.haproxy.errors import InvalidInput
from webhooks.haproxy.members import NOBODY, Member, MemberName, SlotName
from webhooks.shared.addresses import Address
from webhooks.shared.identity import Owner, digest


POOL = "pool-max-conn -1 pool-purge-delay 5s"
"""Without it servers added at run time open a connection per request before 3.0."""

ADDS = "adds"
"""Effect of a command: the member is there."""

SERVES = "serves"
"""Effect of a command: it may be sent requests."""

LEAVES = "leaves"
"""Effect of a command: it is sent less, or is not there."""

_OWNER = re.compile(r"value=<([^/<>]+)/([0-9a-f]*)/([0-9a-f.:]+)/([0-9]+)>")
_NUMBER = re.compile(r"value=<([0-9]+)>")
_BACKEND = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


def checked_backend(text: str) -> str:
    """Return the name of a backend.

    Raises:
        InvalidInput: HAProxy could not have a backend of that name.
    """
    if _BACKEND.fullmatch(text) is None:
        raise InvalidInput(
            f"backend {text!r:.120}: at most 100 letters, digits and `.` `_` `:` `-`"
        )
    return text


@attrs.frozen
class Target:
    """One of our servers in one backend.

    Attributes:
        backend: where it is.
        name: of the server.
        cookie: whether it is to have a cookie of its own.
    """

    backend: str = attrs.field(converter=checked_backend)
    name: MemberName | SlotName
    cookie: bool = False

    def __str__(self) -> str:
        return f"{self.backend}/{self.name}"


@attrs.frozen
class Command:
    """What HAProxy is told.

    Attributes:
        line: that is sent.
        success: what the answer has in it that means it was carried out; empty: the
            answer is blank.
        effect: what becomes of the member, be it late; of a weight, which.
    """

    line: str
    success: str = ""
    effect: str = ""


def add(target: Target, member: Member) -> Command:
    """Add a server; it starts in maintenance and gets nothing."""
    words = (
        f"add server {target} {member.address}",
        member.options.fixed,
        f"weight {member.options.weight}",
        POOL,
    )
    line = " ".join(word for word in words if word)
    return Command(line, "New server registered.", ADDS)


def probe(target: Target) -> Command:
    """Ask whether servers can be added; changes nothing.

    The backend, its algorithm and the socket's level are looked at before the address
    is, and none is given: the answer to success is the complaint about that.
    """
    return Command(f"add server {target}", "'server' expects <name> and <addr>")


def serve(target: Target, *, check: bool, fresh: bool, passed: bool = False) -> Command:
    """Put a server into service.

    A server that leaves maintenance counts as up until its first check has failed:
    requests would go to a dead one. Said to be down in the same line, it has to pass
    its checks first. One that leaves a drain has passed them, and stays up.

    One that had `passed` them in the process before a reload is believed to pass them
    still.

    Before 3.0 a server that is added at run time gets no cookie, until dynamic cookies
    are switched on once more in its backend (measured on HAProxy 2.6.12). Servers that
    have one keep it.
    """
    words = [f"set server {target} state ready"]
    if check:
        words.insert(0, f"enable health {target}")
        words += [f"set server {target} health down"] if fresh and not passed else []
    if fresh and target.cookie:
        words.insert(0, f"enable dynamic-cookie backend {target.backend}")
    return Command(";".join(words), effect=SERVES)


def weigh(target: Target, weight: int) -> Command:
    """Set the weight, 0 to 256."""
    line = f"set server {target} weight {weight}"
    return Command(line, effect=f"weight {weight}")


def watch(target: Target) -> Command:
    """Switch on the health check that a server was added with."""
    return Command(f"enable health {target}", effect=SERVES)


def drain(target: Target) -> Command:
    """Let in nobody new but persistent clients."""
    return Command(f"set server {target} state drain", effect=LEAVES)


def rest(target: Target) -> Command:
    """Let in nobody new at all; what is established goes on."""
    return Command(f"set server {target} state maint", effect=LEAVES)


def cut(target: Target) -> Command:
    """End what is established: requests in flight fail."""
    return Command(f"shutdown sessions server {target}", effect=LEAVES)


def move(target: Target, address: Address) -> Command:
    """Give a slot that rests another address; idle connections to the old one end."""
    to = f"{address.ip} port {address.port}"
    effect = LEAVES if address == NOBODY else ADDS
    return Command(f"set server {target} addr {to}", "changed from", effect)


def note_owner(target: Target, owner: Owner, address: Address) -> Command:
    """Write down whose a slot is while it is at an address.

    In a variable of the process: HAProxy keeps nothing else beside a server that was
    not in its configuration. It is as old as the addresses of slots: both end with the
    process. HAProxy counts setting one among its experimental commands (2.4 to 3.2).
    """
    text = "/".join((owner.record, owner.pool, str(address.ip), str(address.port)))
    return Command(f"experimental-mode on;set var {_variable(target)} str({text})")


def ask_owner(target: Target) -> str:
    """Return the question whose a slot is."""
    return f"get var {_variable(target)}"


def owner_at(answer: str, address: Address) -> Owner | None:
    """Read whose a slot at this address is; None: nobody wrote it down."""
    found = _OWNER.search(answer)
    if found is None or found[3] != str(address.ip) or found[4] != str(address.port):
        return None
    return Owner(found[1], found[2])


def note_displaced(backend: str, number: int) -> Command:
    """Write down how many members of a backend have lost their slots to others."""
    return Command(f"experimental-mode on;set var {_variable(backend)} int({number})")


def ask_displaced(backend: str) -> str:
    """Return the question how many members of a backend have lost their slots."""
    return f"get var {_variable(backend)}"


def displaced_of(answer: str) -> int:
    """Read how many it were; nobody has written it down where there was none."""
    found = _NUMBER.search(answer)
    return int(found[1]) if found else 0


def _variable(of: Target | str) -> str:
    return f"proc.lbcf_{digest(str(of))}"


def loosen(target: Target) -> Command:
    """Close the idle connections of a server in maintenance; others go on.

    HAProxy closes them as a server enters maintenance. One whose request ends after
    that goes back to the pool, and keeps the server from being deleted for 15 to 25 s
    (measured on HAProxy 2.6.12): so the server enters maintenance once more.
    """
    line = f"set server {target} state drain;set server {target} state maint"
    return Command(line, effect=LEAVES)


def delete(target: Target) -> Command:
    """Take the server out; it must be in maintenance and unused."""
    return Command(f"del server {target}", "Server deleted.", LEAVES)
