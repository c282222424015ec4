"""Lists of objects of any size: how much of them is in memory at a time."""

import asyncio
import gc
import tracemalloc
import weakref

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta

import attrs
import msgspec
import pytest

from aiohttp import web

from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import Connection
from lbcf.kube.errors import AnswerTooLarge
from lbcf.kube.informer import Informer, Pacing
from lbcf.kube.kinds import Resource
from lbcf.kube.reader import PAGE_BYTES
from lbcf.kube.requests import ApiRequest
from tests.fakes.loop import run_virtual
from tests.kube.builders import (
    THINGS,
    PromptClock,
    Thing,
    a_thing,
    parse_thing,
    thing_json,
    things,
)
from tests.kube.scripted import ScriptedServer, answer
from tests.kube.tiny_api import TinyApi


PATH = "/apis/lbcf.test/v1/things"


@attrs.define
class Warehouse:
    """Serves a list by pages of as many objects as are asked for, never holding one.

    Attributes:
        sizes: bytes of each object's text.
        asked: the limits, as they came in.
    """

    sizes: list[int]
    asked: list[int] = attrs.Factory(list)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Send a page, a piece at a time."""
        limit, begin = (
            int(request.query["limit"]),
            int(request.query.get("continue", "0")),
        )
        self.asked.append(limit)
        end = min(begin + limit, len(self.sizes))
        rest = str(end) if end < len(self.sizes) else ""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        head = {"resourceVersion": "9", "continue": rest}
        await response.write(b'{"metadata":' + msgspec.json.encode(head))
        await response.write(b',"items":[')
        for number in range(begin, end):
            item = msgspec.json.encode(thing_json(f"t{number}", 1, "x"))
            front, back = item.split(b'"x"')
            await response.write((b"," if number > begin else b"") + front + b'"')
            await self._write_text(response, self.sizes[number])
            await response.write(b'"' + back)
        await response.write(b"]}")
        return response

    @staticmethod
    async def _write_text(response: web.StreamResponse, size: int) -> None:
        """Send so many letters."""
        for sent in range(0, size, 2**14):
            await response.write(b"x" * min(2**14, size - sent))


@asynccontextmanager
async def a_client(warehouse: Warehouse) -> AsyncIterator[KubeClient]:
    """Run a warehouse on a real socket, and give a client of it."""
    app = web.Application()
    app.router.add_get(PATH, warehouse.serve)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with connected(
            Connection(f"http://{host}:{port}"), PromptClock()
        ) as client:
            yield client
    finally:
        await runner.cleanup()


def _parse_name(body: bytes) -> Thing:
    """Read a thing without its text, as caches leave out what decides nothing."""
    return attrs.evolve(parse_thing(body), text="")


NAMES = attrs.evolve(THINGS, parse=_parse_name)


async def test_large_objects_come_in_small_pages() -> None:
    """A list of 120 MiB takes as much memory as its largest pages, and all of it comes."""
    warehouse = Warehouse([2**20] * 120)
    async with a_client(warehouse) as client:
        gc.collect()
        tracemalloc.start()
        try:
            found = [
                thing async for p in client.list_pages(NAMES) for thing in p.objects
            ]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert [f"t{number}" for number in range(120)] == [t.meta.key.name for t in found]
    assert peak < 4 * PAGE_BYTES


async def test_small_objects_come_in_large_pages() -> None:
    """What fits is asked for as before: 500 at a time."""
    warehouse = Warehouse([1000] * 1200)
    async with a_client(warehouse) as client:
        found = await client.list(NAMES)

    assert 1200 == len(found.objects)
    assert [500, 500, 500] == warehouse.asked


async def test_pages_grow_again_after_large_objects() -> None:
    """One namespace with large objects does not slow the rest of the list for good."""
    warehouse = Warehouse([2**20] * 20 + [100] * 3000)
    async with a_client(warehouse) as client:
        found = await client.list(NAMES)

    assert 3020 == len(found.objects)
    assert 500 == max(warehouse.asked[1:])
    assert len(warehouse.asked) < 25


async def test_an_object_larger_than_a_page() -> None:
    """No server has one; it is an error, and no endless asking."""
    warehouse = Warehouse([PAGE_BYTES + 1])
    async with a_client(warehouse) as client:
        with pytest.raises(AnswerTooLarge, match=f"more than {PAGE_BYTES} bytes"):
            await client.list(NAMES)

    assert [500, 62, 7, 1] == warehouse.asked


class SlowApi(TinyApi):
    """Takes a second for each answer.

    Attributes:
        most: how many requests were under way at a time.
        under_way: how many are.
    """

    def __init__(self) -> None:
        super().__init__()
        self.most = 0
        self.under_way = 0

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Answer late."""
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(1)
        self.under_way -= 1
        return await super().send(request, within)


