"""Reads what a question is about into the controller's `View`.

Reports ask the view as the controller does. What RBAC hides is noted as a missing right,
and counts as unreadable, never as absent, for all that refers to it.
"""

import asyncio

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import attrs

from lbcf.controller.bind_view import BindView
from lbcf.controller.endpoint_slices import slice_store
from lbcf.controller.snapshot import is_local
from lbcf.controller.view import LIVING_PODS, View
from lbcf.core.model.conditions import DRAINED_BY_HAND, find
from lbcf.core.model.names import SYSTEM_NAMESPACE, bind_of
from lbcf.core.model.node_backends import NodeSelection, ServiceSelection
from lbcf.core.model.nodes import SERVICE_LABEL
from lbcf.core.model.resources import BackendGroup, PodSelection, StaticSelection
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import Explanation, Reason
from lbcf.ctl.errors import (
    CtlError,
    MissingRight,
    ObjectNotFound,
    missing_right,
    unknown_kind,
)
from lbcf.ctl.flags import Kind
from lbcf.ctl.leaders import list_leases
from lbcf.ctl.report import Line, Mark, object_ref
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Forbidden, Unavailable
from lbcf.kube.kinds import (
    BINDS,
    DRIVERS,
    ENDPOINT_SLICES,
    GROUPS,
    LOAD_BALANCERS,
    NODES,
    PODS,
    RECORDS,
    SERVICES,
    HasMeta,
    Resource,
)
from lbcf.kube.leases import Lease
from lbcf.kube.list_watch import Obscured, Page, Selection, Unreadable
from lbcf.kube.store import Store
from lbcf.wire.metadata import Identity


_NOT_SERVED: Final = "-"
"""In the place of a list's version: the kind is not installed."""

STORES: Final[Mapping[Kind, tuple[Resource[Any], Callable[[View], Store[Any]]]]] = {
    Kind.DRIVER: (DRIVERS, lambda view: view.drivers),
    Kind.LOAD_BALANCER: (LOAD_BALANCERS, lambda view: view.load_balancers),
    Kind.GROUP: (GROUPS, lambda view: view.groups),
    Kind.BIND: (BINDS, lambda view: view.binds),
    Kind.RECORD: (RECORDS, lambda view: view.records),
}
"""The kinds of lbcf, and where a view has them."""

T = TypeVar("T", bound=HasMeta)


