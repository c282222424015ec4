"""Reads of the cluster what a question is about, into the controller's own view.

Before it: flags say which namespace. After it: the modules of this package ask the view
what the controller asks it. What may not be read is no answer: it is named as a gap, and
what depends on it counts as unreadable, as it would for the controller.
"""

import asyncio

from collections.abc import Iterable
from typing import Any, TypeVar

import attrs

from lbcf.controller.bind_view import BindView
from lbcf.controller.node_scene import is_local
from lbcf.controller.view import LIVING_PODS, View
from lbcf.core.model.names import SYSTEM_NAMESPACE, bind_of
from lbcf.core.model.node_backends import NodeSelection, ServiceSelection
from lbcf.core.model.nodes import SERVICE_LABEL, EndpointSlice
from lbcf.core.model.resources import BackendGroup, PodSelection, StaticSelection
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import Explanation
from lbcf.ctl.errors import CtlError
from lbcf.ctl.gaps import Gap, gap_for, is_unknown_kind, unknown_kind
from lbcf.ctl.leaders import LEASES_OF
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
from lbcf.kube.leases import LEASES, Lease
from lbcf.kube.list_watch import Obscured, Page, Selection, Unreadable
from lbcf.kube.store import Store
from lbcf.wire.metadata import Identity


T = TypeVar("T", bound=HasMeta)

_MISSING = "-"
"""In the place of a list's version: the kind is not installed."""


