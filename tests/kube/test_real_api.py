"""What only a real API server can show: lists, watches, JSON patches, finalizers, users.

The kinds are built-in ones, so that no definitions of ours are needed.
"""

import asyncio

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import msgspec
import pytest

from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import connect
from lbcf.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unavailable,
)
from lbcf.kube.informer import Informer, Pacing
from lbcf.kube.list_watch import Bookmark, Put, Selection, lines_of, parse_event
from lbcf.kube.store import Store
from lbcf.runtime.clock import SystemClock
from lbcf.wire.metadata import MetaOnly
from tests.kube.builders import CONFIG_MAPS, THINGS
from tests.lab.cluster.api import Cluster


pytestmark = pytest.mark.cluster

SILENCE = timedelta(seconds=20)


def named(
    name: str, labels: dict[str, str] | None = None, **more: object
) -> dict[str, object]:
    """Make a ConfigMap."""
    return {"metadata": {"name": name, "labels": labels or {}, **more}}


async def until(
    store: Store[MetaOnly], reached: Callable[[Store[MetaOnly]], bool]
) -> None:
    """Wait for a state of a store; the test's time limit ends it."""
    changed = asyncio.Event()
    store.on_change(lambda _old, _new: changed.set())
    while not reached(store):
        await changed.wait()
        changed.clear()


