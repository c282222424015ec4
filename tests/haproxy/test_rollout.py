"""A rollout of fifty members with slow requests: nothing is cut before its time."""

import asyncio
import contextlib
import csv

from collections.abc import AsyncIterator

import attrs
import pytest

from aiohttp import ClientSession, TCPConnector

from lbcf.sdk import DeregisterBackendRequest, Running, Succ
from tests.haproxy.conftest import StartServer
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import a_deregister, a_drain, an_ensure, an_identity
from tests.haproxy.waiting import until
from tests.haproxy.web import WebServer, ask
from webhooks.haproxy.driver import HaproxyDriver


pytestmark = pytest.mark.haproxy

MEMBERS = range(50)
NEVER_END = range(5)
"""Members with a request that is in progress until the drain's deadline."""
AT_ONCE = 8

LIFE = ["no check", "DRAIN", "MAINT", "gone"]
"""How HAProxy's statistics call a member, from its first moment in service on."""


@attrs.define(eq=False)
class Watcher:
    """Somebody who reads the statistics all the time, as any monitor does.

    Attributes:
        proxy: of whom.
        seen: what each member was, without repetitions.
    """

    proxy: Haproxy
    seen: dict[str, list[str]] = attrs.field(factory=dict)

    async def look(self) -> None:
        """Take in what all members are now; what is not told is gone."""
        text = await self.proxy.read("show stat -1 4 -1")
        rows = csv.DictReader(text.removeprefix("# ").splitlines())
        states = {
            row["svname"]: row["status"] for row in rows if row["pxname"] == "web"
        }
        for number in MEMBERS:
            history = self.seen.setdefault(f"old-{number}", [])
            state = states.get(f"lbcf-old-{number}", "gone")
            if history[-1:] != [state]:
                history.append(state)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Look again and again until the block ends, and once more."""

        async def watch() -> None:
            while True:
                await self.look()
                await asyncio.sleep(0.02)

        await self.look()
        task = asyncio.create_task(watch())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.look()


@attrs.define(eq=False)
class Rollout:
    """Fifty members go, as the deregistrar lets them; fifty others come.

    Attributes:
        calm: is set when all requests have ended that ever do.
    """

    driver: HaproxyDriver
    lb_info: dict[str, str]
    servers: list[WebServer]
    watcher: Watcher
    calm: asyncio.Event = attrs.field(factory=asyncio.Event)
    _room: asyncio.Semaphore = attrs.field(
        factory=lambda: asyncio.Semaphore(AT_ONCE), init=False
    )

    async def begin(self, record: str, address: str) -> None:
        """Ensure a member."""
        async with self._room:
            await self.driver.ensure_backend(an_ensure(self.lb_info, address, record))

    async def end(self, number: int) -> None:
        """Drain a member until it is empty or out of time, and deregister it."""
        record, drained = f"old-{number}", False
        while not drained and not (number in NEVER_END and self.calm.is_set()):
            async with self._room:
                request = a_drain(self.lb_info, record)
                answer = await self.driver.drain_backend(request)
            drained = not isinstance(answer, Running)
            await asyncio.sleep(0.05)
        last = a_deregister(self.lb_info, record, drained=drained)
        await until(lambda: self._is_gone(last))

    async def _is_gone(self, request: DeregisterBackendRequest) -> bool:
        """Ask once for a deregistration."""
        async with self._room:
            return isinstance(await self.driver.deregister_backend(request), Succ)

    async def leave(self) -> None:
        """End requests of members that drain, one after the other, but for some."""
        for number in set(MEMBERS) - set(NEVER_END):
            await until(lambda: self._is_seen(f"old-{number}", "DRAIN"))  # noqa: B023
            self.servers[number].release()
        self.calm.set()

    async def _is_seen(self, member: str, state: str) -> bool:
        """Tell whether a member was seen in this state."""
        return state in self.watcher.seen.get(member, [])

    async def connect(self, people: ClientSession, url: str) -> list[asyncio.Task[str]]:
        """Send slow requests until each member has one in progress."""
        held: list[asyncio.Task[str]] = []

        async def all_are_held() -> bool:
            return sum(server.waiting for server in self.servers) == len(held)

        while not all(server.waiting for server in self.servers):
            held += [asyncio.create_task(ask(people, url)) for _ in MEMBERS]
            await until(all_are_held)
        return held


async def test_every_request_ends_or_has_its_deadline(
    driver: HaproxyDriver, proxy: Haproxy, start_server: StartServer
) -> None:
    """Each member drains, is empty or out of time, rests, and is gone; in this order.

    Fifty others have come meanwhile, and all new requests go to them.
    """
    servers = [await start_server(f"old-{number}") for number in MEMBERS]
    new, watcher = await start_server("new"), Watcher(proxy)
    rollout = Rollout(driver, an_identity(proxy), servers, watcher)
    await asyncio.gather(*(rollout.begin(one.name, one.address) for one in servers))

    async with ClientSession(connector=TCPConnector(limit=0)) as people:
        held = await rollout.connect(people, f"{proxy.url}/slow")
        stuck = sum(servers[number].waiting for number in NEVER_END)
        async with watcher.watching():
            await asyncio.gather(
                *(rollout.begin(f"new-{n}", new.address) for n in MEMBERS)
            )
            await asyncio.gather(rollout.leave(), *map(rollout.end, MEMBERS))
        after = {await ask(people, proxy.url) for _ in MEMBERS}
        answers = await asyncio.gather(*held)

    finished = {answer for answer in answers if answer.startswith("old")}
    assert {one.name for one in servers[len(NEVER_END) :]} == finished
    assert stuck == len([one for one in answers if not one.startswith("old")])
    for history in watcher.seen.values():
        assert ["no check", "DRAIN"] == history[:2]
        assert [state for state in LIFE if state in history] == history
        assert "gone" == history[-1]
    assert {"new"} == after
    assert sorted(f"lbcf-new-{n}" for n in MEMBERS) == await proxy.ours()
