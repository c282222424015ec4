"""Turns without records: each calls until its member is where it is to be."""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Self

import attrs

from prometheus_client import CollectorRegistry

from lbcf import sdk
from lbcf.core.model.operations import BATCHED, SINGLE, Operation
from lbcf.core.model.resources import LoadBalancerDriver, Meta
from lbcf.core.model.values import BatchShape, ObjectKey, Uid
from lbcf.drivers.batches import Batches, Item, Lane, Permitted
from lbcf.drivers.errors import DriverError
from lbcf.drivers.pool import DriverPool
from lbcf.runtime.clock import Clock, SystemClock
from lbcf.wire import driver_requests as requests
from lbcf.wire.driver_answers import BackendAnswer, BackendResult, Status
from tests.drivers.servers import BESIDE_US


PAUSE = timedelta(milliseconds=500)
"""Between two attempts at a member, where a driver says nothing of it."""
_DRAIN = requests.Drain(
    started_at=datetime(2026, 1, 1, tzinfo=UTC),
    deadline=datetime(2027, 1, 1, tzinfo=UTC),
)

Request = requests.BackendRequest[BackendAnswer]


class NoProgressError(Exception):
    """No member got through for a while."""


@attrs.frozen
class Member:
    """A record's backend."""

    record: str
    address: str
    parameters: Mapping[str, str] = attrs.field(factory=dict, hash=False)


def members(number: int, net: str = "198.18") -> list[Member]:
    """Return so many members."""
    return [
        Member(f"record-{n}", f"{net}.{n // 250}.{n % 250 + 1}:80")
        for n in range(number)
    ]


@attrs.frozen
class Outcome:
    """How an operation on many members went.

    Attributes:
        seconds: until the last one was through.
        each: the same of each, by record; those that were given up are not there.
        failures: what was said otherwise, in order.
    """

    seconds: float
    each: Mapping[str, float]
    failures: Sequence[str]


def as_object(
    driver: sdk.Driver | type[sdk.Driver], url: str, *, batched: bool
) -> LoadBalancerDriver:
    """Return the LoadBalancerDriver of a driver that is served at a URL."""
    shape = BatchShape(driver.batch.max_items, driver.batch.max_delay)
    return LoadBalancerDriver(
        meta=Meta(ObjectKey("web", "measured"), Uid("u"), "1"),
        url=url,
        timeouts={one: timedelta(seconds=60) for one in BATCHED},
        batches=dict.fromkeys(BATCHED, shape) if batched else {},
        max_concurrent_calls=driver.max_concurrent_calls,
    )


