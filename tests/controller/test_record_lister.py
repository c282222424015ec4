"""Records are listed once for all who ask before the list begins."""

import asyncio

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from lbcf.controller.record_lister import Listed, RecordLister
from lbcf.controller.view import View
from lbcf.core.model.names import SYSTEM_NAMESPACE
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import RECORDS
from lbcf.kube.requests import ApiRequest
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import TinyApi


PAGE = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
TAKES = 1.0
"""Seconds of a list."""


class SlowServer:
    """Answers each list after a while; notes what was asked, and when."""

    def __init__(self) -> None:
        self.lists: list[tuple[float, str]] = []
        self.most = self._now = 0

    async def send(
        self,
        request: ApiRequest,
        within: timedelta | None = None,  # noqa: ARG002 - it answers in time
    ) -> bytes:
        """Answer."""
        self.lists.append((asyncio.get_running_loop().time(), request.path))
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(TAKES)
        self._now -= 1
        return PAGE

    def stream(
        self, request: ApiRequest, silence: timedelta
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Fail the test."""
        raise AssertionError(f"{request} {silence}")


def front(number: int, namespace: str = "shop") -> ObjectKey:
    """Name a load balancer."""
    return ObjectKey(namespace, f"front-{number}")


def test_sixty_at_once_share_two_lists() -> None:
    """One is under way when the others ask: they may not trust what it has read."""
    server = SlowServer()
    lists = RecordLister(KubeClient(server), View().observe_record)

    async def play() -> list[Listed]:
        asked = [asyncio.create_task(lists.since_now(front(0)))]
        await asyncio.sleep(0.1)
        asked += [asyncio.create_task(lists.since_now(front(n))) for n in range(1, 60)]
        return await asyncio.gather(*asked)

    assert [Listed({}, ())] * 60 == run_virtual(play())
    assert [0.0, TAKES] == [moment for moment, _ in server.lists]
    assert server.most == 1


def test_only_what_may_be_concerned_is_listed() -> None:
    """The namespaces of those who ask, one by one; all where all may use one of them."""
    server = SlowServer()
    lists = RecordLister(KubeClient(server), View().observe_record)

    async def ask(*keys: ObjectKey) -> list[str]:
        before = len(server.lists)
        await asyncio.gather(*map(lists.since_now, keys))
        paths = [path.partition("/v1beta1")[2] for _, path in server.lists[before:]]
        return [path.removesuffix("/backendrecords") for path in paths]

    async def play() -> None:
        assert ["/namespaces/shop"] == await ask(front(1), front(2))
        both = await ask(front(1), front(1, "bank"))
        assert ["/namespaces/bank", "/namespaces/shop"] == both
        assert [""] == await ask(front(1), front(1, SYSTEM_NAMESPACE))

    run_virtual(play())


def test_what_nobody_asked_about_is_not_kept() -> None:
    """The list may be of all namespaces, and no watch would tell of the end of those."""
    api, view = TinyApi(), View()
    for number in (1, 2):
        name = front(number).name
        spec = {"lbName": name, "lbDriver": "d", "lbInfo": {}, "staticAddr": "a:1"}
        key = ObjectKey("shop", f"r-{number}")
        api.put(RECORDS.path(key), {"metadata": {"generation": 1}, "spec": spec})
    odd = ObjectKey("shop", "odd")
    api.put(RECORDS.path(odd), {"metadata": {"generation": 1}, "spec": {"lbName": 7}})
    lists = RecordLister(KubeClient(api), view.observe_record)

    listed = run_virtual(lists.since_now(front(1)))

    assert Listed({front(1): 1}, (odd,)) == listed
    assert ["r-1"] == [record.meta.key.name for record in view.records.values()]
