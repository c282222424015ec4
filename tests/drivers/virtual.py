"""A driver that takes batches of ensures, in virtual time, behind the real pool."""

import asyncio

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta

from prometheus_client import CollectorRegistry

from lbcf.core.model.access import Secret
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.drivers.client import DriverClient
from lbcf.drivers.errors import TimedOut
from lbcf.drivers.pool import DriverPool
from lbcf.wire.driver import parse_request, render_answer
from lbcf.wire.driver_answers import (
    BackendAnswer,
    BackendResult,
    BackendsAnswer,
    Status,
)
from lbcf.wire.driver_requests import EnsureBackendRequest, EnsureBackendsRequest
from tests.fakes.clock import VirtualClock


TRIP = 0.05
"""Seconds that a call takes."""

Respond = Callable[[Sequence[str]], Awaitable[bytes]]


async def succeed(records: Sequence[str]) -> bytes:
    """Say that each item is done, after a while."""
    await asyncio.sleep(TRIP)
    return answer(records)


def answer(records: Collection[str], status: Status = Status.SUCC) -> bytes:
    """Return an answer with a result for each of these records."""
    results = [BackendResult(record_id=one, status=status) for one in records]
    return render_answer(BackendsAnswer(results=results))


class Wire(DriverClient):
    """A driver in virtual time."""

    def __init__(self, far: "Far") -> None:
        self._far = far

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    async def post(
        self,
        name: str,
        operation: Operation,
        body: bytes,
        timeout: timedelta,  # noqa: ASYNC109 - as the real one has it
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Take note of a call, and answer."""
        assert name
        assert headers
        request = parse_request(operation, body)
        if isinstance(request, EnsureBackendRequest):
            self._far.alone.append(request.record_id)
            if request.record_id in self._far.silent:
                raise TimedOut("no whole answer")
            is_sick = request.record_id in self._far.sick
            status = Status.FAIL if is_sick else Status.SUCC
            return render_answer(BackendAnswer(status=status, msg="as asked"))
        assert isinstance(request, EnsureBackendsRequest)
        records = [one.record_id for one in request.items]
        self._far.sent.append(records)
        self._far.at.append(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                return await self._far.respond(records)
        except TimeoutError as error:
            raise TimedOut("no whole answer") from error


class Far(DriverPool):
    """The pool, with a driver at the other end.

    Attributes:
        sent: the records of each batch.
        alone: those of calls about one member.
        sick: those that are refused when they are alone.
        silent: those of which nothing is heard then.
        at: when each went out.
        respond: what the driver does.
    """

    def __init__(self, respond: Respond = succeed) -> None:
        self.registry = CollectorRegistry()
        super().__init__(VirtualClock(), self.registry)
        self.sent: list[list[str]] = []
        self.alone: list[str] = []
        self.sick: set[str] = set()
        self.silent: set[str] = set()
        self.at: list[float] = []
        self.respond = respond

    def _connect(
        self, _driver: LoadBalancerDriver, _secrets: Mapping[str, Secret]
    ) -> DriverClient:
        """Return the wire to it."""
        return Wire(self)
