"""`drain` and `undrain`: the annotation that takes a pod, node, group or Bind out of service.

The controller acts upon it; here it is put on or taken off, and who is left is told.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from lbcf.controller.selector_index import does_select
from lbcf.controller.view import View
from lbcf.core.model.names import ANNOTATION_DRAIN, bind_of
from lbcf.core.model.resources import BackendGroup, BackendRecord, PodRef, backend_name
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.core.selection.location import node_of
from lbcf.ctl.drains import DrainRow, row_of
from lbcf.ctl.errors import CtlError, worded
from lbcf.ctl.flags import Kind, ObjectReference
from lbcf.ctl.plan import plan_group
from lbcf.ctl.reading import STORES, Reading
from lbcf.ctl.report import object_ref
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import BINDS, GROUPS, NODES, PODS, Resource
from lbcf.kube.store import Store
from lbcf.runtime.clock import Clock


_RESOURCES: Final[dict[Kind, Resource[Any]]] = {
    Kind.POD: PODS,
    Kind.NODE: NODES,
    Kind.GROUP: GROUPS,
    Kind.BIND: BINDS,
}
_STORES: Final[Mapping[Kind, tuple[Resource[Any], Callable[[View], Store[Any]]]]] = {
    **STORES,
    Kind.POD: (PODS, lambda view: view.pods),
}
_PAUSE: Final = timedelta(seconds=1)
_NOT_WRITTEN: Final = "is to be registered"


@attrs.frozen
class HandDrain:
    """What is to be drained by hand, or put back.

    Attributes:
        key: where the target is; of a Bind, its key among the groups.
        reason: what the annotation says; empty: it is taken off.
    """

    target: ObjectReference
    key: ObjectKey
    reason: str = ""

    @property
    def called(self) -> str:
        """Return what people call it."""
        return f"{self.target.kind}/{self.target.name}"


@attrs.frozen
class HandDrainReport:
    """How far it is.

    Attributes:
        at: the moment of the look.
        reason: that was written; empty: the annotation was taken off.
        left: who is not out yet, or not in again; what cannot be understood may be.
        unread: what may not be read, and does not decide who is left, in words.
    """

    at: datetime
    namespace: str
    subject: str
    reason: str
    left: tuple[DrainRow, ...]
    unread: tuple[str, ...] = ()


async def annotate(client: KubeClient, order: HandDrain) -> None:
    """Put the annotation on, or take it off.

    Raises:
        CtlError: there is no such object, it has changed meanwhile, or we may not.
        KubeError: the API server cannot be asked.
    """
    resource = _RESOURCES[order.target.kind]
    key = bind_of(order.key) or order.key
    with worded(order.called, resource, key.namespace, "get"):
        found = await client.get(resource, key)
    annotations = {ANNOTATION_DRAIN: order.reason or None}
    metadata = {"uid": found.meta.uid, "annotations": annotations}
    with worded(order.called, resource, key.namespace, "patch"):
        await client.patch(resource, key, {"metadata": metadata})


def hand_drain_report(
    reading: Reading, order: HandDrain, now: datetime
) -> HandDrainReport:
    """Report who of what was named is not out yet, or not in again.

    Raises:
        CtlError: nobody can say who that is, as something may not be read.
    """
    _check_rights(reading, order)
    left = (*_unreadable(reading, order), *_left(reading, order, now))
    namespace, unread = order.key.namespace, reading.unread()
    return HandDrainReport(now, namespace, order.called, order.reason, left, unread)


async def follow(
    look: Callable[[], Awaitable[HandDrainReport]],
    show: Callable[[object], None],
    clock: Clock,
) -> HandDrainReport:
    """Look each second until nobody is left; each report that tells news is shown.

    Args:
        look: makes a report of what there is now.
        show: shows one.
        clock: waits.

    Raises:
        CtlError: nobody can say who is left.
    """
    shown: tuple[DrainRow, ...] | None = None
    while True:
        report = await look()
        if not report.left:
            return report
        if report.left != shown:
            shown = report.left
            show(report)
        await clock.sleep(_PAUSE)


def _check_rights(reading: Reading, order: HandDrain) -> None:
    # Who switches a node off goes by the answer: what may not be listed is not empty.
    for kind in _deciding(order):
        resource, _ = _STORES[kind]
        right = reading.missing_right(resource, reading.namespace or "")
        if right is not None:
            raise _untold(order, f"we {right}")


def _untold(order: HandDrain, why: str) -> CtlError:
    """Return the error of a question who is left that has no answer."""
    where = "on" if order.reason else "off"
    return CtlError(
        f"the annotation is {where} {order.called}, but who is left cannot be told: {why}"
    )


def _deciding(order: HandDrain) -> tuple[Kind, ...]:
    """Return the kinds without any of which nobody can say who is left."""
    if not order.reason:
        return (Kind.RECORD, Kind.GROUP, Kind.BIND, Kind.POD)
    if order.target.kind is Kind.NODE:
        return (Kind.RECORD, Kind.POD)
    return (Kind.RECORD,)


def _unreadable(reading: Reading, order: HandDrain) -> Iterator[DrainRow]:
    """Yield what cannot be understood: whose it is, nobody knows."""
    for kind in _deciding(order):
        _, store_of = _STORES[kind]
        for key, error in sorted(store_of(reading.view).unreadable.items()):
            yield DrainRow(
                namespace=key.namespace,
                record=key.name if kind is Kind.RECORD else "",
                load_balancer="",
                backend=object_ref(kind, key),
                address="",
                since=None,
                connections=None,
                deadline=None,
                stage=Reason.UNREADABLE,
                waits_for=f"cannot be understood: {error}",
                next=None,
            )


def _left(reading: Reading, order: HandDrain, now: datetime) -> Iterator[DrainRow]:
    records = [r for r in reading.view.records.values() if _is_of(reading, order, r)]
    records.sort(key=lambda one: one.meta.key)
    if order.reason:
        yield from (row_of(record, reading, now) for record in records)
        return
    yield from (
        row_of(r, reading, now) for r in records if not r.is_in or r.is_deleting
    )
    for group in concerned(reading, order):
        yield from _to_come(reading, order, group, now)


def concerned(reading: Reading, order: HandDrain) -> Iterable[BackendGroup]:
    """Return the groups that have, or are to have, what was named."""
    view, key = reading.view, order.key
    match order.target.kind:
        case Kind.POD:
            pod = view.pods.get(key)
            found = view.groups.by_index("namespace", key.namespace)
            return [g for g in found if pod is not None and does_select(g, pod)]
        case Kind.NODE:
            pods = view.pods.by_index("node", key.name)
            of_pods = (g for pod in pods for g in view.groups_meaning(pod))
            both = (*of_pods, *view.groups_on_nodes())
            return {group.meta.key: group for group in both}.values()
        case _:
            group = view.groups.get(key)
            return [] if group is None else [group]


def _to_come(
    reading: Reading, order: HandDrain, group: BackendGroup, now: datetime
) -> Iterator[DrainRow]:
    """Yield what the controller has yet to write down for what was named.

    Raises:
        CtlError: something of the group may not be read.
    """
    planned = plan_group(reading, group, now)
    for doubt in planned.doubts:
        if doubt.reason == Reason.NOT_READ:
            raise _untold(order, doubt.message)
    for create in planned.plan.creates if planned.plan is not None else ():
        backend = create.desired.spec.backend
        pod = backend.name if isinstance(backend, PodRef) else ""
        node = getattr(backend, "node", "") or getattr(backend, "name", "")
        if not _names(reading, order, group.meta.key, pod, "" if pod else node):
            continue
        yield DrainRow(
            namespace=group.meta.key.namespace,
            record=create.name,
            load_balancer=create.desired.spec.load_balancer,
            backend=backend_name(backend),
            address=create.desired.address,
            since=None,
            connections=None,
            deadline=None,
            stage=_NOT_WRITTEN,
            waits_for="the controller",
            next=None,
        )


def _is_of(reading: Reading, order: HandDrain, record: BackendRecord) -> bool:
    backend, key = record.spec.backend, record.meta.key
    pod = backend.name if isinstance(backend, PodRef) else ""
    group = record.group or key
    return _names(reading, order, group, pod, node_of(record))


def _names(
    reading: Reading, order: HandDrain, group: ObjectKey, pod: str, node: str
) -> bool:
    """Return whether what was named has a backend of a group: a pod, or a node."""
    match order.target.kind:
        case Kind.POD:
            return ObjectKey(group.namespace, pod) == order.key
        case Kind.NODE:
            found = reading.view.pods.get(ObjectKey(group.namespace, pod))
            here = node if found is None else found.node
            return here == order.key.name
        case _:
            return group == order.key
