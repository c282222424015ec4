"""`status -w`: a report for each change, none while nothing happens."""

import asyncio

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

from lbcf.ctl.reading import Reading
from lbcf.ctl.status import StatusReport, status_report
from lbcf.ctl.watching import follow_status
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Unavailable
from lbcf.kube.kinds import GROUPS
from lbcf.runtime.clock import SystemClock
from tests.builders import NAMESPACE
from tests.ctl.servers import put
from tests.e2e import objects
from tests.kube.tiny_api import TinyApi


Shown = asyncio.Queue[StatusReport]


@asynccontextmanager
async def following(
    api: TinyApi, shown: Shown, *, ticks: bool = False, fails: bool = False
) -> AsyncIterator[None]:
    """Follow the status; each report after the first cannot be read, if `fails`."""
    clock, client = SystemClock(), KubeClient(api)
    looked = 0

    async def look() -> StatusReport:
        """Read everything."""
        nonlocal looked
        looked += 1
        if fails and looked > 1:
            raise Unavailable("nobody listens", sent=False)
        reading = Reading(client, NAMESPACE)
        await reading.read_resources()
        return status_report(reading, (), clock.now())

    def show(report: object) -> None:
        """Keep it."""
        assert isinstance(report, StatusReport)
        shown.put_nowait(report)

    reading = Reading(client, NAMESPACE)
    task = asyncio.create_task(follow_status(reading, look, clock, show, ticks=ticks))
    try:
        async with asyncio.timeout(60):
            yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_each_change_is_shown_and_nothing_else() -> None:
    """A pipe gets lines that differ; the moment alone is no difference."""
    api, shown = TinyApi(), Shown()
    async with following(api, shown):
        assert () == (await shown.get()).groups
        put(api, GROUPS, objects.a_group())
        first = await shown.get()
        put(api, GROUPS, objects.a_group("other"))
        second = await shown.get()

    assert ["bg/web"] == [row.name for row in first.groups]
    assert ["bg/other", "bg/web"] == [row.name for row in second.groups]
    assert shown.empty()


async def test_terminal_is_redrawn_while_times_are_counted() -> None:
    """What is shown again is the same but for its moment, and nothing is read for it."""
    api, shown = TinyApi(), Shown()
    async with following(api, shown, ticks=True):
        reports = [await shown.get() for _ in range(3)]

    first, *others = reports
    assert all(one.at > first.at for one in others)
    assert all(attrs.evolve(one, at=first.at) == first for one in others)


async def test_what_cannot_be_asked_for_now_is_said() -> None:
    """What was known stays on the screen."""
    api, shown = TinyApi(), Shown()
    put(api, GROUPS, objects.a_group())
    async with following(api, shown, fails=True):
        before = await shown.get()
        after = await shown.get()

    assert before.groups == after.groups
    assert ("changes, for now: nobody listens",) == after.unread
