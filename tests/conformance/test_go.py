"""A driver in Go, written from docs/protocol.md alone: the protocol needs no SDK."""

import asyncio
import signal

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import aiohttp
import attrs
import pytest

from lbcf import sdk
from lbcf.conformance.concurrency import GAP
from lbcf.conformance.findings import Outcome
from lbcf.conformance.kit import examine
from lbcf.conformance.report import lines_of
from lbcf.conformance.target import OPTIONAL, Target
from tests.lab.cluster.binaries import run_go
from tests.lab.cluster.ports import free_ports


SOURCE = Path(__file__).with_name("driver.go")
LEFT_OUT = {
    "valid-load-balancer",
    "valid-backend",
    "lock-key-is-steady",
    "judged-pods-were-asked-for",
    "both-spellings",
}
"""Rules on what drivers need not serve, or answer."""


class Unhurried(sdk.SystemClock):
    """Leaves a second between calls whose order counts.

    A process that is off the processor meanwhile finds both at once, and cannot tell which
    came first.
    """

    async def sleep(self, delay: timedelta) -> None:
        """Sleep; for longer between two such calls."""
        await super().sleep(timedelta(seconds=1) if delay == GAP else delay)


@attrs.define
class GoDriver:
    """The program, on a port that stays the same.

    Attributes:
        program: as it was built.
        address: where it listens.
        child: its process; None: it was not started.
    """

    program: Path
    address: str
    child: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        where = ("--bind-address", self.address)
        self.child = await asyncio.create_subprocess_exec(self.program, *where)
        async with aiohttp.ClientSession() as session:
            while not await self._answers(session):
                assert self.child.returncode is None, "the driver has ended"
                await asyncio.sleep(0.05)

    async def kill(self) -> None:
        """End it as a crash does."""
        assert self.child is not None
        self.child.send_signal(signal.SIGKILL)
        await self.child.wait()

    async def restart(self) -> None:
        """Have it lose all that it knows."""
        await self.kill()
        await self.start()

    async def connect(self, _address: str, record: str, connections: int) -> None:
        """Give a member so many connections."""
        asked = {"record": record, "count": str(connections)}
        url = f"http://{self.address}/connections"
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, params=asked) as answer,
        ):
            answer.raise_for_status()

    async def _answers(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.post(f"http://{self.address}/healthz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


@pytest.fixture(name="driver")
async def _driver(tmp_path: Path) -> AsyncIterator[GoDriver]:
    """The driver, built and running."""
    program = tmp_path / "driver"
    words = ("build", "-o", str(program), SOURCE.name)
    await asyncio.to_thread(run_go, words, f"of {SOURCE}", folder=SOURCE.parent)
    driver = GoDriver(program, f"127.0.0.1:{free_ports(1)[0]}")
    await driver.start()
    try:
        yield driver
    finally:
        await driver.kill()


async def test_driver_without_the_sdk_keeps_the_protocol(driver: GoDriver) -> None:
    """All rules on what it serves: batches, drains, crashes, and callers that hang up."""
    target = Target(
        url=f"http://{driver.address}",
        lb_spec={"name": "mine"},
        gone={"name": "gone"},
        member_key=sdk.MemberKey.RECORD,
        declared=OPTIONAL,
        restart=driver.restart,
        connect=driver.connect,
    )

    results = await examine(target, Unhurried())

    wrong = {Outcome.FAILED, Outcome.NOTED}
    assert [] == [lines_of(one) for one in results if one.outcome in wrong]
    kept = {one.rule.name for one in results if one.outcome is Outcome.PASSED}
    assert {one.rule.name for one in results} - kept == LEFT_OUT