@attrs.define
class Reading:
    """What was read.

    Attributes:
        namespace: the one asked about, None for all of them.
        view: as the controller has it, of these namespaces and of what they share.
        gaps: what may not be read, by plural of the resource and namespace.
        missing: plurals of the kinds that the cluster does not know.
    """

    client: KubeClient
    namespace: str | None
    view: View = attrs.Factory(View)
    gaps: dict[tuple[str, str], Gap] = attrs.Factory(dict)
    missing: set[str] = attrs.Factory(set)
    _hidden: set[tuple[str, ObjectKey]] = attrs.Factory(set)

    def gap(self, resource: Resource[Any], namespace: str) -> Gap | None:
        """Say why objects of a namespace could not be read, None: they were."""
        places = (namespace, "*", "")
        found = (self.gaps.get((resource.plural, place)) for place in places)
        return next((gap for gap in found if gap is not None), None)

    def note(self, gap: Gap) -> None:
        """Note that something may not be read."""
        self.gaps[gap.resource.partition(".")[0], gap.namespace] = gap

    def is_hidden(self, resource: Resource[Any], key: ObjectKey) -> bool:
        """Tell whether something is referred to and may not be read."""
        return (resource.plural, key) in self._hidden

    def lacking_driver(self, key: ObjectKey) -> Explanation | None:
        """Say why there is no driver; None: there is one, or we may not read it."""
        found = self.view.driver(key)
        if not isinstance(found, Explanation) or self.is_hidden(DRIVERS, key):
            return None
        return found

    def unread(self) -> tuple[str, ...]:
        """Say what may not be read, and matters for what was asked."""
        return tuple(
            str(gap)
            for gap in self.gaps.values()
            if gap.namespace != SYSTEM_NAMESPACE
            or self.is_meant(SYSTEM_NAMESPACE)
            or any(key.namespace == SYSTEM_NAMESPACE for _, key in self._hidden)
        )

    def is_meant(self, namespace: str) -> bool:
        """Tell whether a namespace is what was asked about."""
        return self.namespace in {None, namespace}

    async def ours(self) -> None:
        """Read our own kinds, and what is shared from kube-system.

        Raises:
            CtlError: our kinds are not installed.
            KubeError: the API server cannot be asked.
        """
        view, here = self.view, (Selection(self.namespace),)
        shared: tuple[Selection, ...] = here
        if self.namespace not in {None, SYSTEM_NAMESPACE}:
            shared = (*here, Selection(SYSTEM_NAMESPACE))
        BindView(view, lambda _key: None).listen()
        await asyncio.gather(
            self._fill(GROUPS, view.groups, here),
            self._fill(RECORDS, view.records, here),
            self._fill(LOAD_BALANCERS, view.load_balancers, shared),
            self._fill(DRIVERS, view.drivers, shared),
            self._fill(BINDS, view.binds, here, may_be_missing=True),
        )
        self.note_hidden()

    async def nodes(self) -> None:
        """Read the nodes.

        Raises:
            KubeError: the API server cannot be asked.
        """
        await self._fill(NODES, self.view.nodes, (Selection(),))

    async def leases(self) -> tuple[Lease, ...]:
        """Read the Leases of our processes, wherever they are.

        Raises:
            KubeError: the API server cannot be asked.
        """
        chosen = (Selection(fields=f"metadata.name={name}") for name in LEASES_OF)
        pages = await asyncio.gather(*(self._list(LEASES, one) for one in chosen))
        return tuple(lease for page in pages for lease in page.objects)

    async def around(self, groups: Iterable[BackendGroup]) -> None:
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
            living = attrs.evolve(LIVING_PODS, namespace=self.namespace)
            reads.append(self._fill(PODS, view.pods, (living,)))
        of_nodes = any(isinstance(group.selection, NodeSelection) for group in found)
        if (services or of_nodes) and not len(view.nodes):
            reads.append(self.nodes())
        if services:
            here = (Selection(self.namespace),)
            reads.append(self._fill(SERVICES, view.services, here))
            reads.append(self._endpoints(services))
        await asyncio.gather(*reads)

    def blocked(self, group: BackendGroup) -> Gap | None:
        """Say what keeps us from deciding about a group as the controller does."""
        namespace = group.meta.key.namespace
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
        gaps = (self.gap(kind, namespace) for kind in kinds)
        return next((gap for gap in gaps if gap is not None), None)

    async def _fill(
        self,
        resource: Resource[T],
        store: Store[T],
        selections: tuple[Selection, ...],
        *,
        may_be_missing: bool = False,
    ) -> None:
        """Put lists into a store; a right that is missing leaves a gap."""
        pages = await asyncio.gather(*(self._list(resource, s) for s in selections))
        objects = tuple(found for page in pages for found in page.objects)
        unreadable = tuple(found for page in pages for found in page.unreadable)
        if any(page.version == _MISSING for page in pages):
            if not may_be_missing:
                raise CtlError(unknown_kind(resource))
            self.missing.add(resource.plural)
        store.replace(Page(objects, unreadable, ""))

    async def _list(self, resource: Resource[T], selection: Selection) -> Page[T]:
        """List what is true now."""
        try:
            return await self.client.list(resource, selection)
        except Forbidden:
            gap = gap_for("list", resource, selection.namespace)
            self.note(gap)
        except Unavailable as error:
            if not is_unknown_kind(error):
                raise
            return Page((), (), _MISSING)
        return Page((), (), "")

    async def _endpoints(self, services: set[ObjectKey]) -> None:
        """Read the EndpointSlices of some Services."""
        names = ",".join(sorted({service.name for service in services}))
        chosen = Selection(self.namespace, f"{SERVICE_LABEL} in ({names})")
        page = await self._list(ENDPOINT_SLICES, chosen)
        for service in services:
            if self.gap(ENDPOINT_SLICES, service.namespace) is None:
                slices: Store[EndpointSlice] = Store()
                slices.replace(_part_of(page, service))
                self.view.endpoints.open(service, slices)

    def note_hidden(self) -> None:
        """Have what is referred to, and may not be read, count as unreadable."""
        view = self.view
        for group in view.groups.values():
            for name in group.load_balancers:
                key = group.load_balancer_key(name)
                gap = self.gap(LOAD_BALANCERS, key.namespace)
                if gap is not None and bind_of(key) is None:
                    self._obscure(LOAD_BALANCERS, view.load_balancers, key, gap)
        drivers = {balancer.driver_key for balancer in view.load_balancers.values()}
        drivers |= {record.driver_key for record in view.records.values()}
        for key in drivers:
            gap = self.gap(DRIVERS, key.namespace)
            if gap is not None:
                self._obscure(DRIVERS, view.drivers, key, gap)

    def _obscure(
        self, resource: Resource[T], store: Store[T], key: ObjectKey, gap: Gap
    ) -> None:
        """Note that something may be there that we may not read."""
        self._hidden.add((resource.plural, key))
        told = Unreadable(Identity(key, Uid(""), ""), f"we {gap}")
        store.apply(Obscured(told))


def _part_of(page: Page[EndpointSlice], service: ObjectKey) -> Page[EndpointSlice]:
    """Find the slices of one Service; of what cannot be read nobody knows whose it is."""
    found = tuple(
        one
        for one in page.objects
        if one.meta.key.namespace == service.namespace
        and one.meta.labels.get(SERVICE_LABEL) == service.name
    )
    return Page(found, page.unreadable, page.version)
