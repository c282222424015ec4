"""What this process of the driver put into a HAProxy, so that it can put it back. Pure.

A reload or a restart of HAProxy loses all servers that were added at run time. The
driver stores nothing; but as long as its process lives, it knows what it added.
`restoring` puts that back.

With `--restore` alone members are remembered. Noted always are the options that a member was
added with, which HAProxy does not tell, and lines that were given up: until these are too
old, nothing that they would undo is called done.

A member is remembered once it was read as it should be, and forgotten before the first
command of its deregistration is sent. So what was deregistered is never put back. That
holds only where no other process of the driver deregisters members of the same HAProxy:
`--restore` says so, and without it no member is remembered.
"""

import asyncio

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta

import attrs

from lbcf.sdk import Clock, SystemClock
from webhooks.haproxy import commands
from webhooks.haproxy.commands import ADDS, LEAVES, SERVES, Target
from webhooks.haproxy.errors import NoAnswer
from webhooks.haproxy.members import Member
from webhooks.haproxy.replies import Generation, Server, Snapshot


TRUST = timedelta(seconds=30)
"""What nobody has compared with HAProxy for so long is forgotten at a reload: while this
process hung, another one may have taken its place and have deregistered members."""

LATE = timedelta(seconds=10)
"""A command that was not answered in time may take effect so long after HAProxy has answered
anything again, and no longer. Each comes over a connection of its own, and HAProxy's threads
take these in any order (seen on HAProxy 2.6.12)."""


Key = tuple[str, str]
"""Backend and name of the server; of a member that has a slot, its address."""

Sent = tuple[Key, str]
"""Whom a command is about, and what its effect is."""


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

    @property
    def effects(self) -> Sequence[Sent]:
        """Return what these commands do, be it to a member that is there."""
        key = key_of(self.target)
        return [(key, ADDS), (key, LEAVES if self.draining else SERVES)]

    def _drained(self, check: bool) -> Sequence[str]:
        """Return the commands that leave it to its persistent clients."""
        watched = [commands.watch(self.target).line] if check else []
        return [*watched, commands.drain(self.target).line]


@attrs.define(eq=False)
class _Line:
    """A line, or several, that was given up without an answer.

    Attributes:
        effects: of its commands.
        until: monotonic seconds at which it is too old to take effect; None: HAProxy has
            answered nothing since, and may hang still.
    """

    effects: Collection[Sent]
    until: float | None = None


@attrs.define(eq=False)
class Memory:
    """The members of one HAProxy that this process registered, and nobody took out.

    Attributes:
        enabled: whether members are remembered.
        clock: by which what is remembered grows old.
        generation: the process of HAProxy that has the members.
    """

    enabled: bool = False
    clock: Clock = attrs.field(factory=SystemClock)
    generation: Generation | None = None
    _members: dict[Key, Registered] = attrs.field(factory=dict, init=False)
    _confirmed: float = attrs.field(default=0.0, init=False)
    _users: dict[str, set[str]] = attrs.field(factory=dict, init=False)
    _added: dict[Key, frozenset[str]] = attrs.field(factory=dict, init=False)
    _added_to: Generation | None = attrs.field(default=None, init=False)
    _late: list[_Line] = attrs.field(factory=list, init=False)

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
            known = Registered(target, member, passed=server.up)
            self._members[key_of(target)] = known

    def drain(self, target: Target) -> None:
        """Remember that a member is drained; before it is."""
        known = self._members.get(key_of(target))
        if known is not None:
            self._members[key_of(target)] = attrs.evolve(known, draining=True)

    def forget(self, target: Target) -> None:
        """Put a member back no more."""
        self._members.pop(key_of(target), None)

    def leave(self, target: Target) -> None:
        """Forget all of a member; before its deregistration begins."""
        self.forget(target)
        self._added.pop(key_of(target), None)

    def adding(
        self, target: Target, options: str, generation: Generation | None
    ) -> None:
        """Note, before a member is added, the fixed options that it is added with.

        Those of lines that were given up are kept beside them: it may come by one of these.
        """
        if generation != self._added_to:
            self._added, self._added_to = {}, generation
        key = key_of(target)
        may_come = ADDS in self.late(key)
        before = self._added.get(key, frozenset()) if may_come else ()
        self._added[key] = frozenset({*before, options})

    def added(self, target: Target, options: str) -> None:
        """Note that HAProxy has added a member with these fixed options."""
        self._added[key_of(target)] = frozenset({options})

    def added_with(
        self, target: Target, generation: Generation | None, told: str | None
    ) -> frozenset[str]:
        """Return the fixed options of which a member has some; empty: nobody knows.

        Args:
            target: the member.
            generation: of the process that has it.
            told: by the caller, who may not have had the answer to the latest ensure.
        """
        known = self._added.get(key_of(target))
        if known is None or generation != self._added_to:
            return frozenset() if told is None else frozenset({told})
        return known

    def used_by(self, backend: str, balancer: str) -> None:
        """Note that members of a backend may be those of this load balancer."""
        if self.enabled:
            self._users.setdefault(backend, set()).add(balancer)

    def unused_by(self, backend: str, balancer: str) -> bool:
        """Note that a load balancer is deleted; tell whether no other one is known."""
        users = self._users.get(backend, set())
        users.discard(balancer)
        return not users

    def forget_backend(self, backend: str) -> None:
        """Put the members of a backend back no more."""
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
            self._members[key_of(known.target)] = attrs.evolve(
                known,
                draining=known.draining or server.draining,
                passed=server.up,
            )

    def missing(self, backend: str, snapshot: Snapshot) -> Sequence[Registered]:
        """Return the members that a backend does not have."""
        there = {server.name for server in snapshot.servers()}
        return [one for one in self._of(backend) if str(one.target.name) not in there]

    def _of(self, backend: str) -> Sequence[Registered]:
        return [one for key, one in self._members.items() if key[0] == backend]

    @contextmanager
    def sending(self, effects: Collection[Sent]) -> Iterator[None]:
        """Send what has these effects; note them if it is given up without an answer."""
        try:
            yield
        except (NoAnswer, asyncio.CancelledError):
            self._late.append(_Line(effects))
            raise

    def heard(self) -> None:
        """Note that HAProxy has answered something: it does what is in its queue now."""
        now = self.clock.monotonic()
        for line in self._late:
            line.until = line.until or now + LATE.total_seconds()
        self._late = [one for one in self._late if one.until and one.until > now]

    def late(self, member: Key) -> frozenset[str]:
        """Return what lines that were not answered may do to a member yet."""
        now = self.clock.monotonic()
        return frozenset(
            effect
            for line in self._late
            if line.until is None or line.until > now
            for key, effect in line.effects
            if key == member
        )


def key_of(target: Target) -> Key:
    """Return by what a member with a name of its own is known."""
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