def test_four_pages_are_read_at_a_time() -> None:
    """A process that begins lists many kinds; their pages take turns."""

    async def story() -> tuple[int, int]:
        api = SlowApi()
        client = KubeClient(api)
        await asyncio.gather(*(client.list(THINGS) for _ in range(12)))
        return api.most, len(api.requests)

    assert (4, 12) == run_virtual(story())


class SlowPages(SlowApi):
    """Has a list of three things, a page for each; takes a second for each page."""

    def perform(self, request: ApiRequest, *, at: int | None = None) -> bytes:
        """Answer with one thing."""
        _ = at
        number = int(request.query.get("continue", "0"))
        rest = str(number + 1) if number < 2 else ""
        page = things(thing_json(f"t{number}", 1), version=5, rest=rest)
        return msgspec.json.encode(page)


def test_the_next_page_comes_while_one_is_read() -> None:
    """Else a start would wait for the server as often as there are pages."""

    async def story() -> list[int]:
        api, sent = SlowPages(), []

        def parse(body: bytes) -> Thing:
            # While a page is read, the loop stands still: what is not sent by now comes late.
            sent.append(api.under_way)
            return parse_thing(body)

        await KubeClient(api).list(attrs.evolve(THINGS, parse=parse))
        return sent

    assert [1, 1, 0] == run_virtual(story())


def test_a_page_that_nobody_wants_any_more_is_asked_for_no_longer() -> None:
    """A list that is given up leaves nothing behind."""

    async def story() -> int:
        async with aclosing(KubeClient(SlowPages()).list_pages(THINGS)) as pages:
            await anext(pages)
            assert 2 == len(asyncio.all_tasks())
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert 1 == run_virtual(story())


async def test_a_second_list_makes_no_second_copy(
    client: KubeClient, server: ScriptedServer
) -> None:
    """While a list is gathered anew, what has not changed is held once, but for pages."""
    living: weakref.WeakValueDictionary[int, Thing] = weakref.WeakValueDictionary()
    counts: list[int] = []

    def parse(body: bytes) -> Thing:
        thing = parse_thing(body)
        living[len(counts)] = thing
        counts.append(len(living))
        return thing

    counted: Resource[Thing] = attrs.evolve(THINGS, parse=parse)
    informer = Informer(client, counted, PromptClock(), pacing=Pacing(page_size=10))
    pages = [
        answer(things(*(thing_json(f"t{n}", 1) for n in some), version=5, rest=rest))
        for some, rest in ((range(10), "a"), (range(10, 20), "b"), (range(20, 30), ""))
    ]
    gone = answer({"kind": "Status", "code": 410, "reason": "Expired"}, 410)
    server.script(*pages, gone, *pages)
    task = asyncio.create_task(informer.run())
    await server.done.wait()
    task.cancel()

    assert a_thing("t29", 1) == informer.store.get(a_thing("t29", 1).meta.key)
    assert 60 == len(counts)
    assert max(counts) <= 30 + 2 * 10
