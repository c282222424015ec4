"""Writes of reconcilers: by compare-and-swap, and seen by the store at once."""

import attrs
import pytest

from lbcf.core.model import names
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import Uid
from lbcf.core.selection.desired import DesiredRecord
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Conflict, NotFound
from lbcf.kube.kinds import RECORDS
from lbcf.kube.store import Store
from lbcf.wire.records import render_new_record
from tests.builders import a_group, a_key, a_spec
from tests.kube.tiny_api import TinyApi


@attrs.define
class Scene:
    """An API server, a store, and a writer between them."""

    client: KubeClient = attrs.Factory(lambda: KubeClient(TinyApi()))
    store: Store[BackendRecord] = attrs.Factory(Store)
    writer: ObjectWriter[BackendRecord] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.writer = ObjectWriter(self.client, RECORDS, self.store)

    async def create(self) -> BackendRecord:
        """Create a record, which the store sees."""
        spec = a_spec(address="")
        desired = DesiredRecord(a_group(), spec, spec.address, ("web-1", 8080))
        body = render_new_record(desired, "web-1")
        record = await self.writer.create("shop", body)
        self.writer.observe(record)
        return record

    def seen(self) -> BackendRecord | None:
        """Return the record as the store has it."""
        return self.store.get(a_key("web-1"))


@pytest.fixture(name="scene")
def a_scene() -> Scene:
    """Begin anew."""
    return Scene()


def labelled(value: str) -> dict[str, object]:
    """Make a change of a label."""
    return {"metadata": {"labels": {"tier": value}}}


async def test_store_sees_what_a_patch_returned(scene: Scene) -> None:
    """The next decision is made on it, however late the watch is."""
    record = await scene.create()
    written = await scene.writer.patch(record.meta, labelled("web"))
    assert scene.seen() == written
    assert written.meta.labels["tier"] == "web"


async def test_patch_of_an_older_version_changes_nothing(scene: Scene) -> None:
    """Neither in the API server nor in the store."""
    record = await scene.create()
    newer = await scene.writer.patch(record.meta, labelled("web"))
    with pytest.raises(Conflict):
        await scene.writer.patch(record.meta, labelled("other"))
    assert scene.seen() == newer
    assert await scene.client.get(RECORDS, record.meta.key) == newer


async def test_store_waits_where_the_caller_takes_in_what_it_wrote(
    scene: Scene,
) -> None:
    """A registrar is told first that a write is its own."""
    record = await scene.create()
    written = await scene.writer.patch(record.meta, labelled("web"), observe=False)
    assert scene.seen() == record
    scene.writer.observe(written)
    assert scene.seen() == written


async def test_last_finalizer_ends_an_object_being_deleted(scene: Scene) -> None:
    """What the server returns then is no new version, and is not seen as one."""
    record = await scene.create()
    assert await scene.writer.delete(record.meta)
    ending = scene.seen()
    assert ending is not None
    assert ending.is_deleting
    await scene.writer.release(ending.meta, names.FINALIZER_RECORD)
    assert scene.seen() is None
    with pytest.raises(NotFound):
        await scene.client.get(RECORDS, record.meta.key)


async def test_delete_of_what_is_gone_is_seen(scene: Scene) -> None:
    """The answer says that it was somebody else's."""
    record = await scene.create()
    await scene.client.patch(
        RECORDS, record.meta.key, {"metadata": {"finalizers": None}}
    )
    await scene.client.delete(RECORDS, record.meta.key)
    assert not await scene.writer.delete(record.meta)
    assert scene.seen() is None


async def test_namesake_is_not_deleted(scene: Scene) -> None:
    """Its uid is another one."""
    record = await scene.create()
    namesake = attrs.evolve(record.meta, uid=Uid("another"))
    with pytest.raises(Conflict):
        await scene.writer.delete(namesake)
    assert scene.seen() == record


async def test_refresh_shows_what_another_wrote(scene: Scene) -> None:
    """Or nothing new where there is nothing of that name."""
    record = await scene.create()
    other = await scene.client.patch(RECORDS, record.meta.key, labelled("other"))
    await scene.writer.refresh(record.meta.key)
    assert scene.seen() == other
    await scene.writer.refresh(a_key("nobody"))
    assert len(scene.store) == 1
