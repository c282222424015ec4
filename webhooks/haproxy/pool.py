"""One backend of one HAProxy: ensures, drains, deregisters and lists our members.

Called by `load_balancers`, which has several of these. Each step is one turn: read the
state, ask `decisions`, make at most one change. Then the next step reads again; so what
a step concludes was always read after the last change, from one process.
"""

import asyncio
import contextlib

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import cast

import attrs

from webhooks.haproxy import commands, decisions
from webhooks.haproxy.commands import ADDS, SERVES, Command, Target
from webhooks.haproxy.errors import (
    AddressConflict,
    NoCookie,
    NoSuchBackend,
    NoSuchServer,
    NotInMaintenance,
    OptionConflict,
    ServerExists,
    StillConnected,
    Uncertain,
    Unsettled,
)
from webhooks.haproxy.members import Member, MemberName
from webhooks.haproxy.memory import Key, Sent, key_of
from webhooks.haproxy.replies import Generation, Server, Snapshot
from webhooks.haproxy.restoring import restore
from webhooks.haproxy.runtime_api import RuntimeApi
from webhooks.shared.outcomes import Finished, Outcome, Unfinished


MOST_STEPS = 20
"""A member needs four steps at most; more means that somebody works against us."""

QUIET_READINGS = 2
"""A drain ends when nothing was left so many times in a row."""

BETWEEN_READINGS = timedelta(milliseconds=100)

BETWEEN_DELETIONS = timedelta(milliseconds=50)
"""HAProxy needs a moment to detach a connection that has ended."""


GONE = Finished("the backend is gone")

STARTING = "waits for its first health checks to pass"
"""The note on a member that is put into service and is sent nothing yet."""

MAY_COME = "HAProxy hung at an earlier command for it, and may carry that out yet"
"""The note on what is as it should be, and may be undone."""

Wanted = tuple[Member, str | None]
"""What a member is to be like, and the fixed options that it was added with, if known."""


async def until_quiet(step: Callable[[], Awaitable[Outcome | None]]) -> Outcome:
    """Drain step by step until nothing was left several times in a row.

    Args:
        step: None where nothing was left on the member; else what came of the drain.
    """
    try:
        for reading in range(QUIET_READINGS):
            if reading:
                await asyncio.sleep(BETWEEN_READINGS.total_seconds())
            outcome = await step()
            if outcome is not None:
                return outcome
    except NoSuchBackend:
        return GONE
    return Finished()


@attrs.frozen
class Listing:
    """Our members of one backend of one HAProxy.

    Attributes:
        generation: of the process that has them.
        members: servers by name.
        loads: requests in progress and waiting, by name.
    """

    generation: Generation
    members: Mapping[MemberName, Server]
    loads: Mapping[MemberName, int]


