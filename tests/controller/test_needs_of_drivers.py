"""Who needs a driver: what cannot be understood may, until it can, or is gone."""

import asyncio

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from lbcf.controller.drivers import DriverFinalizer
from lbcf.controller.other_shards import needs_elsewhere
from lbcf.controller.view import View, needs_of
from lbcf.core.model import names
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.executor.object_events import AbandonmentReporter
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import KubeError
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import BINDS, DRIVERS, GROUPS, RECORDS, Resource
from lbcf.kube.list_watch import Removed
from lbcf.kube.store import Store
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.queue import WorkQueue
from lbcf.wire.metadata import identity_of
from tests.builders import a_driver, a_key, a_meta, a_record
from tests.controller.exchanges import Nobody
from tests.controller.views import obscure, show
from tests.ctl.servers import Guarded, put
from tests.e2e import objects
from tests.kube.tiny_api import TinyApi
from tests.kube.tiny_rules import Json


STORES: dict[str, Callable[[View], Store[Any]]] = {
    "LoadBalancer": lambda view: view.load_balancers,
    "BackendGroup": lambda view: view.groups,
    "Bind": lambda view: view.binds,
    "BackendRecord": lambda view: view.records,
}


def _leaving() -> tuple[View, WorkQueue[ObjectKey]]:
    """Make a driver that is being deleted, and the queue by which it is looked at."""
    meta = a_meta("proxy", deleting=True)
    view = show(View(), attrs.evolve(a_driver(), meta=meta))
    client, clock = KubeClient(Nobody()), SystemClock()
    queue: WorkQueue[ObjectKey] = WorkQueue("drivers", clock)
    recorder = EventRecorder(client, clock, controller="x", instance="x")
    DriverFinalizer(
        view,
        ObjectWriter(client, DRIVERS, view.drivers),
        queue,
        AbandonmentReporter(recorder, None),
        client,
    ).listen()
    return view, queue


@pytest.mark.parametrize("kind", STORES)
async def test_what_cannot_be_understood_keeps_a_driver_until_it_is_gone(
    kind: str,
) -> None:
    """Then the driver is looked at again, since nothing else would tell."""
    view, queue = _leaving()
    store = STORES[kind](view)

    obscure(store, a_key("odd"))
    needed = needs_of(view, a_key("proxy"))
    queue.done(await queue.get())
    store.displace(a_key("odd"))

    assert [f"unreadable {kind} shop/odd"] == needed
    assert [] == needs_of(view, a_key("proxy"))
    async with asyncio.timeout(30):
        assert a_key("proxy") == await queue.get()


async def test_driver_that_is_needed_still_is_looked_at_later() -> None:
    """It tells how many need it; each of thousands that end would have it say so."""
    view, queue = _leaving()
    records = [a_record("web-1"), a_record("web-2")]
    show(view, *records)

    _end(view, records[0])
    assert (0, 1) == (len(queue), queue.delayed)

    _end(view, records[1])
    assert a_key("proxy") == await queue.get()


def _end(view: View, record: BackendRecord) -> None:
    """Let the watch tell that a record is gone."""
    identity = attrs.evolve(identity_of(record.meta), version="99")
    view.records.apply(Removed(identity))


SHARED = ObjectKey("kube-system", "lbcf-proxy")
JUDGED: dict[str, Any] = {
    "deregisterPolicy": "Webhook",
    "deregisterWebhook": {"driverName": SHARED.name},
}


def _a_record(*labels: str) -> Json:
    """Make a record at the shared driver, which says so in these labels."""
    metadata = {"name": "r", "labels": dict.fromkeys(labels, SHARED.name)}
    spec = {"lbName": "front", "lbDriver": SHARED.name, "staticAddr": "10.0.0.1:80"}
    return {"metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("kind", "body", "needed"),
    [
        (
            BINDS,
            objects.a_bind("both", objects.an_entry("front", SHARED.name)),
            "LoadBalancer shop/bind/both/front",
        ),
        (BINDS, objects.a_bind("both", **JUDGED), "BackendGroup shop/bind/both"),
        (BINDS, {"metadata": {"name": "odd"}}, "unreadable Bind shop/odd"),
        (GROUPS, objects.a_group("web", **JUDGED), "BackendGroup shop/web"),
        (GROUPS, {"metadata": {"name": "odd"}}, "unreadable BackendGroup shop/odd"),
        (RECORDS, _a_record(names.LABEL_DRIVER), "BackendRecord shop/r"),
        (RECORDS, _a_record(names.LABEL_BIND_DRIVER), "BackendRecord shop/r"),
        (
            RECORDS,
            {"metadata": {"name": "odd", "labels": {names.LABEL_DRIVER: SHARED.name}}},
            "unreadable BackendRecord shop/odd",
        ),
    ],
)
async def test_driver_is_needed_by_what_other_shards_have(
    kind: Resource[Any], body: Json, needed: str
) -> None:
    """Else it is let go, and nobody can take its members out any more."""
    api = TinyApi()
    put(api, kind, body)

    assert [needed] == await needs_elsewhere(KubeClient(api), SHARED)


def _without_binds(code: int, words: str) -> KubeClient:
    """An API server that has nothing, and refuses to list Binds."""
    path = BINDS.collection()
    return KubeClient(
        Guarded(
            TinyApi(), lambda _verb, asked: (code, words) if asked == path else None
        )
    )


async def test_binds_need_not_be_installed_for_a_driver_to_go() -> None:
    """Nobody can have any then."""
    assert [] == await needs_elsewhere(_without_binds(404, ""), SHARED)


async def test_driver_stays_while_binds_cannot_be_read() -> None:
    """Nobody knows who needs it."""
    with pytest.raises(KubeError, match="not yours"):
        await needs_elsewhere(_without_binds(403, "not yours"), SHARED)
