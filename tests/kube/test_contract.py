"""What every API server does, the real one, the one in a dict and the imagined one."""

from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest

from prometheus_client import CollectorRegistry

from lbcf.core.model.values import ObjectKey, Uid
from lbcf.kube.client import KubeClient
from lbcf.kube.dry_run import DryRunTransport
from lbcf.kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from lbcf.kube.kinds import PODS
from lbcf.kube.list_watch import Selection
from lbcf.runtime.metrics import DrySteps
from tests.fakes.clock import VirtualClock
from tests.kube.builders import CONFIG_MAPS
from tests.kube.tiny_api import TinyApi


SILENCE = timedelta(seconds=60)
REAL = pytest.param("real", marks=pytest.mark.cluster)


@pytest.fixture(name="api", params=["tiny", "dry", REAL])
def _api(request: pytest.FixtureRequest) -> KubeClient:
    """A client of either server."""
    if request.param == "tiny":
        return KubeClient(TinyApi())
    if request.param == "dry":
        steps = DrySteps(CollectorRegistry())
        return KubeClient(DryRunTransport(TinyApi(), VirtualClock(), steps))
    return cast("KubeClient", request.getfixturevalue("real"))


@pytest.fixture(name="shop")
def _shop(request: pytest.FixtureRequest) -> str:
    """A namespace; the server in a dict needs none made."""
    if "real" not in request.node.name:
        return "shop"
    return cast("str", request.getfixturevalue("namespace"))


def named(name: str, **values: str) -> dict[str, object]:
    """Make a ConfigMap."""
    return {"metadata": {"name": name}, "data": values}


async def test_created_object_is_read_back(api: KubeClient, shop: str) -> None:
    """A create returns the object, and a get the same version of it."""
    created = await api.create(CONFIG_MAPS, shop, named("a"))
    found = await api.get(CONFIG_MAPS, ObjectKey(shop, "a"))

    assert ObjectKey(shop, "a") == created.meta.key
    assert created.meta == found.meta
    assert found.meta.uid


async def test_name_is_taken_once(api: KubeClient, shop: str) -> None:
    """A second create says that the object exists."""
    await api.create(CONFIG_MAPS, shop, named("a"))

    with pytest.raises(AlreadyExists):
        await api.create(CONFIG_MAPS, shop, named("a"))


async def test_absent_object_is_not_found(api: KubeClient, shop: str) -> None:
    """Get, patch and delete say so."""
    absent = ObjectKey(shop, "absent")

    with pytest.raises(NotFound):
        await api.get(CONFIG_MAPS, absent)
    with pytest.raises(NotFound):
        await api.patch(CONFIG_MAPS, absent, {"data": {"x": "1"}})
    with pytest.raises(NotFound):
        await api.delete(CONFIG_MAPS, absent)


async def test_patch_of_the_version_read_succeeds_once(
    api: KubeClient, shop: str
) -> None:
    """Of two writers that read the same version the second gets a conflict."""
    read = await api.create(CONFIG_MAPS, shop, named("a"))
    key = read.meta.key
    first = await api.patch(CONFIG_MAPS, key, {"data": {"x": "1"}}, cas=read.meta)

    with pytest.raises(Conflict):
        await api.patch(CONFIG_MAPS, key, {"data": {"x": "2"}}, cas=read.meta)
    assert first.meta == (await api.get(CONFIG_MAPS, key)).meta


# A dry run takes merge patches alone.
@pytest.mark.parametrize("api", ["tiny", REAL], indirect=True)
async def test_json_patch_is_made_only_if_its_test_holds(
    api: KubeClient, shop: str
) -> None:
    """Whatever the version; a member is set whether it was there or not."""
    read = await api.create(CONFIG_MAPS, shop, named("a", holder="me"))
    key = read.meta.key
    await api.patch(CONFIG_MAPS, key, {"data": {"x": "0"}})

    def claim(holder: str, value: str) -> list[dict[str, object]]:
        """Set members if the holder is this one."""
        return [
            {"op": "test", "path": "/data/holder", "value": holder},
            {"op": "add", "path": "/data/x", "value": value},
            {"op": "add", "path": "/data/y", "value": value},
        ]

    await api.patch(CONFIG_MAPS, key, claim("me", "1"))
    with pytest.raises(Invalid):
        await api.patch(CONFIG_MAPS, key, claim("you", "2"))

    whole = msgspec.json.decode(await api.get_raw(CONFIG_MAPS, key))
    assert {"holder": "me", "x": "1", "y": "1"} == whole["data"]