@attrs.define
class Reading:
    """What was read.

    Attributes:
        namespace: the one asked about, None for all of them.
        view: as the controller has it, of these namespaces and of what they share.
        missing_rights: what may not be read, by plural of the resource and namespace.
        unknown_kinds: plurals of the kinds that the cluster does not serve.
    """

    client: KubeClient
    namespace: str | None
    view: View = attrs.Factory(View)
    missing_rights: dict[tuple[str, str], MissingRight] = attrs.Factory(dict)
    unknown_kinds: set[str] = attrs.Factory(set)
    _forbidden: set[tuple[str, ObjectKey]] = attrs.Factory(set)

    def missing_right(
        self, resource: Resource[Any], namespace: str
    ) -> MissingRight | None:
        """Return the right that hides a kind in a namespace, None: it was read."""
        places = (namespace, "*", "")
        rights = (self.missing_rights.get((resource.plural, one)) for one in places)
        return next((right for right in rights if right is not None), None)

    def note_missing(self, right: MissingRight) -> None:
        """Note that something may not be read."""
        self.missing_rights[right.resource.partition(".")[0], right.namespace] = right

    def is_forbidden(self, resource: Resource[Any], key: ObjectKey) -> bool:
        """Return whether an object is referred to and may not be read."""
        return (resource.plural, key) in self._forbidden

    def driver_unavailable(self, key: ObjectKey) -> Explanation | None:
        """Return why there is no driver; None: there is one, or it may not be read."""
        found = self.view.driver(key)
        if not isinstance(found, Explanation) or self.is_forbidden(DRIVERS, key):
            return None
        return found

    def unread(self) -> tuple[str, ...]:
        """Return the missing rights that matter for what was asked, in words."""
        return tuple(
            str(right)
            for right in self.missing_rights.values()
            if right.namespace != SYSTEM_NAMESPACE
            or self.is_in_scope(SYSTEM_NAMESPACE)
            or any(key.namespace == SYSTEM_NAMESPACE for _, key in self._forbidden)
        )

    def is_in_scope(self, namespace: str) -> bool:
        """Return whether a namespace is what was asked about."""
        return self.namespace in {None, namespace}

    async def read_resources(self) -> None:
        """Read the kinds of lbcf, and what is shared from kube-system.

        Raises:
            CtlError: the CRDs are not installed.
            KubeError: the API server cannot be asked.
        """
        view, here = self.view, (Selection(self.namespace),)
        shared: tuple[Selection, ...] = here
        if self.namespace not in {None, SYSTEM_NAMESPACE}:
            shared = (*here, Selection(SYSTEM_NAMESPACE))
        BindView(view).listen()
        await asyncio.gather(
            self._fill(GROUPS, view.groups, here),
            self._fill(RECORDS, view.records, here),
            self._fill(LOAD_BALANCERS, view.load_balancers, shared),
            self._fill(DRIVERS, view.drivers, shared),
            self._fill(BINDS, view.binds, here, is_optional=True),
        )
        self.mark_forbidden()

    async def read_nodes(self) -> None:
        """Read the nodes.

        Raises:
            KubeError: the API server cannot be asked.
        """
        await self._fill(NODES, self.view.nodes, (Selection(),))

    async def read_pods(self) -> None:
        """Read the pods that have not ended.

        Raises:
            KubeError: the API server cannot be asked.
        """
        living = attrs.evolve(LIVING_PODS, namespace=self.namespace)
        await self._fill(PODS, self.view.pods, (living,))

    async def read_leases(self) -> tuple[Lease, ...]:
        """Read the Leases of all shards, in whichever namespaces they are.

        Raises:
            KubeError: the API server cannot be asked.
        """
        return await list_leases(self._list)

    async def read_dependencies(self, groups: Iterable[BackendGroup]) -> None:
        """Read the pods, nodes, Services and endpoints that groups depend on.

        Raises:
            KubeError: the API server cannot be asked.
        """
        view, found = self.view, list(groups)
        services = {
            ObjectKey(group.meta.key.namespace, group.selection.name)
            for group in found
            if isinstance(group.selection, ServiceSelection)
        }
        reads = []
        if any(isinstance(group.selection, PodSelection) for group in found):
            reads.append(self.read_pods())
        of_nodes = any(_depends_on_nodes(group) for group in found)
        if (services or of_nodes) and not len(view.nodes):
            reads.append(self.read_nodes())
        if services:
            here = (Selection(self.namespace),)
            reads.append(self._fill(SERVICES, view.services, here))
            reads.append(self._read_endpoints(services))
        await asyncio.gather(*reads)

    def missing_for(self, group: BackendGroup) -> MissingRight | None:
        """Return the right without which a group cannot be planned as the controller does."""
        kinds: tuple[Resource[Any], ...] = (RECORDS,)
        match group.selection:
            case PodSelection():
                kinds = (RECORDS, PODS)
            case NodeSelection():
                kinds = (RECORDS, NODES)
            case ServiceSelection():
                local = (ENDPOINT_SLICES,) if is_local(self.view, group) else ()
                kinds = (RECORDS, NODES, SERVICES, *local)
            case StaticSelection():
                pass
        rights = (self.missing_right(kind, group.meta.key.namespace) for kind in kinds)
        return next((right for right in rights if right is not None), None)

    def mark_forbidden(self) -> None:
        """Have what is referred to, and may not be read, count as unreadable."""
        view = self.view
        for group in view.groups.values():
            for name in group.load_balancers:
                key = group.load_balancer_key(name)
                if bind_of(key) is None:
                    self._obscure(LOAD_BALANCERS, view.load_balancers, key)
        drivers = {balancer.driver_key for balancer in view.load_balancers.values()}
        drivers |= {record.driver_key for record in view.records.values()}
        for key in drivers:
            self._obscure(DRIVERS, view.drivers, key)

    def _obscure(self, resource: Resource[T], store: Store[T], key: ObjectKey) -> None:
        right = self.missing_right(resource, key.namespace)
        if right is not None:
            self._forbidden.add((resource.plural, key))
            unreadable = Unreadable(Identity(key, Uid(""), ""), f"we {right}")
            store.apply(Obscured(unreadable))

    async def _fill(
        self,
        resource: Resource[T],
        store: Store[T],
        selections: tuple[Selection, ...],
        *,
        is_optional: bool = False,
    ) -> None:
        pages = await asyncio.gather(*(self._list(resource, s) for s in selections))
        objects = tuple(found for page in pages for found in page.objects)
        unreadable = tuple(found for page in pages for found in page.unreadable)
        if any(page.version == _NOT_SERVED for page in pages):
            if not is_optional:
                raise CtlError(unknown_kind(resource))
            self.unknown_kinds.add(resource.plural)
        store.replace(Page(objects, unreadable, ""))

    async def _list(self, resource: Resource[T], selection: Selection) -> Page[T]:
        """List a kind; an empty page, and a note, where that may not be done."""
        try:
            return await self.client.list(resource, selection)
        except Forbidden:
            self.note_missing(missing_right("list", resource, selection.namespace))
        except Unavailable as error:
            if not error.is_unknown_kind:
                raise
            return Page((), (), _NOT_SERVED)
        return Page((), (), "")

    async def _read_endpoints(self, services: set[ObjectKey]) -> None:
        names = ",".join(sorted({service.name for service in services}))
        chosen = Selection(self.namespace, f"{SERVICE_LABEL} in ({names})")
        page = await self._list(ENDPOINT_SLICES, chosen)
        for namespace in {service.namespace for service in services}:
            if self.missing_right(ENDPOINT_SLICES, namespace) is None:
                slices = slice_store(namespace)
                slices.replace(page)
                self.view.endpoints.open(namespace, slices)


