"""Writes Services (our mark, their status), and what they are derived into."""

import asyncio

from collections.abc import Iterable
from typing import TypeVar

from lbcf.core.lifecycle.services import Derived, ServicePlan
from lbcf.core.model.conditions import Condition
from lbcf.core.model.nodes import NodePortService
from lbcf.core.model.resources import BackendGroup, LoadBalancer, Meta
from lbcf.core.model.services import GivenAddress, LoadBalancerClass
from lbcf.core.model.values import Ingress, ObjectKey
from lbcf.core.reasons import Explanation, Reason
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import AlreadyExists, Forbidden, Invalid
from lbcf.kube.kinds import HasMeta
from lbcf.wire.services import (
    render_derived,
    render_given,
    render_let_go,
    render_rederived,
    render_service_status,
    render_taken_up,
)


T = TypeVar("T", bound=HasMeta)


class ServiceWriter:
    """Writes by compare-and-swap.

    Args:
        services: writes Services.
        balancers: writes LoadBalancers.
        groups: writes BackendGroups.
    """

    def __init__(
        self,
        services: ObjectWriter[NodePortService],
        balancers: ObjectWriter[LoadBalancer],
        groups: ObjectWriter[BackendGroup],
    ) -> None:
        self._services = services
        self._balancers = balancers
        self._groups = groups

    async def take_up(self, meta: Meta, class_name: str) -> NodePortService:
        """Put our mark and the finalizer on a Service.

        Raises:
            KubeError: it could not be written.
        """
        return await self._services.patch(meta, render_taken_up(meta, class_name))

    async def let_go(self, meta: Meta) -> None:
        """Take them off.

        Raises:
            KubeError: it could not be written.
        """
        left = await self._services.patch(meta, render_let_go(meta), observe=False)
        # The last finalizer of one that is being deleted: it is gone.
        if left.meta.finalizers or meta.deleting_since is None:
            self._services.observe(left)
        else:
            self._services.store.observe_gone(meta)

    async def write_status(
        self,
        meta: Meta,
        ingress: tuple[Ingress, ...] | None,
        conditions: Iterable[Condition],
    ) -> NodePortService:
        """Write where a Service is reached, None: as it is, and its conditions.

        Raises:
            KubeError: it could not be written.
        """
        body = render_service_status(ingress, conditions)
        return await self._services.patch(meta, body, "status")

    async def carry_out(self, plan: ServicePlan, owner: Meta) -> list[Explanation]:
        """Create, change and delete what a plan says, each beside the others.

        Returns:
            Why the API server refuses some.

        Raises:
            ExceptionGroup: of KubeError; all other writes have been tried.
        """
        creates = (self._create(one, owner) for one in plan.create)
        updates = (self._update(one.found, one.wanted) for one in plan.update)
        deletes = (self._delete(one) for one in plan.delete)
        tasks = [*creates, *updates, *deletes]
        done = await asyncio.gather(*tasks, return_exceptions=True)
        failed = [error for error in done if isinstance(error, Exception)]
        if failed:
            raise ExceptionGroup(
                "a Service's load balancers are not as they should be", failed
            )
        return [one for one in done if isinstance(one, Explanation)]

    async def _create(self, wanted: Derived, owner: Meta) -> Explanation | None:
        body = render_derived(wanted, owner)
        try:
            if isinstance(wanted, LoadBalancer):
                await _created(self._balancers, wanted.meta, body)
            else:
                await _created(self._groups, wanted.meta, body)
        except (Invalid, Forbidden) as error:
            return _refused(wanted, error)
        return None

    async def _update(self, found: Derived, wanted: Derived) -> Explanation | None:
        body = render_rederived(found, wanted)
        try:
            if isinstance(found, LoadBalancer):
                await self._balancers.patch(found.meta, body)
            else:
                await self._groups.patch(found.meta, body)
        except (Invalid, Forbidden) as error:
            return _refused(wanted, error)
        return None

    async def _delete(self, found: Derived) -> None:
        if isinstance(found, LoadBalancer):
            await self._balancers.delete(found.meta)
        else:
            await self._groups.delete(found.meta)


class ClassWriter:
    """Writes which addresses a class has given, by compare-and-swap.

    Args:
        writer: writes LoadBalancerClasses.
    """

    def __init__(self, writer: ObjectWriter[LoadBalancerClass]) -> None:
        self._writer = writer

    async def read(self, key: ObjectKey) -> LoadBalancerClass:
        """Return a class as the API server has it.

        Raises:
            NotFound: there is none.
            KubeError: the API server could not be asked.
        """
        return await self._writer.read(key)

    async def write_given(self, meta: Meta, given: Iterable[GivenAddress]) -> None:
        """Write the whole record, if the class still is the version that was read.

        Raises:
            Conflict: it is another one.
            KubeError: it was not written, or nobody knows.
        """
        await self._writer.patch(meta, render_given(given), "status")


async def _created(
    writer: ObjectWriter[T], meta: Meta, body: dict[str, object]
) -> None:
    try:
        writer.observe(await writer.create(meta.key.namespace, body))
    except AlreadyExists:
        # Made by an earlier turn whose answer was lost, or by somebody else: it is seen now.
        await writer.refresh(meta.key)


def _refused(wanted: Derived, error: Exception) -> Explanation:
    kind, name = type(wanted).__name__, wanted.meta.key.name
    message = f"the API server refuses {kind} {name}: {error}"
    return Explanation(Reason.DERIVATION_REFUSED, message)