class Caller:
    """Calls a driver for many members, as many turns at a time as the processes have.

    Attributes:
        registry: counts the calls.
        through: how many members are where they are to be, of the operation that goes on.
        last_said: why one was not, most lately.
    """

    def __init__(
        self,
        driver: LoadBalancerDriver,
        lb_info: Mapping[str, str],
        turns: int = 128,
        clock: Clock | None = None,
    ) -> None:
        self.registry = CollectorRegistry()
        self.through = 0
        self.last_said = ""
        self._driver = driver
        self._lb_info = dict(lb_info)
        self._turns = asyncio.Semaphore(turns)
        self._clock = clock or SystemClock()
        self._pool = DriverPool(self._clock, self.registry, allowlist=BESIDE_US)
        self._batches = Batches(self._pool, self._clock)

    @classmethod
    @contextlib.asynccontextmanager
    async def of(
        cls,
        driver: LoadBalancerDriver,
        lb_info: Mapping[str, str],
        turns: int = 128,
        clock: Clock | None = None,
    ) -> AsyncIterator[Self]:
        """Call for a block; by the machine's clock where there is no other."""
        caller = cls(driver, lb_info, turns, clock)
        async with caller._pool:
            yield caller

    def calls(self) -> int:
        """Return how many calls there were of operations on members, batches or single."""
        return sum(
            int(sample.value)
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == "lbcf_driver_calls_total"
            and sample.labels["operation"] in {*SINGLE, *BATCHED}
        )

    async def all(
        self, operation: Operation, of: Sequence[Member], attempts: int = 1000
    ) -> Outcome:
        """Call an operation for each until it succeeds, or was tried so often."""
        began = self._clock.monotonic()
        each: dict[str, float] = {}
        failures: list[str] = []
        self.through = 0

        async def turn(member: Member) -> None:
            for _ in range(attempts):
                async with self._turns:
                    said = await self._attempt(operation, member)
                if isinstance(said, BackendAnswer) and said.status is Status.SUCC:
                    each[member.record] = self._clock.monotonic() - began
                    self.through = len(each)
                    return
                wish, self.last_said = None, getattr(said, "msg", str(said))
                if isinstance(said, BackendAnswer):
                    wish = said.min_retry_delay
                if not isinstance(said, BackendAnswer) or said.status is Status.FAIL:
                    failures.append(self.last_said)
                await self._clock.sleep(wish or PAUSE)

        await asyncio.gather(*map(turn, of))
        return Outcome(self._clock.monotonic() - began, each, failures)

    async def _attempt(
        self, operation: Operation, member: Member
    ) -> BackendAnswer | DriverError:
        """Call once, together with others where the driver takes them so."""
        try:
            if not self._batches.takes(self._driver, operation, member.record):
                return await self._alone(operation, member)
            answer = await self._in_batch(operation, member)
        except DriverError as error:
            return error
        if answer.retry_singly:
            return await self._alone(operation, member)
        return answer

    async def _alone(self, operation: Operation, member: Member) -> BackendAnswer:
        where = ObjectKey("web", "front")
        async with self._pool.slot(self._driver, where):
            answer = await self._pool.call(
                self._driver,
                operation,
                self._request(operation, member),
                timeout=self._driver.timeout(operation),
            )
        if answer.status is not Status.FAIL:
            self._batches.answered(member.record)
        return answer

    async def _in_batch(self, operation: Operation, member: Member) -> BackendResult:
        async def permit() -> Permitted:
            now = self._clock.monotonic()
            until = now + self._driver.window(operation).total_seconds()
            return Permitted(self._request(operation, member), until, now + 2)

        lane = Lane(
            self._driver.meta.key,
            operation,
            ObjectKey("web", "front"),
            frozenset(self._lb_info.items()),
            "web",
        )
        item = Item(member.record, self._driver, permit)
        answer = await self._batches.send(lane, item)
        assert answer is not None
        return answer

    def _request(self, operation: Operation, member: Member) -> Request:
        said = {
            "record_id": member.record,
            "retry_id": self._clock.new_id(),
            "lb_info": self._lb_info,
            "backend_addr": member.address,
            "parameters": dict(member.parameters),
        }
        match operation:
            case Operation.ENSURE_BACKEND:
                return requests.EnsureBackendRequest(**said)  # type: ignore[arg-type]
            case Operation.DRAIN_BACKEND:
                return requests.DrainBackendRequest(**said, drain=_DRAIN)  # type: ignore[arg-type]
            case _:
                return requests.DeregisterBackendRequest(**said, drained=True)  # type: ignore[arg-type]


async def followed(
    caller: Caller,
    operation: Operation,
    of: Sequence[Member],
    every: float = 10,
    patience: float = 60,
) -> Outcome:
    """Have an operation done with all, and print how far it is.

    Args:
        caller: calls.
        operation: on one member.
        of: the members.
        every: seconds between two words.
        patience: seconds in which a member is to get through.

    Raises:
        NoProgressError: none did.
    """
    going = asyncio.create_task(caller.all(operation, of))
    seconds, through, since = 0.0, 0, 0.0
    while not (await asyncio.wait({going}, timeout=every))[0]:
        seconds += every
        if caller.through > through:
            through, since = caller.through, seconds
        print(f"  {operation}: {through} of {len(of)} after {seconds:g} s", flush=True)
        if seconds - since >= patience:
            going.cancel()
            await asyncio.wait({going})
            raise NoProgressError(
                f"{operation} gets nowhere: {through} of {len(of)} members are through, "
                f"none for {patience:g} s; said last: {caller.last_said}"
            )
    return going.result()
