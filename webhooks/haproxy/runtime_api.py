"""The runtime API of one HAProxy: typed questions and commands, one at a time.

`pool` works with it; lines go out through `connection`, answers come in through
`replies`, refusals through `errors`.

HAProxy has few slots for all who use its runtime API (`stats maxconn`, default 10), and
the eleventh waits without a word: so the driver takes one at a time. What belongs
together, a reading and the change that follows from it, is done in one turn.
"""

import asyncio

from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import attrs

from webhooks.haproxy.commands import Command, checked_backend
from webhooks.haproxy.connection import Limits, exchange, longest_line
from webhooks.haproxy.endpoints import Endpoint
from webhooks.haproxy.errors import NoAnswer, Uncertain, Unreachable, refusal
from webhooks.haproxy.memory import Memory
from webhooks.haproxy.replies import (
    Generation,
    Server,
    Snapshot,
    parse_cookie,
    parse_loads,
    parse_process,
    parse_snapshot,
)


RELOAD_STEPS = 10
LOOK = timedelta(milliseconds=250)
"""How long an answer to the question which process answers is waited for."""

RELOAD_STEP = timedelta(milliseconds=50)
"""An old process takes connections for 0.12 s at most (measured on HAProxy 2.6.12)."""


def _in_lines(commands: Sequence[str], longest: int) -> Iterator[list[str]]:
    """Put as many commands into each line as it has room for, with its end."""
    line: list[str] = []
    for command in commands:
        if line and sum(map(len, line)) + len(line) + len(command) >= longest:
            yield line
            line = []
        line.append(command)
    if line:
        yield line


@attrs.define(eq=False)
class RuntimeApi:
    """One HAProxy. All methods but `turn` are called within a turn.

    Attributes:
        endpoint: where its runtime API listens.
        limits: of each answer.
        memory: the members that this process of the driver has put there.
    """

    endpoint: Endpoint
    limits: Limits = attrs.field(factory=Limits)
    memory: Memory = attrs.field(factory=Memory, init=False)
    _mutex: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    _current: Generation | None = attrs.field(default=None, init=False)
    _former: deque[Generation | None] = attrs.field(
        factory=lambda: deque(maxlen=16), init=False
    )

    @property
    def has_answered(self) -> bool:
        """Tell whether a HAProxy has ever shown its state here."""
        return self._current is not None

    @property
    def generation(self) -> Generation | None:
        """Return the process that answered last; None: none has yet."""
        return self._current

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until nobody else of this process talks to this HAProxy."""
        async with self._mutex:
            yield

    async def ask(self, line: str) -> str:
        """Send a line and return the whole answer; all traffic passes here.

        Raises:
            Unreachable, NoAnswer, Unreadable: as `connection.exchange` says.
        """
        answer = await exchange(self.endpoint, line, self.limits)
        self.memory.heard()
        return answer

    async def change(self, command: Command) -> None:
        """Carry out a command.

        Raises:
            Refused: HAProxy did not; the class says why.
            Unreachable: it was not sent.
            Uncertain: it was sent. HAProxy may take it from its queue much later.
        """
        try:
            answer = await self.ask(command.line)
        except NoAnswer as error:
            raise Uncertain(str(error)) from error
        done = command.success in answer if command.success else not answer.strip()
        if not done:
            raise refusal(self.endpoint, answer)

    async def change_all(self, commands: Sequence[Command]) -> None:
        """Carry out commands, many in a line; what became of each the next reading tells.

        HAProxy goes on with a line where one command of it is refused.

        Raises:
            Unreachable: it was not sent, or not all.
            Uncertain: a line was sent. HAProxy may take it from its queue much later.
        """
        longest = longest_line(self.endpoint)
        for line in _in_lines([command.line for command in commands], longest):
            try:
                await self.ask(";".join(line))
            except NoAnswer as error:
                raise Uncertain(str(error)) from error

    async def snapshot(self, backend: str) -> Snapshot:
        """Return the servers of a backend.

        Raises:
            NoSuchBackend: it is not there.
            Unreachable: the answer came from a process that a reload has replaced.
        """
        question = f"show servers state {checked_backend(backend)}"
        for _ in range(RELOAD_STEPS):
            answer = await self.ask(f"show info;{question}")
            snapshot = parse_snapshot(answer)
            if snapshot is None:
                raise refusal(self.endpoint, answer.rstrip().rpartition("\n")[2])
            if not self._is_replaced(snapshot.generation, snapshot.stopping):
                return snapshot
            await asyncio.sleep(RELOAD_STEP.total_seconds())
        raise Unreachable(f"HAProxy at {self.endpoint} is being reloaded: ask again")

    async def look(self) -> bool:
        """Find out which process answers now; tell whether it is not a replaced one.

        An old process leaves connections that it has not accepted without an answer
        until it ends (measured on HAProxy 2.6.12): so nobody waits long for one.

        Raises:
            TimeoutError: it did not answer at once.
            Unreachable, NoAnswer, Unreadable: as `connection.exchange` says.
        """
        async with asyncio.timeout(LOOK.total_seconds()):
            answer = await self.ask("show info")
        return not self._is_replaced(*parse_process(answer))

    def _is_replaced(self, generation: Generation, stopping: bool) -> bool:
        """Tell whether a reload has replaced the process that answered.

        For a moment both take connections. What is added to the old one is lost, and
        nobody would notice: the new epoch may have been listed already. The old one
        does not know yet that it is to stop; having seen the new one, we do.
        """
        if stopping or generation in self._former:
            return True
        if self._current not in {None, generation}:
            self._former.append(self._current)
        self._current = generation
        return False

    async def load(self, backend: str, server: Server) -> int | None:
        """Return the requests in progress and waiting; None: the server is gone.

        Both numbers may belong to another server meanwhile: names decide. The backend
        is given by its number, for by its name a frontend of that name is found
        (measured on HAProxy 2.6.12).
        """
        question = f"show stat {server.backend_id} 4 {server.server_id}"
        return parse_loads(await self.ask(question), backend).get(server.name)

    async def cookie(self, backend: str) -> str:
        """Return the name of the cookie that a backend sets; empty: it sets none."""
        return parse_cookie(await self.ask("show stat -1 2 -1"), backend)

    async def loads(self, backend: str, backend_id: int) -> Mapping[str, int]:
        """Return the requests in progress and waiting of all servers, by name."""
        return parse_loads(await self.ask(f"show stat {backend_id} 4 -1"), backend)
