"""`drains`, once and with `-w`."""

import asyncio

from typing import Any

import pytest

from lbcf.ctl.drains import drains_report, follow_drains
from lbcf.ctl.reading import Reading
from lbcf.kube.client import KubeClient
from lbcf.runtime.clock import SystemClock
from tests.builders import NAMESPACE, a_key, a_record
from tests.controller.views import obscure
from tests.ctl.readings import NOW, a_draining_record, a_reading, text_of
from tests.ctl.servers import Guarded
from tests.kube.tiny_api import TinyApi


def test_drains_end_first_stand_first() -> None:
    """Those without a deadline come last; who lives is not among them."""
    reading = a_reading(
        a_record("a", deleting=True),
        a_record("b", registered=True),
        a_draining_record(),
    )
    found = drains_report(reading, NOW).drains

    assert ["web-1", "a"] == [one.record for one in found]
    assert [4, None] == [one.connections for one in found]
    assert "web-1:8080 front 10.0.0.1:8080 1m in 30s 4 connections to end" == " ".join(
        text_of(drains_report(reading, NOW)).splitlines()[1].split()
    )


def test_no_drains_are_told_in_a_line() -> None:
    """Nothing is also an answer."""
    assert "nothing is on its way out\n" == text_of(drains_report(a_reading(), NOW))


def test_record_that_cannot_be_understood_is_named() -> None:
    """It may be on its way out."""
    reading = a_reading()
    obscure(reading.view.records, a_key("odd"))

    shown = text_of(drains_report(reading, NOW))

    assert "nothing that could be read is on its way out" in shown
    assert "not read: br/odd in namespace shop cannot be understood: " in shown


async def test_drains_that_are_no_longer_told_of_are_said_to_be_so() -> None:
    """Somebody may list records and not watch them: what is shown gets old."""
    words = 'User "t" cannot watch resource'
    client = KubeClient(
        Guarded(
            TinyApi(), lambda _, path: (403, words) if path.endswith("?watch") else None
        )
    )
    shown: asyncio.Queue[Any] = asyncio.Queue()
    reading = Reading(client, NAMESPACE)
    watching = asyncio.create_task(
        follow_drains(reading, SystemClock(), shown.put_nowait, ticks=False)
    )
    try:
        async with asyncio.timeout(60):
            while not (told := (await shown.get()).unread):
                pass
    finally:
        watching.cancel()
        await asyncio.wait([watching])

    assert ("may not watch backendrecords.lbcf.tkestack.io in namespace shop",) == told


async def test_end_of_a_pipe_ends_the_watch() -> None:
    """As it ends every other command, and not as a fault of ours."""

    def nobody_reads(_report: object) -> None:
        """Fail as a pipe does that nobody reads."""
        raise BrokenPipeError

    reading = Reading(KubeClient(TinyApi()), NAMESPACE)
    with pytest.raises(BrokenPipeError):
        await follow_drains(reading, SystemClock(), nobody_reads, ticks=False)
