"""A process that makes calls, and gives them up in one of several ways.

    python -m tests.partition.sender WAY TRIES TIMEOUT FOLDER

Each try has a connection of its own. It is told `warm`, and makes a call that is answered; then `go`, and
makes one that is not. It says each word again when it is through with it.
"""

import asyncio
import contextlib
import enum
import socket
import sys

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import attrs
import structlog
import uvloop

from prometheus_client import CollectorRegistry

from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver, Security
from lbcf.drivers.errors import DriverError
from lbcf.drivers.pool import DriverPool
from lbcf.kube.connection import Connection
from lbcf.kube.errors import Unavailable
from lbcf.kube.requests import ApiRequest
from lbcf.kube.transport import Transport
from lbcf.runtime.clock import SystemClock
from lbcf.wire.driver_requests import HealthzRequest, JudgePodDeregisterRequest
from tests.drivers.servers import BESIDE_US, REQUEST, a_driver
from tests.partition.site import DRIVER


class Way(enum.StrEnum):
    """How a call is given up."""

    TIMED_OUT = "timed-out"
    TLS = "tls"
    LARGE = "large"
    """Its request is more than the kernel takes."""
    LARGE_TLS = "large-tls"
    CANCELLED = "cancelled"
    FORGOTTEN = "forgotten"
    """Its driver is deleted."""
    WRITE = "write"
    """It goes to the API server."""
    ENDED = "ended"
    """The process ends as it does after SIGTERM, with the call under way."""
    KILLED = "killed"
    """The process is killed with -9."""
    KILLED_TLS = "killed-tls"
    STOPPED = "stopped"
    """The process is stopped, and never looks at its clock again."""
    NAIVE = "naive"
    """The socket is closed, as most programs do it."""


SECURE = frozenset({Way.TLS, Way.LARGE_TLS, Way.KILLED_TLS})
PODS: list[dict[str, object]] = [{"metadata": {"name": "x" * 900_000}}]


@attrs.frozen
class Caller:
    """One try."""

    way: Way
    number: int
    timeout: timedelta
    folder: Path
    pool: DriverPool

    @property
    def driver(self) -> LoadBalancerDriver:
        """The driver, at a URL of this try."""
        scheme = "https" if self.way in SECURE else "http"
        driver = a_driver(f"{scheme}://{DRIVER}/{self.way}-{self.number}")
        authority = (self.folder / "authority.pem").read_bytes()
        return attrs.evolve(driver, security=Security(ca_bundle=authority))

    async def warm(self) -> None:
        """Make the connection."""
        request = HealthzRequest()
        patient = timedelta(seconds=20)
        await self.pool.call(self.driver, Operation.HEALTHZ, request, timeout=patient)

    async def go(self) -> None:
        """Make the call that is not answered.

        Raises:
            DriverError: it was not sent.
        """
        try:
            if self.way in {Way.LARGE, Way.LARGE_TLS}:
                operation = Operation.JUDGE_POD_DEREGISTER
                pods = JudgePodDeregisterRequest(not_ready_pods=PODS)
                await self.pool.call(self.driver, operation, pods, timeout=self.timeout)
            else:
                await self.pool.call(
                    self.driver,
                    Operation.ENSURE_BACKEND,
                    REQUEST,
                    timeout=self.timeout,
                )
        except DriverError as error:
            if error.definite:
                raise


@attrs.frozen
class Writer:
    """One try of a write to the API server."""

    number: int
    timeout: timedelta
    transport: Transport

    async def warm(self) -> None:
        """Make the connection."""
        await self.transport.send(
            ApiRequest("GET", f"/{Way.WRITE}-{self.number}/healthz")
        )

    async def go(self) -> None:
        """Write.

        Raises:
            Unavailable: it was not sent.
        """
        path = f"/{Way.WRITE}-{self.number}/write"
        request = ApiRequest("PATCH", path, body=b"{}", content_type="application/json")
        try:
            await self.transport.send(request, self.timeout)
        except Unavailable as error:
            if not error.maybe_applied:
                raise


@attrs.frozen
class Naive:
    """One try of a program that closes its socket and thinks no more of it."""

    number: int
    timeout: timedelta
    connection: socket.socket

    async def warm(self) -> None:
        """Make a call."""
        await asyncio.to_thread(self._send, "healthz")
        await asyncio.to_thread(self.connection.recv, 2**16)

    async def go(self) -> None:
        """Make another one, and give it up."""
        self._send("ensureBackend")
        await asyncio.sleep(self.timeout.total_seconds())
        self.connection.close()

    def _send(self, operation: str) -> None:
        """Send a request."""
        head = f"POST /{Way.NAIVE}-{self.number}/{operation} HTTP/1.1\r\n\r\n"
        self.connection.sendall(head.encode())


Try = Caller | Writer | Naive


async def together(steps: list[Callable[[], Awaitable[None]]]) -> None:
    """Do something in all tries at once."""
    async with asyncio.TaskGroup() as group:
        for step in steps:
            group.create_task(_awaited(step))


async def _awaited(step: Callable[[], Awaitable[None]]) -> None:
    """Do it in one."""
    await step()


async def a_try(
    stack: contextlib.AsyncExitStack, way: Way, number: int, *rest: str
) -> Try:
    """Make what a try needs."""
    timeout, folder = timedelta(seconds=float(rest[0])), Path(rest[1])
    if way is Way.NAIVE:
        return Naive(number, timeout, socket.create_connection((DRIVER, 80)))
    if way is Way.WRITE:
        opened = Transport(Connection(f"http://{DRIVER}"), SystemClock())
        return Writer(number, timeout, await stack.enter_async_context(opened))
    pool = DriverPool(SystemClock(), CollectorRegistry(), allowlist=BESIDE_US)
    return Caller(way, number, timeout, folder, await stack.enter_async_context(pool))


async def give_up(way: Way, tries: list[Try], limit: timedelta) -> None:
    """Make all calls, and give them up."""
    calls = asyncio.create_task(together([one.go for one in tries]))
    if way in {Way.CANCELLED, Way.ENDED, Way.FORGOTTEN}:
        await asyncio.sleep(limit.total_seconds() / 2)
    match way:
        case Way.ENDED:
            return  # with the calls under way
        case Way.CANCELLED:
            calls.cancel()
        case Way.FORGOTTEN:
            for one in tries:
                if isinstance(one, Caller):
                    one.pool.forget(one.driver.meta.key)
        case Way.STOPPED | Way.KILLED | Way.KILLED_TLS:
            print("go", flush=True)
        case _:
            pass  # to wait for the time-out is enough
    with contextlib.suppress(asyncio.CancelledError, ExceptionGroup):
        await calls


async def main(way: Way, tries: int, *rest: str) -> None:
    """Do as told."""
    async with contextlib.AsyncExitStack() as stack:
        made = [await a_try(stack, way, number, *rest) for number in range(tries)]
        print("ready", flush=True)
        assert "warm\n" == await asyncio.to_thread(sys.stdin.readline)
        await together([one.warm for one in made])
        print("warm", flush=True)
        assert "go\n" == await asyncio.to_thread(sys.stdin.readline)
        await give_up(way, made, timedelta(seconds=float(rest[0])))
    print("go", flush=True)


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # says nothing
    uvloop.run(main(Way(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