@asynccontextmanager
async def following(
    client: KubeClient, selection: Selection, page_size: int = 500
) -> AsyncIterator[Store[MetaOnly]]:
    """Follow the ConfigMaps of a selection."""
    informer = Informer(
        client,
        CONFIG_MAPS,
        SystemClock(),
        selection=selection,
        pacing=Pacing(page_size=page_size),
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.synced.wait()
        yield informer.store
        task.cancel()


class TestReading:
    """Lists and watches."""

    async def test_informer_follows_a_selection(
        self, real: KubeClient, namespace: str
    ) -> None:
        """Pages, then events: the store has what the server has."""
        for name in "abc":
            await real.create(CONFIG_MAPS, namespace, named(name, {"app": "web"}))
        selection = Selection(namespace, labels="app=web")
        async with following(real, selection, page_size=2) as store:
            assert 3 == len(store)
            await real.delete(CONFIG_MAPS, ObjectKey(namespace, "a"))
            unlabelled = {"metadata": {"labels": {"app": None}}}
            await real.patch(CONFIG_MAPS, ObjectKey(namespace, "b"), unlabelled)
            await real.create(CONFIG_MAPS, namespace, named("d", {"app": "web"}))
            last = ObjectKey(namespace, "d")
            await until(store, lambda held: held.get(last) is not None)

            assert {"c", "d"} == {value.meta.key.name for value in store.values()}

    async def test_own_write_is_seen_before_the_watch(
        self, real: KubeClient, namespace: str
    ) -> None:
        """The server's versions are numbers that grow, as the store needs them."""
        async with following(real, Selection(namespace)) as store:
            created = await real.create(CONFIG_MAPS, namespace, named("a"))
            store.observe(created)

            assert created == store.get(created.meta.key)

    async def test_end_has_a_later_version(
        self, real: KubeClient, namespace: str
    ) -> None:
        """A watch tells an end in the version of the end."""
        async with following(real, Selection(namespace)) as store:
            created = await real.create(CONFIG_MAPS, namespace, named("a"))
            key = created.meta.key
            await until(store, lambda held: held.get(key) is not None)
            await real.delete(CONFIG_MAPS, key)
            await until(store, lambda held: held.get(key) is None)
            # The store is told of an end before it moves on.
            await asyncio.sleep(0)

            assert store.progress > int(created.meta.resource_version)

    async def test_bookmarks_come_as_asked(
        self, real: KubeClient, namespace: str
    ) -> None:
        """The server bookmarks a watch before it ends it, cleanly and in its time.

        It does so only where it has seen any event of that kind since its own start.
        """
        selection = Selection(namespace)
        version = (await real.list(CONFIG_MAPS, selection)).version
        watching = real.watch(
            CONFIG_MAPS, selection, version=version, seconds=4, silence=SILENCE
        )
        async with watching as chunks:
            await real.create(CONFIG_MAPS, namespace, named("a"))
            lines = [line async for line in lines_of(chunks)]
        events = [parse_event(CONFIG_MAPS, line) for line in lines]

        assert isinstance(events[0], Put)
        assert isinstance(events[-1], Bookmark)

    async def test_version_of_the_future_tells_nothing(
        self, real: KubeClient, namespace: str
    ) -> None:
        """No event, no bookmark, no error: such a watch must not be followed for ever."""
        selection = Selection(namespace)
        version = (await real.list(CONFIG_MAPS, selection)).version
        future = str(int(version) + 10**9)
        watching = real.watch(
            CONFIG_MAPS, selection, version=future, seconds=3, silence=SILENCE
        )
        async with watching as chunks:
            await real.create(CONFIG_MAPS, namespace, named("a"))
            assert [] == [line async for line in lines_of(chunks)]

    async def test_kind_that_is_not_installed_is_no_absence(
        self, real: KubeClient, namespace: str
    ) -> None:
        """The 404 of a missing kind says nothing about an object."""
        with pytest.raises(Unavailable):
            await real.get(THINGS, ObjectKey(namespace, "a"))
        with pytest.raises(Unavailable):
            await real.list(THINGS)

    async def test_informer_of_a_missing_kind_lets_others_begin(
        self, real: KubeClient
    ) -> None:
        """It counts as read, with nothing in it; without leave it does not."""
        clock = SystemClock()
        lenient = Informer(real, THINGS, clock, may_be_missing=True)
        strict = Informer(real, THINGS, clock)
        tasks = [asyncio.create_task(i.run()) for i in (lenient, strict)]
        async with asyncio.timeout(60):
            await lenient.synced.wait()

        assert 0 == len(lenient.store)
        assert not strict.synced.is_set()
        for task in tasks:
            task.cancel()

    async def test_raw_object_is_whole(self, real: KubeClient, namespace: str) -> None:
        """All fields are there, those that nobody decodes included."""
        body = {**named("a"), "data": {"x": "1"}}
        created = await real.create(CONFIG_MAPS, namespace, body)
        raw = msgspec.json.decode(await real.get_raw(CONFIG_MAPS, created.meta.key))

        assert {"x": "1"} == raw["data"]
        assert "ConfigMap" == raw["kind"]


class TestWriting:
    """Patches, finalizers, refusals."""

    async def test_json_patch_of_an_old_version_conflicts(
        self, real: KubeClient, namespace: str
    ) -> None:
        """Of two writers that read the same version the second gets a conflict."""
        read = await real.create(CONFIG_MAPS, namespace, named("a"))
        change = [{"op": "add", "path": "/data", "value": {"x": "1"}}]
        await real.patch(CONFIG_MAPS, read.meta.key, change, cas=read.meta)

        with pytest.raises(Conflict):
            await real.patch(CONFIG_MAPS, read.meta.key, change, cas=read.meta)

    async def test_finalizer_holds_an_object(
        self, real: KubeClient, namespace: str
    ) -> None:
        """A delete returns the object that waits; the last finalizer ends it."""
        body = named("a", finalizers=["lbcf.test/hold"])
        created = await real.create(CONFIG_MAPS, namespace, body)
        key = created.meta.key
        waiting = await real.delete(CONFIG_MAPS, key, uid=created.meta.uid)

        assert waiting is not None
        assert waiting.meta.deleting_since is not None
        freed = await real.patch(
            CONFIG_MAPS, key, {"metadata": {"finalizers": None}}, cas=waiting.meta
        )
        assert () == freed.meta.finalizers
        with pytest.raises(NotFound):
            await real.get(CONFIG_MAPS, key)

    async def test_refusal_says_which_field_is_wrong(
        self, real: KubeClient, namespace: str
    ) -> None:
        """The API server's own words reach the message."""
        with pytest.raises(Invalid, match=r"metadata\.name"):
            await real.create(CONFIG_MAPS, namespace, named("No Name"))

    async def test_missing_namespace_is_named(self, real: KubeClient) -> None:
        """A create in a namespace that does not exist is not found."""
        with pytest.raises(NotFound, match="no-such-place"):
            await real.create(CONFIG_MAPS, "no-such-place", named("a"))

    async def test_name_that_is_taken(self, real: KubeClient, namespace: str) -> None:
        """A 409 on create is not a conflict of versions."""
        await real.create(CONFIG_MAPS, namespace, named("a"))

        with pytest.raises(AlreadyExists):
            await real.create(CONFIG_MAPS, namespace, named("a"))

    async def test_stranger_is_forbidden(
        self, control_plane: Cluster, namespace: str
    ) -> None:
        """A user without rights is told so, and whom RBAC did not know."""
        kubeconfig = control_plane.kubeconfig_for("lbcf-stranger", [])
        connection = await connect(str(kubeconfig))
        async with connected(connection, SystemClock()) as client:
            with pytest.raises(Forbidden, match="lbcf-stranger"):
                await client.list(CONFIG_MAPS, Selection(namespace))

    async def test_audit_log_shows_who_asked(
        self, control_plane: Cluster, namespace: str
    ) -> None:
        """The user agent reaches the server."""
        kubeconfig = control_plane.kubeconfig_for("lbcf-agent", ["system:masters"])
        connection = await connect(str(kubeconfig))
        async with connected(
            connection, SystemClock(), user_agent="lbcf-controller/0.1.0 (python)"
        ) as client:
            await client.create(CONFIG_MAPS, namespace, named("a"))

        agents = {event.agent for event in control_plane.audit("lbcf-agent")}
        assert {"lbcf-controller/0.1.0 (python)"} == agents
