"""Readings of a group: what is gathered, and what makes it, or a part of it, doubtful."""

from collections.abc import Callable, Collection

import attrs
import pytest

from lbcf.controller.snapshot import take_snapshot
from lbcf.controller.view import View
from lbcf.core.model.cluster import Attachment, Snapshot
from lbcf.core.model.resources import BackendGroup, StaticRef, StaticSelection
from lbcf.core.model.values import Uid
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.plan import plan_group
from lbcf.kube.list_watch import Obscured, Unreadable
from lbcf.wire.metadata import Identity
from tests.builders import (
    START,
    a_backend,
    a_driver,
    a_group,
    a_key,
    a_load_balancer,
    a_pod,
    a_record,
    a_spec,
)
from tests.controller.views import everyday, obscure, show


FRONT = a_key("front")


def taken(
    view: View, group: BackendGroup | None = None, pods: Collection[str] | None = None
) -> Snapshot:
    """Take a snapshot that must not be in doubt as a whole."""
    snapshot = take_snapshot(view, group or a_group(), pods)
    assert isinstance(snapshot, Snapshot)
    return snapshot


def test_snapshot_has_all_that_decides() -> None:
    """Attachments, selected pods, own records; nothing that belongs to others."""
    own, pod = a_record(), a_pod()
    view = show(
        everyday(),
        pod,
        a_pod("api-1", labels={"app": "api"}),
        a_pod("web-9", namespace="other"),
        own,
        attrs.evolve(a_record("alien"), group=a_key("api")),
        attrs.evolve(a_record("orphan"), group=None),
    )

    expected = Snapshot(
        group=a_group(),
        attachments={"front": Attachment(a_load_balancer(), a_driver())},
        undecided={},
        pods=(pod,),
        records=(own,),
    )
    assert expected == taken(view)


def test_records_of_a_namesake_are_not_its_own() -> None:
    """The group was deleted and made again: the old one's records end with that."""
    view = show(everyday(), attrs.evolve(a_record(), group_uid=Uid("uid-before")))

    assert () == taken(view).records
    assert () == taken(view, pods={"web-1"}).records


def test_scope_leaves_only_what_concerns_its_pods() -> None:
    """Pods that are gone, or no longer selected, still have their records looked at."""
    other = a_record("web-2", spec=a_spec(backend=a_backend("web-2")))
    unselected = a_record("web-3", spec=a_spec(backend=a_backend("web-3")))
    view = show(
        everyday(),
        a_pod(),
        a_pod("web-2"),
        a_pod("web-3", labels={}),
        a_record(),
        other,
        unselected,
    )

    scope = dict.fromkeys(("web-2", "web-3", "web-4"))
    found = taken(view, pods=scope.keys())

    assert ["web-2"] == [p.meta.key.name for p in found.pods]
    assert (other, unselected) == found.records


def test_group_that_selects_no_pods_is_always_looked_at_whole() -> None:
    """A namesake's pod records may end beside it: its own must not be overlooked."""
    group = a_group(selection=StaticSelection(("a:1",)))
    record = a_record(spec=a_spec(backend=StaticRef("a:1")))
    view = show(everyday(), group, record)

    assert (record,) == taken(view, group, pods={"web-1"}).records


# --- doubt about everything -----------------------------------------------------------


def test_unreadable_pod_puts_its_namespace_in_doubt() -> None:
    """It might be one of the group's, and must not look as if it were gone."""
    view = everyday()
    obscure(view.pods, a_key("web-1"))

    doubt = take_snapshot(view, a_group())

    assert isinstance(doubt, Explanation)
    assert Reason.POD_UNREADABLE == doubt.reason
    assert "pod shop/web-1 cannot be understood" in doubt.message


def test_unreadable_record_puts_its_namespace_in_doubt() -> None:
    """It might be one of the group's, and must not be made a second time."""
    view = everyday()
    obscure(view.records, a_key("web-1"))

    doubt = take_snapshot(view, a_group())

    assert isinstance(doubt, Explanation)
    assert Reason.RECORD_UNREADABLE == doubt.reason
    assert "spec.lbName" in doubt.message


def test_what_cannot_be_read_elsewhere_does_not_matter() -> None:
    """Another namespace's trouble is its own."""
    view = everyday()
    obscure(view.pods, a_key("web-1", "other"))
    obscure(view.records, a_key("web-1", "other"))

    assert isinstance(take_snapshot(view, a_group()), Snapshot)


# --- doubt about one load balancer --------------------------------------------------------


def _no_driver(view: View) -> None:
    """Take the driver away."""
    view.drivers.observe_gone(a_driver().meta)


def _driver_was_never_readable(view: View) -> None:
    """Let the driver be one of which nothing is known but that it exists."""
    _no_driver(view)
    key = a_key("proxy")
    view.drivers.apply(Obscured(Unreadable(Identity(key, Uid("u2"), "9"), "spec.url")))