async def test_patch_does_not_touch_a_namesake(api: KubeClient, shop: str) -> None:
    """An object that was made anew is another one."""
    read = await api.create(CONFIG_MAPS, shop, named("a"))
    await api.delete(CONFIG_MAPS, read.meta.key)
    await api.create(CONFIG_MAPS, shop, named("a"))

    with pytest.raises(Conflict):
        await api.patch(CONFIG_MAPS, read.meta.key, {"data": {"x": "1"}}, cas=read.meta)


async def test_delete_names_what_it_means(api: KubeClient, shop: str) -> None:
    """A wrong uid or an old version is refused; the right ones are not."""
    read = await api.create(CONFIG_MAPS, shop, named("a"))
    key = read.meta.key
    now = await api.patch(CONFIG_MAPS, key, {"data": {"x": "1"}})

    with pytest.raises(Conflict):
        await api.delete(CONFIG_MAPS, key, uid=Uid("another"))
    with pytest.raises(Conflict):
        await api.delete(CONFIG_MAPS, key, version=read.meta.resource_version)
    version = now.meta.resource_version
    assert await api.delete(CONFIG_MAPS, key, uid=now.meta.uid, version=version) is None
    with pytest.raises(NotFound):
        await api.get(CONFIG_MAPS, key)


# Nothing is created where everything is only imagined.
@pytest.mark.parametrize("api", ["tiny", REAL], indirect=True)
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("part in (1,2)", {"a", "b"}),
        ("part notin (1,3)", {"b", "c"}),
        ("part!=1", {"b", "c"}),
    ],
)
async def test_selection_by_label(
    api: KubeClient, shop: str, labels: str, expected: set[str]
) -> None:
    """What has no such label is neither among values, nor equal to one."""
    for name, part in (("a", "1"), ("b", "2"), ("c", "")):
        made = {"name": name, "labels": {"part": part} if part else {}}
        await api.create(CONFIG_MAPS, shop, {"metadata": made})

    page = await api.list(CONFIG_MAPS, Selection(shop, labels=labels))

    found = {one.meta.key.name for one in page.objects}
    assert expected == found - {"kube-root-ca.crt"}


# So a shard keeps other shards' namespaces from being sent.
@pytest.mark.parametrize("api", ["tiny", REAL], indirect=True)
async def test_selection_without_a_namespace(api: KubeClient, shop: str) -> None:
    """A list, and a watch, of all namespaces but some."""
    without = Selection(fields=f"metadata.namespace!={shop},metadata.namespace!=gone")
    await api.create(CONFIG_MAPS, shop, {"metadata": {"name": "left-out"}})
    await api.create(CONFIG_MAPS, "default", {"metadata": {"name": f"in-{shop}"}})

    page = await api.list(CONFIG_MAPS, without)
    watch = api.watch(
        CONFIG_MAPS, without, version=page.version, seconds=30, silence=SILENCE
    )
    async with watch as chunks:
        await api.create(CONFIG_MAPS, shop, {"metadata": {"name": "left-out-2"}})
        await api.create(CONFIG_MAPS, "default", {"metadata": {"name": f"on-{shop}"}})
        told = b""
        while f'"on-{shop}"'.encode() not in told:
            told += await anext(chunks)

    keys = {one.meta.key for one in page.objects}
    assert ObjectKey("default", f"in-{shop}") in keys
    assert shop not in {key.namespace for key in keys}
    assert b"left-out" not in told


async def test_conditions_of_a_pod_are_merged_by_type(
    api: KubeClient, shop: str
) -> None:
    """A strategic patch changes the condition that it names, and leaves the others."""
    container = {"name": "web", "image": "example.com/web"}
    body = {"metadata": {"name": "web-1"}, "spec": {"containers": [container]}}
    await api.create(PODS, shop, body)
    key = ObjectKey(shop, "web-1")
    ready = {"type": "Ready", "status": "True"}
    for condition in (
        {**ready, "status": "False"},
        {"type": "other", "status": "True"},
    ):
        change = {"status": {"conditions": [condition]}}
        await api.patch(PODS, key, change, subresource="status", merges_lists=True)
    before = await api.get(PODS, key)

    change = {"status": {"conditions": [ready]}}
    after = await api.patch(
        PODS, key, change, cas=before.meta, subresource="status", merges_lists=True
    )

    assert not before.is_ready
    assert after.is_ready
    with pytest.raises(Conflict):
        await api.patch(
            PODS, key, change, cas=before.meta, subresource="status", merges_lists=True
        )
    whole = cast("dict[str, Any]", msgspec.json.decode(await api.get_raw(PODS, key)))
    found = {c["type"]: c["status"] for c in whole["status"]["conditions"]}
    assert {"Ready": "True", "other": "True"} == {
        k: found[k] for k in ("Ready", "other")
    }
