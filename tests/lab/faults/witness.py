"""The in-memory driver, served on a real socket, with a memory for all that happened.

Our processes call it as any driver; `scenario` reads its members, `oracle` its calls
and changes.
"""

import asyncio
import contextlib
import random
import time

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

from aiohttp import web
from aiohttp.typedefs import Middleware

from lbcf import sdk
from lbcf.sdk.server import Service
from tests.lab.faults.history import Call, Effect, Journal, Member
from webhooks.memory import MemoryDriver
from webhooks.memory_control import Behaviour, Control, Mode
from webhooks.memory_members import AnyRequest, Members


class WatchedMembers(Members):
    """Members that note each change."""

    def __init__(self, key: sdk.MemberKey, clock: sdk.Clock, journal: Journal) -> None:
        super().__init__(key, clock)
        self._journal = journal

    def ensure(self, request: sdk.EnsureBackendRequest) -> None:
        """Put the member in."""
        before = self._owner(request)
        super().ensure(request)
        self._note(request, before, ensured=True)

    def remove(self, request: AnyRequest) -> None:
        """Take the member out."""
        before = self._owner(request)
        super().remove(request)
        self._note(request, before, ensured=False)

    def _owner(self, request: AnyRequest) -> str:
        """Say in whose name the member is there, if it is."""
        return self.find(request).record_id if self.has(request) else ""

    def _note(self, request: AnyRequest, before: str, *, ensured: bool) -> None:
        """Note a change that has just been made."""
        self._journal.effects.append(
            Effect(
                at=time.monotonic(),
                ensured=ensured,
                address=request.backend_addr,
                by=request.record_id,
                before=before,
            )
        )


def take(effect: Callable[[], object]) -> None:
    """Take an effect; what is not there need not go."""
    with contextlib.suppress(sdk.NotThere):
        effect()


LATEST = 2.8
"""Seconds after which the last late effect comes: within the time-out of 2 s and the
lateEffectSeconds of 1 that the driver declares."""


class Witness(MemoryDriver):
    """The driver; its answers may take their time, and its effects too.

    Attributes:
        late: the part of ensures and deregistrations that answer Running and take
            effect some time later, beside whatever else comes meanwhile; but never
            after the effect of a later call for their record that is answered by
            `Succ` (docs/protocol.md).
    """

    def __init__(
        self, member_key: sdk.MemberKey, journal: Journal, chance: random.Random
    ) -> None:
        clock = sdk.SystemClock()
        super().__init__(member_key, clock)
        self.members = WatchedMembers(member_key, clock, journal)
        self.control = Control(self.members)
        self.late = 0.0
        self._journal = journal
        self._chance = chance
        self._put_off: defaultdict[str, list[asyncio.TimerHandle]] = defaultdict(list)

    def slow_down(self, seconds: float) -> None:
        """Answer that much later from now on; the effect comes at once."""
        for operation in (
            sdk.Operation.ENSURE_BACKEND,
            sdk.Operation.DEREGISTER_BACKEND,
        ):
            self.control.behave(
                Behaviour(
                    operation=operation, mode=Mode.SLOW, times=10_000, seconds=seconds
                )
            )

    def set_sessions(self, address: str, sessions: int) -> None:
        """Let a member have sessions, which a drain waits for."""
        for member in self.members:
            if member.backend_addr == address:
                member.sessions = sessions

    def listed(self) -> list[Member]:
        """All members as they are now."""
        return [
            Member(
                m.backend_addr,
                m.record_id,
                dict(m.parameters),
                m.state is sdk.BackendState.ACTIVE,
            )
            for m in self.members
        ]

    async def ensure_backend(
        self, request: sdk.EnsureBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Ensure, and remember."""
        with self._noted(sdk.Operation.ENSURE_BACKEND, request) as call:
            if self._is_put_off(request, lambda: self.members.ensure(request)):
                call.outcome = "Running"
                return sdk.Running(msg="later")
            self._drop_late(request)
            result = await super().ensure_backend(request)
            call.outcome = type(result).__name__
        return result

    async def drain_backend(
        self, request: sdk.DrainBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Drain, and remember."""
        with self._noted(sdk.Operation.DRAIN_BACKEND, request) as call:
            result = await super().drain_backend(request)
            call.outcome = type(result).__name__
        return result

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Deregister, and remember."""
        with self._noted(sdk.Operation.DEREGISTER_BACKEND, request) as call:
            if self._is_put_off(request, lambda: self.members.remove(request)):
                call.outcome = "Running"
                return sdk.Running(msg="later")
            self._drop_late(request)
            result = await super().deregister_backend(request)
            call.outcome = type(result).__name__
        return result

    def _is_put_off(self, request: AnyRequest, effect: Callable[[], object]) -> bool:
        """Let an effect come late, if it is its turn to."""
        if self._chance.random() >= self.late:
            return False

        seconds = self._chance.uniform(0.3, LATEST)
        timer = asyncio.get_running_loop().call_later(seconds, take, effect)
        self._put_off[request.record_id].append(timer)
        return True

    def _drop_late(self, request: AnyRequest) -> None:
        """Let what earlier calls for a record are still to do take no effect.

        This call takes its effect at once, and may be answered much later.
        """
        for timer in self._put_off.pop(request.record_id, ()):
            timer.cancel()

    @contextlib.contextmanager
    def _noted(self, operation: sdk.Operation, request: AnyRequest) -> Iterator[Call]:
        """Note a call from its begin to its end."""
        call = Call(
            operation.value, request.record_id, request.backend_addr, time.monotonic()
        )
        self._journal.calls.append(call)
        try:
            yield call
        except Exception as error:
            call.outcome = type(error).__name__
            raise
        finally:
            call.ended = time.monotonic()


@contextlib.asynccontextmanager
async def served(
    driver: sdk.Driver, middlewares: Iterable[Middleware] = ()
) -> AsyncIterator[str]:
    """Serve a driver on a port of its own; gives its URL."""
    application = Service(driver).application()
    application.middlewares.extend(middlewares)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()