def _depends_on_nodes(group: BackendGroup) -> bool:
    # Nodes are many, and most who ask may not read them: only where the controller said so.
    drained = find(group.status.conditions, DRAINED_BY_HAND)
    by_hand = drained is not None and drained.status is True
    return by_hand or isinstance(group.selection, NodeSelection)


def not_found(reading: Reading, kind: Kind, key: ObjectKey) -> ObjectNotFound:
    """Return the error for an object that is absent, unreadable, or may not be read.

    For a group or load balancer that a Bind has, the Bind decides.
    """
    # A Bind is looked for among the groups, where its key says that it is one.
    name = object_ref(Kind.GROUP if kind is Kind.BIND else kind, key)
    bind = bind_of(key)
    resource, store_of = STORES[kind if bind is None else Kind.BIND]
    unreadable = store_of(reading.view).unreadable.get(bind or key)
    right = reading.missing_right(resource, key.namespace)
    if right is not None:
        return ObjectNotFound(f"{name}: {right}")
    if resource.plural in reading.unknown_kinds:
        return ObjectNotFound(f"{name}: {unknown_kind(resource)}")
    if unreadable is not None:
        return ObjectNotFound(f"{name} cannot be understood: {unreadable}")
    return ObjectNotFound(f"there is no {name} in namespace {key.namespace}")


def unread_lines(
    reading: Reading, namespace: str, *kinds: Resource[Any]
) -> Iterator[Line]:
    """Return a line for each of these kinds that may not be read in a namespace."""
    for kind in kinds:
        right = reading.missing_right(kind, namespace)
        if right is not None:
            yield Line(Mark.UNKNOWN, kind.plural, f"we {right}", Reason.NOT_READ)


def unreadable_groups(reading: Reading, namespace: str) -> Iterator[Line]:
    """Return lines for the groups and Binds that could not be read or understood.

    Args:
        reading: what was read.
        namespace: where, empty for all that was asked about.
    """
    yield from unread_lines(reading, namespace, GROUPS, BINDS)
    for kind in (Kind.GROUP, Kind.BIND):
        _, store_of = STORES[kind]
        for key, error in sorted(store_of(reading.view).unreadable.items()):
            if namespace in {"", key.namespace}:
                text = f"cannot be understood: {error}"
                yield Line(Mark.UNKNOWN, object_ref(kind, key), text, Reason.UNREADABLE)