@attrs.frozen
class Pool:
    """One backend of one HAProxy.

    Attributes:
        api: of that HAProxy.
        backend: name of the backend.
        cookies: whether members are to have dynamic cookies.
    """

    api: RuntimeApi
    backend: str = attrs.field(converter=commands.checked_backend)
    cookies: bool = False

    async def probe(self, prefix: str) -> None:
        """Find out whether members can be added here; changes nothing.

        Raises:
            Refused: no such backend, a static algorithm, or not level admin.
            NoCookie: members are to have cookies, and the backend knows none.
        """
        target = Target(self.backend, MemberName(prefix, "probe"))
        async with self.api.turn():
            await self.api.change(commands.probe(target))
            if self.cookies and not await self.api.cookie(self.backend):
                raise NoCookie(
                    f"backend {self.backend} of HAProxy at {self.api.endpoint} has no "
                    "cookie: say `cookie NAME insert indirect nocache dynamic` and "
                    "`dynamic-cookie-key` there, or leave out `dynamicCookies`"
                )

    async def ensure(self, wanted: Member, added_with: str | None = None) -> Outcome:
        """Put the member into full service.

        Finished as soon as HAProxy may send to it, or decides by its own checks when:
        a member whose checks never pass would otherwise be asked for without end.

        Raises:
            AddressConflict, OptionConflict: the member is there and is another one.
            NoSuchBackend: there is nothing to be a member of.
            Unsettled: it does not stay as it was put.
            Uncertain: it is in service, and what was given up before may undo that.
        """
        target = Target(self.backend, wanted.name, self.cookies)
        for _ in range(MOST_STEPS):
            async with self.api.turn():
                server = await self._server(target)
                known = self._added_with(target, added_with)
                command = decisions.next_to_ensure(target, wanted, server, known)
                if command is not None:
                    await self._bring(target, wanted, server, command)
                    continue
                if server is not None:
                    self._remember(target, wanted, server)
                if not self._stays(target, wanted):
                    raise Uncertain(f"{target}: {MAY_COME}")
                if server is not None and server.held_back:
                    return Finished(STARTING)
                return Finished()
        raise Unsettled(
            f"{target} did not come into service in {MOST_STEPS} steps: does somebody "
            "else change its state?"
        )

    async def ensure_all(
        self, wanted: Mapping[MemberName, Wanted]
    ) -> Mapping[MemberName, str]:
        """Put members into full service by few lines; return those that are, with notes.

        Who is refused, or does not come on, is left as it is: whoever asks for that one
        alone is told why.

        Raises:
            NoSuchBackend, Unreachable, Uncertain: as `ensure`.
        """
        done: dict[MemberName, str] = {}

        def next_command(target: Target, server: Server | None) -> Command | None:
            member, added_with = wanted[cast("MemberName", target.name)]
            known = self._added_with(target, added_with)
            command = decisions.next_to_ensure(target, member, server, known)
            if server is None:
                self._note_options(target, member)
            if command is None and server is not None:
                self._remember(target, member, server)
                if self._stays(target, member):
                    done[member.name] = STARTING if server.held_back else ""
            return command

        await self._bring_on(list(wanted), next_command)
        return done

    async def deregister_all(
        self, names: Sequence[MemberName]
    ) -> Mapping[MemberName, str]:
        """Take members out by few lines; return those that are out; as `ensure_all`.

        None of them is cut: who has connections is left in maintenance.
        """
        done: dict[MemberName, str] = {}
        for name in names:
            self.api.memory.leave(Target(self.backend, name))

        def next_command(target: Target, server: Server | None) -> Command | None:
            if server is not None:
                return decisions.next_to_deregister(target, server)
            if ADDS not in self.api.memory.late(key_of(target)):
                done[cast("MemberName", target.name)] = ""
            return None

        await self._bring_on(names, next_command)
        return done

    async def _bring_on(
        self,
        names: Sequence[MemberName],
        next_command: Callable[[Target, Server | None], Command | None],
    ) -> None:
        """Read all members, change all that have a next step, and again; none twice."""
        before: Mapping[MemberName, Command] = {}
        left = list(names)
        for _ in range(MOST_STEPS):
            steps, effects = dict[MemberName, Command](), list[Sent]()
            async with self.api.turn():
                snapshot = await self._snapshot()
                for name in left:
                    target = Target(self.backend, name, self.cookies)
                    server = snapshot.server(str(name))
                    with contextlib.suppress(AddressConflict, OptionConflict):
                        command = next_command(target, server)
                        if command is not None and command != before.get(name):
                            steps[name] = command
                            effects.append((key_of(target), command.effect))
                if not steps:
                    return
                with self.api.memory.sending(effects):
                    await self.api.change_all(list(steps.values()))
            before, left = steps, list(steps)

    async def drain(self, name: MemberName) -> Outcome:
        """Stop new traffic, and tell what is left; gone members have nothing left."""
        target = Target(self.backend, name)
        outcome = await until_quiet(lambda: self._drain_step(target))
        return self.settled(outcome, key_of(target), {SERVES})

    async def _drain_step(self, target: Target) -> Outcome | None:
        """Drain one step further; None: drained, and nothing was left on it now."""
        async with self.api.turn():
            snapshot = await self._snapshot()
            server = snapshot.server(str(target.name))
            if server is None:
                return Finished()
            command = decisions.next_to_drain(target, server)
            if command and decisions.must_stay(target, server, snapshot):
                left = await self.api.load(self.backend, server) or 0
                note = "serves until another member has passed its first checks"
                return Unfinished(left, note)
            self.api.memory.drain(target)
            if command:
                await self._change(target, command)
            left = await self.api.load(self.backend, server) or 0
        return Unfinished(left, "requests are in progress") if left else None

    async def deregister(self, name: MemberName, *, may_cut: bool) -> Outcome:
        """Take the member out; with `may_cut` end what is still established on it.

        It is forgotten before anything is sent: no reload brings it back from now on.
        """
        target = Target(self.backend, name)
        self.api.memory.leave(target)
        outcome = await self._deregister(target, may_cut=may_cut)
        return self.settled(outcome, key_of(target), {ADDS})

    def settled(
        self, outcome: Outcome, member: Key, undoing: Collection[str]
    ) -> Outcome:
        """Return what has become of an operation that late effects may undo."""
        stays = self.api.memory.late(member).isdisjoint(undoing)
        if isinstance(outcome, Finished) and not stays:
            return Unfinished(0, MAY_COME)
        return outcome

    async def _deregister(self, target: Target, *, may_cut: bool) -> Outcome:
        """Take a member out that is not put back any more."""
        for attempt in range(MOST_STEPS):
            try:
                async with self.api.turn():
                    server = await self._server(target)
                    if server is None:
                        return Finished()
                    command = decisions.next_to_deregister(target, server)
                    await self._change(target, command)
            except NoSuchBackend:
                return GONE
            except StillConnected:
                await self._detach(target, may_cut=may_cut)
                if attempt < MOST_STEPS - 1:
                    await asyncio.sleep(BETWEEN_DELETIONS.total_seconds())
        return await self._attached(target)

    async def _detach(self, target: Target, *, may_cut: bool) -> None:
        """Free a member that nobody new is let in to of the connections it has."""
        async with self.api.turn():
            server = await self._server(target)
            if server is None or not server.in_maintenance:
                return
            left = await self.api.load(self.backend, server)
            command = decisions.next_to_detach(target, left or 0, may_cut=may_cut)
            if command is not None:
                await self._change(target, command)

    async def _attached(self, target: Target) -> Outcome:
        """Tell what still keeps a member from being taken out."""
        async with self.api.turn():
            server = await self._server(target)
            if server is None:
                return Finished()
            left = await self.api.load(self.backend, server) or 0
        return Unfinished(left, "connections are still attached to it")

    async def list_members(self, prefix: str) -> Listing:
        """Return our members.

        Raises:
            NoSuchBackend: the backend is gone.
        """
        async with self.api.turn():
            snapshot = await self._snapshot()
            members = {
                name: server
                for server in snapshot.servers()
                if (name := MemberName.of_server(prefix, server.name)) is not None
            }
            loads: Mapping[str, int] = {}
            if members:
                number = next(iter(members.values())).backend_id
                loads = await self.api.loads(self.backend, number)
        counted = {name: loads.get(str(name), 0) for name in members}
        return Listing(snapshot.generation, members, counted)

    async def _server(self, target: Target) -> Server | None:
        snapshot = await self._snapshot()
        return snapshot.server(str(target.name))

    async def _snapshot(self) -> Snapshot:
        snapshot = await self.api.snapshot(self.backend)
        while await restore(self.api):
            snapshot = await self.api.snapshot(self.backend)
        return snapshot

    def _remember(self, target: Target, member: Member, server: Server) -> None:
        self.api.memory.register(target, member, server, self.api.generation)

    def _stays(self, target: Target, member: Member) -> bool:
        """Tell whether nothing that was given up may undo what a member is now.

        A drain, or another weight, that comes late would do so at the same epoch.
        """
        weight = commands.weigh(target, member.options.weight).effect
        return self.api.memory.late(key_of(target)) <= {ADDS, SERVES, weight}

    def _added_with(self, target: Target, told: str | None) -> frozenset[str]:
        return self.api.memory.added_with(target, self.api.generation, told)

    def _note_options(self, target: Target, member: Member) -> None:
        self.api.memory.adding(target, member.options.fixed, self.api.generation)

    async def _bring(
        self, target: Target, member: Member, server: Server | None, command: Command
    ) -> None:
        """Carry out a command that brings a member nearer to service."""
        if server is not None:
            await self._change(target, command)
            return
        self._note_options(target, member)
        if await self._change(target, command):
            self.api.memory.added(target, member.options.fixed)

    async def _change(self, target: Target, command: Command) -> bool:
        """Carry out a command; one that came too late is found by the next reading.

        Returns:
            Whether it was carried out.
        """
        try:
            with self.api.memory.sending([(key_of(target), command.effect)]):
                await self.api.change(command)
        except (ServerExists, NoSuchServer, NotInMaintenance):
            return False
        return True
