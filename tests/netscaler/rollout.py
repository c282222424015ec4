"""A rollout: fifty members with slow connections go, fifty others come.

`test_rollout` looks at what the appliance wrote down; a client of other people watches
the same rollout in `tests.interop`.
"""

import asyncio
import contextlib

from collections.abc import Iterable, Sequence
from datetime import timedelta

import attrs

from lbcf.sdk import Drain, DrainBackendRequest, RetryAfter, Running, Succ
from tests.netscaler.appliances import GROUP, Site, SteppedClock
from tests.netscaler.configuration import MemberKey
from tests.netscaler.requests import an_ensure, until_done
from tests.netscaler.traffic import Connection
from tests.webhooks.requests import a_deregister
from tests.webhooks.witness import Stage, Witness
from webhooks.netscaler.driver import NetscalerDriver


MEMBERS = 50

DEADLINE = timedelta(seconds=30)
"""From the beginning of a drain."""

QUICK, SLOW = 10.0, 3600.0
"""Seconds that connections take to end by themselves: before the deadline, or after."""


def addresses(network: int) -> Sequence[str]:
    """Return the addresses of all members of one version."""
    return [f"198.18.{network}.{last}:8080" for last in range(1, MEMBERS + 1)]


OLD, NEW = addresses(1), addresses(2)


def key_of(address: str) -> MemberKey:
    """Return what the appliance knows a member by."""
    host, _, port = address.rpartition(":")
    return (GROUP, f"lbcf-{host}", int(port))


def record_of(address: str) -> str:
    """Return the record of a member."""
    return f"of-{address.removesuffix(':8080').replace('.', '-')}"


@attrs.define(eq=False)
class Rollout:
    """A rollout on an appliance.

    Attributes:
        driver: does it.
        site: where.
        clock: of driver and appliance.
        witness: has to have seen each stage.
        made: the connection that each old member had.
        begun: the first answer for the drain of each old member.
        idle: old members whose drain ended before the deadline.
    """

    driver: NetscalerDriver
    site: Site
    clock: SteppedClock
    witness: Witness
    made: dict[str, Connection] = attrs.field(factory=dict)
    begun: list[Succ | Running] = attrs.field(factory=list)
    idle: list[str] = attrs.field(factory=list)

    @property
    def late(self) -> list[str]:
        """Old members that had a connection until the deadline."""
        return [one for one in OLD if one not in self.idle]

    async def run(self) -> None:
        """Have the old members come, and go while the new ones come."""
        await asyncio.gather(*map(self._ensured, OLD))
        await self._seen(OLD, Stage.SERVING)
        for number, one in enumerate(OLD):
            seconds = QUICK if number % 3 else SLOW
            self.made[one] = self.site.unit.traffic.open(key_of(one), seconds)
        slots = asyncio.Semaphore(self.driver.max_concurrent_calls)
        started = self.clock.now()
        drain = Drain(started_at=started, deadline=started + DEADLINE)

        async def drained(address: str) -> Succ | Running:
            """Ask how far a drain is, in the room that the driver's manifest leaves."""
            return await self._drained(address, drain, slots)

        coming = asyncio.gather(*map(self._ensured, NEW))
        self.begun += await asyncio.gather(*map(drained, OLD))
        await coming
        await self._seen(OLD, Stage.DRAINING)
        self.clock.advance(QUICK)
        answers = await asyncio.gather(*map(drained, OLD))
        going = zip(OLD, answers, strict=True)
        self.idle += [one for one, answer in going if isinstance(answer, Succ)]
        await self._leave(self.idle, drained=True)
        self.clock.advance(DEADLINE.total_seconds() - QUICK)
        await self._leave(self.late, drained=False)

    async def _seen(self, members: Iterable[str], stage: Stage) -> None:
        """Wait until the witness has seen all of them so."""
        for one in members:
            await self.witness.until(one, stage)

    async def _ensured(self, address: str) -> None:
        """Ensure a member."""
        request = an_ensure(self.site.lb_info, address, record_of(address))
        await until_done(lambda: self.driver.ensure_backend(request))

    async def _drained(
        self, address: str, drain: Drain, slots: asyncio.Semaphore
    ) -> Succ | Running:
        """Ask how far the drain of a member is, again where it took too long."""
        request = DrainBackendRequest(
            record_id=record_of(address),
            lb_info=self.site.lb_info,
            backend_addr=address,
            drain=drain,
        )
        while True:
            with contextlib.suppress(RetryAfter):
                async with slots:
                    return await self.driver.drain_backend(request)

    async def _leave(self, members: Sequence[str], *, drained: bool) -> None:
        """Deregister members, of which nothing is left by now."""
        await self._seen(members, Stage.IDLE)
        await asyncio.gather(*(self._taken_out(one, drained) for one in members))
        await self._seen(members, Stage.GONE)

    async def _taken_out(self, address: str, drained: bool) -> None:
        """Deregister a member."""
        record = record_of(address)
        request = a_deregister(self.site.lb_info, address, record, drained=drained)
        await until_done(lambda: self.driver.deregister_backend(request))
