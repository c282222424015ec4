"""EndpointSlices are read of the namespaces whose Services need it, each by one watch."""

import asyncio

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import attrs
import pytest

from lbcf.controller.endpoint_slices import EndpointSliceCache, EndpointSliceInformers
from lbcf.core.model.nodes import SERVICE_LABEL, LocalState
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import ENDPOINT_SLICES
from tests.builders import NAMESPACE, a_key
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import Fault, TinyApi
from tests.kube.tiny_rules import Json


MANY = 150
READY, UNREADY = LocalState.READY, LocalState.UNREADY
LISTED = "GET " + ENDPOINT_SLICES.collection(NAMESPACE)


@attrs.define
class Stage:
    """An API server whose EndpointSlices are followed for Services that are `wanted`."""

    api: TinyApi = attrs.Factory(TinyApi)
    book: EndpointSliceCache = attrs.Factory(EndpointSliceCache)
    wanted: set[ObjectKey] = attrs.Factory(set)
    changed: list[ObjectKey] = attrs.Factory(list)
    client: KubeClient = attrs.field(init=False)
    informers: EndpointSliceInformers = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.client = KubeClient(self.api)
        self.informers = EndpointSliceInformers(
            self.client,
            VirtualClock(),
            self.book,
            self.wanted.__contains__,
            self.changed.append,
        )

    def want(self, *services: str) -> None:
        """Have groups name Services."""
        for name in services:
            self.wanted.add(a_key(name))
            self.informers.consider(a_key(name))

    def leave(self, *services: str) -> None:
        """Have no group name Services any more."""
        for name in services:
            self.wanted.discard(a_key(name))
            self.informers.consider(a_key(name))

    async def serve(self, service: str, **ready: bool) -> None:
        """Create the endpoints of a Service, by node."""
        labels = {SERVICE_LABEL: service}
        body: Json = {
            "metadata": {"name": f"{service}-1", "labels": labels},
            **_endpoints(**ready),
        }
        await self.client.create(ENDPOINT_SLICES, NAMESPACE, body)

    async def change(self, service: str, **ready: bool) -> None:
        """Change the endpoints of a Service."""
        key = a_key(f"{service}-1")
        await self.client.patch(ENDPOINT_SLICES, key, _endpoints(**ready))

    def states(self, service: str) -> dict[str, LocalState] | None:
        """Return what is known of a Service's nodes."""
        found = self.book.states(a_key(service), "")
        return None if found is None else dict(found)

    async def told(self) -> set[str]:
        """Let watches tell; return the Services that have changed since."""
        await asyncio.sleep(5)
        told = {service.name for service in self.changed}
        self.changed.clear()
        return told


def _endpoints(**ready: bool) -> Json:
    endpoints: list[object] = [
        {"nodeName": node, "conditions": {"ready": is_ready}}
        for node, is_ready in ready.items()
    ]
    return {"ports": [{"name": "", "port": 8080}], "endpoints": endpoints}


@asynccontextmanager
async def following() -> AsyncIterator[Stage]:
    """Give a stage whose informers run."""
    stage = Stage()
    running = asyncio.create_task(stage.informers.run())
    try:
        yield stage
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _names() -> Iterator[str]:
    return (f"web-{number}" for number in range(MANY))


def test_a_namespace_has_one_watch_however_many_services_it_has() -> None:
    """Each holds a connection: nobody takes them by making Services."""

    async def play() -> None:
        async with following() as stage:
            await stage.serve("web-7", n1=True)
            stage.want(*_names())
            assert {*_names()} == await stage.told()
            assert {"n1": READY} == stage.states("web-7")
            assert {} == stage.states("web-8")
            # The list and the watch.
            assert 2 == stage.api.requests.count(LISTED)

            stage.leave(*_names())
            await stage.told()
            assert stage.states("web-7") is None

    run_virtual(play())


def test_changes_are_told_of_services_that_are_wanted() -> None:
    """Others in their namespace cost nobody a look; wanted later, they are read already."""

    async def play() -> None:
        async with following() as stage:
            await stage.serve("web", n1=True)
            await stage.serve("other", n2=True)
            stage.want("web")
            assert {"web"} == await stage.told()

            await stage.change("web", n1=False)
            await stage.change("other", n2=False)
            assert {"web"} == await stage.told()
            assert {"n1": UNREADY} == stage.states("web")

            stage.want("other")
            await stage.told()
            assert {"n2": UNREADY} == stage.states("other")
            await stage.change("other", n2=True)
            assert {"other"} == await stage.told()

            stage.leave("web")
            await stage.change("web", n1=True)
            assert set() == await stage.told()
            assert {"n2": READY} == stage.states("other")

    run_virtual(play())


def test_slice_that_is_given_to_another_service_is_told_of_both() -> None:
    """The one has lost what the other has got."""

    async def play() -> None:
        async with following() as stage:
            await stage.serve("web", n1=True)
            stage.want("web", "other")
            await stage.told()

            label = {"metadata": {"labels": {SERVICE_LABEL: "other"}}}
            await stage.client.patch(ENDPOINT_SLICES, a_key("web-1"), label)
            assert {"other", "web"} == await stage.told()
            assert {} == stage.states("web")
            assert {"n1": READY} == stage.states("other")

    run_virtual(play())


def test_slice_that_cannot_be_understood_holds_its_namespace() -> None:
    """Whose it is nobody knows: all Services there are looked at again."""

    async def play() -> None:
        async with following() as stage:
            await stage.serve("web", n1=True)
            stage.want("web", "other")
            await stage.told()

            body: Json = {"endpoints": [{"nodeName": 7}]}
            broken = stage.client.patch(ENDPOINT_SLICES, a_key("web-1"), body)
            await asyncio.gather(broken, return_exceptions=True)
            assert {"other", "web"} == await stage.told()
            for name in ("other", "web"):
                assert str(stage.book.unreadable(a_key(name))).startswith(
                    f"EndpointSlice {a_key('web-1')}: "
                )

    run_virtual(play())


def test_informer_goes_on_after_a_cut_that_nobody_asked_for() -> None:
    """Otherwise a namespace's endpoints would stay as they were, and no probe would tell."""

    async def play() -> None:
        async with following() as stage:
            await stage.serve("web", n1=True)
            stage.api.fault = Fault.CUT
            stage.want("web")
            await asyncio.sleep(2)
            stage.api.fault = None

            assert {"web"} == await stage.told()
            assert {"n1": READY} == stage.states("web")

    run_virtual(play())


def test_namespace_that_is_followed_no_more_ends_the_round() -> None:
    """A defect ends what follows it; nobody would look at it again."""

    def breaks(_service: ObjectKey) -> None:
        raise ZeroDivisionError

    async def play() -> None:
        stage = Stage()
        stage.informers = EndpointSliceInformers(
            stage.client,
            VirtualClock(),
            stage.book,
            stage.wanted.__contains__,
            breaks,
        )
        stage.want("web")
        async with asyncio.timeout(60):
            with pytest.raises(ExceptionGroup) as raised:
                await stage.informers.run()
        assert raised.group_contains(ZeroDivisionError)

    run_virtual(play())
