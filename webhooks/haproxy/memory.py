"""What this process of the driver put into a HAProxy, so that it can put it back. Pure.

A reload or a restart of HAProxy loses all servers that were added at run time. The
driver stores nothing; but as long as its process lives, it knows what it added.
`restoring` puts that back.

A member is remembered once it was read as it should be, and forgotten before the first
command of its deregistration is sent. So what was deregistered is never put back. That
holds only where no other process of the driver deregisters members of the same HAProxy:
`--restore` says so, and without it nothing is remembered.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

import attrs

from lbcf.sdk import Clock, SystemClock
from webhooks.haproxy import commands
from webhooks.haproxy.commands import Target
from webhooks.haproxy.members import Member
from webhooks.haproxy.replies import SERVER_UP, Generation, Server, Snapshot


TRUST = timedelta(seconds=30)
"""What nobody has compared with HAProxy for so long is forgotten at a reload: while this
process hung, another one may have taken its place and have deregistered members."""

LATE = timedelta(seconds=10)
"""A command that was not answered in time may take effect so much later, and no more."""


@attrs.frozen
class Registered:
    """A member that is in.

    Attributes:
        target: where, and under what name.
        member: what it is like.
        draining: whether it is on its way out.
        passed: whether its health checks passed when it was last read.
    """

    target: Target
    member: Member
    draining: bool = False
    passed: bool = False

    @property
    def line(self) -> str:
        """The commands that put it back as it was, on one line."""
        added = commands.add(self.target, self.member).line
        check = self.member.options.check
        if self.draining:
            return ";".join((added, *self._drained(check)))
        served = commands.serve(
            self.target, check=check, fresh=True, passed=self.passed
        )
        return f"{added};{served.line}"

    def _drained(self, check: bool) -> Sequence[str]:
        """Return the commands that leave it to its persistent clients."""
        watched = [commands.watch(self.target).line] if check else []
        return [*watched, commands.drain(self.target).line]


_Key = tuple[str, str]
"""Backend and name of the server."""


@attrs.define(eq=False)
class Memory:
    """The members of one HAProxy that this process registered, and nobody took out.

    Attributes:
        enabled: whether anything is remembered.
        clock: by which what is remembered grows old.
        generation: the process of HAProxy that has the members.
    """

    enabled: bool = False
    clock: Clock = attrs.field(factory=SystemClock)
    generation: Generation | None = None
    _members: dict[_Key, Registered] = attrs.field(factory=dict, init=False)
    _confirmed: float = attrs.field(default=0.0, init=False)
    _late: dict[_Key, float] = attrs.field(factory=dict, init=False)

    @property
    def holds(self) -> bool:
        """Tell whether there is anything to be put back."""
        return bool(self._members)

    @property
    def count(self) -> int:
        """Return how many there are."""
        return len(self._members)

    @property
    def members(self) -> Sequence[Registered]:
        """Return them in the order in which they came."""
        return list(self._members.values())

    @property
    def backends(self) -> Sequence[str]:
        """Return the backends in which there are members."""
        return list(dict.fromkeys(backend for backend, _ in self._members))

    def register(
        self,
        target: Target,
        member: Member,
        server: Server,
        generation: Generation | None,
    ) -> None:
        """Remember a member that was just read, in service or before its first check."""
        if self.enabled:
            self.confirm(generation)
            passed = server.operation == SERVER_UP
            self._members[_key(target)] = Registered(target, member, passed=passed)

    def drain(self, target: Target) -> None:
        """Remember that a member is drained; before it is."""
        known = self._members.get(_key(target))
        if known is not None:
            self._members[_key(target)] = attrs.evolve(known, draining=True)

    def forget(self, target: Target) -> None:
        """Forget a member; before its deregistration begins."""
        self._members.pop(_key(target), None)

    def forget_backend(self, backend: str) -> None:
        """Forget all members of a backend."""
        for key in [one for one in self._members if one[0] == backend]:
            del self._members[key]

    def confirm(self, generation: Generation | None) -> None:
        """Note that this process has the members now."""
        self.generation = generation
        self._confirmed = self.clock.monotonic()

    def unreachable(self) -> None:
        """Note that nobody can reach HAProxy now: nobody takes anything out of it."""
        self._confirmed = self.clock.monotonic()

    def begin(self, generation: Generation | None) -> None:
        """Take another process for the one that is to have the members.

        All are forgotten if what was known of the process before is too old.
        """
        if self.clock.monotonic() - self._confirmed > TRUST.total_seconds():
            self._members.clear()
        self.confirm(generation)

    def compare(self, backend: str, snapshot: Snapshot) -> None:
        """Learn from a reading: what somebody else took out or drains is not put back.

        Somebody else is a person at the runtime API, or another process of this driver.
        """
        servers = {server.name: server for server in snapshot.servers()}
        for known in self._of(backend):
            server = servers.get(str(known.target.name))
            if (
                server is None
                or server.in_maintenance
                or not known.member.is_at(server)
            ):
                self.forget(known.target)
                continue
            self._members[_key(known.target)] = attrs.evolve(
                known,
                draining=known.draining or server.draining,
                passed=server.operation == SERVER_UP,
            )

    def missing(self, backend: str, snapshot: Snapshot) -> Sequence[Registered]:
        """Return the members that a backend does not have."""
        there = {server.name for server in snapshot.servers()}
        return [one for one in self._of(backend) if str(one.target.name) not in there]

    def _of(self, backend: str) -> Sequence[Registered]:
        return [one for key, one in self._members.items() if key[0] == backend]

    def sending(self, members: Iterable[Registered], patience: timedelta) -> None:
        """Note, before it is sent, that a line is to put members back."""
        until = self.clock.monotonic() + (patience + LATE).total_seconds()
        self._late |= {_key(one.target): until for one in members}

    def sent(self, members: Iterable[Registered]) -> None:
        """Note that this line was answered: it takes no effect later."""
        for one in members:
            self._late.pop(_key(one.target), None)

    def may_return(self, target: Target) -> bool:
        """Tell whether a line that was not answered may put a member back yet."""
        until = self._late.get(_key(target), 0.0)
        if until <= self.clock.monotonic():
            self._late.pop(_key(target), None)
            return False
        return True


def _key(target: Target) -> _Key:
    return target.backend, str(target.name)


def lines(
    members: Sequence[Registered], longest: int
) -> Mapping[str, list[Registered]]:
    """Return as few lines as put these members back, with the members of each.

    Args:
        members: in the order in which they come back.
        longest: bytes of a line, with its end.
    """
    found: dict[str, list[Registered]] = {}
    line, begun = "", list[Registered]()
    for one in members:
        joined = f"{line};{one.line}" if line else one.line
        if begun and len(joined) >= longest:
            found[line], joined, begun = begun, one.line, []
        line, begun = joined, [*begun, one]
    if begun:
        found[line] = begun
    return found
