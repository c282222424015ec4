"""Binds among the groups and load balancers of a view."""

import attrs
import pytest

from lbcf.controller.bind_view import BindView
from lbcf.controller.snapshot import take_snapshot
from lbcf.controller.view import View
from lbcf.core.model.binds import Bind, Entry, EntryStatus
from lbcf.core.model.cluster import Snapshot
from lbcf.core.model.names import bind_group_key, bind_load_balancer_key
from lbcf.core.reasons import Reason
from lbcf.kube.list_watch import Page, Put, Removed
from lbcf.wire.metadata import identity_of
from tests.builders import a_driver, a_group, a_key, a_meta, a_pod
from tests.controller.views import obscure, show


SPEC = {"id": "lb-1"}
GROUP = bind_group_key(a_key("web"))
FRONT = bind_load_balancer_key(a_key("web"), "front")


def a_bind(*statuses: EntryStatus, version: int = 1, entries: str = "front") -> Bind:
    """Make a Bind of the everyday pods, called as the everyday group."""
    meta = a_meta("web", version=version, generation=version)
    group = attrs.evolve(a_group(), meta=attrs.evolve(meta, key=GROUP))
    found = tuple(Entry(name, "proxy", SPEC) for name in entries.split())
    return Bind(meta, group, found, statuses)


CREATED = EntryStatus("front", "proxy", spec=SPEC, info=SPEC)


@pytest.fixture(name="view")
def _view() -> View:
    """A view that knows a driver and two pods."""
    view = View()
    BindView(view).listen()
    return show(view, a_driver(), a_pod(), a_pod("web-2"))


def snapshot_of(view: View) -> Snapshot:
    """Take the snapshot of the Bind."""
    group = view.groups.get(GROUP)
    assert group is not None
    snapshot = take_snapshot(view, group)
    assert isinstance(snapshot, Snapshot)
    return snapshot


def test_bind_is_read_as_a_group_and_load_balancers(view: View) -> None:
    """Its pods and load balancers are found as any group's; until created it holds."""
    view.binds.apply(Put(a_bind()))
    waiting = snapshot_of(view)
    view.binds.apply(Put(a_bind(CREATED, version=2)))
    snapshot = snapshot_of(view)

    assert Reason.LOAD_BALANCER_NOT_CREATED == waiting.undecided["front"].reason
    assert {"web-1", "web-2"} == {pod.meta.key.name for pod in snapshot.pods}
    assert SPEC == snapshot.attachments["front"].load_balancer.info
    assert [GROUP] == [g.meta.key for g in view.groups_meaning(a_pod())]
    found = view.load_balancers.by_index("driver", a_key("proxy"))
    assert [FRONT] == [balancer.meta.key for balancer in found]


def test_group_of_that_name_is_another(view: View) -> None:
    """Neither hides the other."""
    view.binds.apply(Put(a_bind(CREATED)))
    show(view, a_group())

    keys = {group.meta.key for group in view.groups_meaning(a_pod())}
    assert {GROUP, a_key("web")} == keys


def test_lists_of_groups_say_nothing_of_binds(view: View) -> None:
    """A group that is listed no longer is gone; what a Bind says is not in that list."""
    view.binds.apply(Put(a_bind(CREATED)))
    show(view, a_group())
    view.groups.begin_list()
    view.groups.replace(Page((), (), "99"))

    assert None is view.groups.get(a_key("web"))
    assert None is not view.groups.get(GROUP)


def test_entry_that_is_gone_is_no_load_balancer_any_more(view: View) -> None:
    """Nor is any when the Bind is gone."""
    second = attrs.evolve(CREATED, name="back")
    view.binds.apply(Put(a_bind(CREATED, second, entries="front back")))
    assert 2 == len(view.load_balancers)

    view.binds.apply(Put(a_bind(CREATED, version=2)))
    assert [FRONT] == [lb.meta.key for lb in view.load_balancers.values()]

    view.binds.apply(Removed(identity_of(a_meta("web", version=3))))
    assert 0 == len(view.load_balancers)
    assert None is view.groups.get(GROUP)


def test_unreadable_bind_holds_everything(view: View) -> None:
    """Nothing is decided about its records; its load balancers are still known."""
    view.binds.apply(Put(a_bind(CREATED)))
    obscure(view.binds, a_key("web"))
    assert None is view.groups.get(GROUP)
    assert None is not view.load_balancers.get(FRONT)

    view.binds.apply(Put(a_bind(CREATED, version=10)))
    assert None is not view.groups.get(GROUP)