DOUBTS: dict[str, Callable[[View], object]] = {
    Reason.LOAD_BALANCER_NOT_FOUND: lambda view: view.load_balancers.observe_gone(
        a_load_balancer().meta
    ),
    Reason.LOAD_BALANCER_UNREADABLE: lambda view: obscure(view.load_balancers, FRONT),
    Reason.LOAD_BALANCER_NOT_CREATED: lambda view: show(
        view, a_load_balancer(created=False, version=2)
    ),
    Reason.DRIVER_NOT_FOUND: _no_driver,
    Reason.DRIVER_UNREADABLE: _driver_was_never_readable,
}


@pytest.mark.parametrize("reason", DOUBTS)
def test_doubt_about_a_load_balancer_says_why(reason: str) -> None:
    """It is neither used nor left, and the message names what to look at."""
    view = everyday()
    DOUBTS[reason](view)

    found = taken(view)

    assert {} == found.attachments
    assert reason == found.undecided["front"].reason
    assert "shop/" in found.undecided["front"].message


def test_load_balancer_that_could_be_read_before_is_in_doubt_all_the_same() -> None:
    """The store still holds its last readable version; that is not how it is now."""
    view = everyday()
    obscure(view.load_balancers, FRONT)
    assert None is not view.load_balancers.get(FRONT)

    assert Reason.LOAD_BALANCER_UNREADABLE == taken(view).undecided["front"].reason


def test_withdrawn_scope_ends_records() -> None:
    """Whose namespace is taken out of it leaves; what cannot be read holds instead."""
    shared = a_load_balancer("lbcf-front", namespace="kube-system")
    spec = attrs.evolve(a_spec(), load_balancer="lbcf-front")
    record, group = a_record(spec=spec), a_group(load_balancers=("lbcf-front",))
    view = show(everyday(), a_pod(), shared, record, a_driver(namespace="kube-system"))

    plan = plan_group(taken(view, group))
    assert [(record, Reason.LOAD_BALANCER_DETACHED)] == [
        (r.record, r.reason) for r in plan.removals
    ]
    assert "not in scope" in plan.removals[0].message
    assert () == plan.creates

    obscure(view.load_balancers, shared.meta.key)
    assert [record] == [h.record for h in plan_group(taken(view, group)).holds]


@pytest.mark.parametrize("scope", [(), ("other",)])
def test_driver_of_others_must_serve_the_namespace(scope: tuple[str, ...]) -> None:
    """A load balancer of one's own does not open somebody else's driver."""
    own = a_load_balancer(driver="lbcf-proxy", version=2)
    driver = a_driver("lbcf-proxy", namespace="kube-system")
    view = show(everyday(), own, attrs.evolve(driver, scope=scope))

    assert Reason.DRIVER_OUT_OF_SCOPE == taken(view).leaving["front"].reason

    opened = a_driver("lbcf-proxy", namespace="kube-system", version=2)
    show(view, attrs.evolve(opened, scope=(*scope, "shop")))
    assert {"front"} == taken(view).attachments.keys()


def test_load_balancer_of_others_must_be_open_to_the_namespace() -> None:
    """A namespace that is not in its scope gets nothing registered there."""
    shared = a_load_balancer(
        "lbcf-front", namespace="kube-system", scope=("other",), version=2
    )
    group = a_group(load_balancers=("lbcf-front",))
    view = show(everyday(), shared, a_driver(namespace="kube-system"))

    assert (
        Reason.LOAD_BALANCER_OUT_OF_SCOPE
        == taken(view, group).leaving["lbcf-front"].reason
    )

    show(
        view,
        attrs.evolve(
            shared,
            scope=("shop",),
            meta=attrs.evolve(shared.meta, resource_version="3"),
        ),
    )
    assert {"lbcf-front"} == taken(view, group).attachments.keys()


def test_load_balancer_that_is_being_deleted_is_leaving() -> None:
    """Its records go, even if its driver is gone too."""
    view = show(everyday(), a_load_balancer(deleting=True, version=2))
    _no_driver(view)

    found = taken(view)

    assert ({}, {}) == (found.attachments, found.undecided)


def test_group_that_is_being_deleted_leaves_all_its_load_balancers() -> None:
    """Somebody's finalizer may hold it for long; that a driver is gone holds nothing."""
    meta = attrs.evolve(a_group().meta, deleting_since=START)
    group = attrs.evolve(a_group(), meta=meta)
    view = show(everyday(), a_pod(), a_record(spec=a_spec()))
    _no_driver(view)

    found = taken(view, group)
    plan = plan_group(found)

    assert [Reason.GROUP_DELETING] == [why.reason for why in found.leaving.values()]
    assert () == plan.creates
    assert [a_key("web-1")] == [r.record.meta.key for r in plan.removals]
    assert "being deleted" in plan.removals[0].message


def test_each_load_balancer_is_judged_for_itself() -> None:
    """One that is missing does not stop the others."""
    view = show(everyday(), a_load_balancer("old", deleting=True))

    found = taken(view, a_group(load_balancers=("front", "missing", "old")))

    assert {"front"} == found.attachments.keys()
    assert {"missing"} == found.undecided.keys()
