"""Gives Services the addresses of their class, and takes them back.

The order that keeps an address from being with two is in `lbcf.core.lifecycle.addresses`.
"""

import asyncio

from collections import defaultdict
from collections.abc import Iterable

import structlog

from lbcf.controller.view import View
from lbcf.core.lifecycle import addresses
from lbcf.core.lifecycle.services import Derived
from lbcf.core.model import names
from lbcf.core.model.nodes import NodePortService
from lbcf.core.model.resources import LoadBalancer
from lbcf.core.model.services import Exposure, LoadBalancerClass
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import Explanation, Reason
from lbcf.executor.services import ClassWriter
from lbcf.kube.errors import NotFound
from lbcf.kube.kinds import LOAD_BALANCERS, SERVICES
from lbcf.kube.list_watch import Selection
from lbcf.kube.reader import KubeReader


_log = structlog.get_logger(__name__)


class Addresses:
    """The addresses of all classes.

    Args:
        view: what has been read.
        writer: writes which addresses a class has given.
        reader: says by quorum reads that nothing of a Service is left.
    """

    def __init__(self, view: View, writer: ClassWriter, reader: KubeReader) -> None:
        self._view = view
        self._writer = writer
        self._reader = reader
        # Services of one class write one object: each conflict would cost a second.
        self._turns: defaultdict[ObjectKey, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def of(
        self,
        service: NodePortService,
        exposure: Exposure,
        kind: LoadBalancerClass,
        owned: Iterable[Derived],
    ) -> str | Explanation:
        """Return the address of a Service, empty where its class gives none.

        Args:
            service: that is to have one.
            exposure: of it.
            kind: its class.
            owned: what was derived from it when this was asked: the answer may be written
                into these load balancers, and into none that are made later.

        Raises:
            KubeError: the class could not be read or written.
        """
        if not kind.addresses:
            return ""
        known = addresses.address_of(kind, service.meta.uid)
        if known is not None and not known.is_releasing and _have(owned, known.address):
            return known.address
        async with self._turns[kind.meta.key]:
            return await self._find_or_give(service, exposure, kind.meta.key)

    async def _find_or_give(
        self, service: NodePortService, exposure: Exposure, key: ObjectKey
    ) -> str | Explanation:
        """Return the address that a class has given to a Service, or gives it now."""
        fresh = await self._writer.read(key)
        found = addresses.address_of(fresh, service.meta.uid)
        if found is not None and found.is_releasing:
            message = f"its address {found.address} of before is being released"
            return Explanation(Reason.AWAITING_ADDRESS, message)
        if found is not None:
            return found.address
        return await self._give(service, exposure, fresh)

    async def _give(
        self, service: NodePortService, exposure: Exposure, kind: LoadBalancerClass
    ) -> str | Explanation:
        """Write down that a Service has an address from now on."""
        classes = self._view.classes.values()
        own, others = self._carried(service)
        others |= {
            one.address
            for other in classes
            if other.meta.key != kind.meta.key
            for one in other.given
        }
        given = addresses.overlapping(kind, classes) or addresses.given_to(
            kind, service.meta, exposure, elsewhere=others, own=own
        )
        if isinstance(given, Explanation):
            return given
        await self._writer.write_given(kind.meta, given)
        address = given[-1].address
        key = str(service.meta.key)
        _log.info("address.given", service=key, address=address)
        return address

    def _carried(self, service: NodePortService) -> tuple[list[str], set[str]]:
        """Find the addresses that load balancers of a Service have, and those of others."""
        own: list[str] = []
        others: set[str] = set()
        for one in self._view.load_balancers.values():
            is_own = one.meta.labels.get(names.LABEL_EXPOSES_UID) == service.meta.uid
            if one.address and is_own:
                own.append(one.address)
            elif one.address and not self._is_shared(one, service):
                others.add(one.address)
        return own, others

    def _is_shared(self, balancer: LoadBalancer, service: NodePortService) -> bool:
        """Return whether the Service of a load balancer shares its address with another."""
        name = balancer.meta.labels.get(names.LABEL_EXPOSES, "")
        owner = self._view.services.get(ObjectKey(balancer.meta.key.namespace, name))
        sharing = addresses.sharing_of(service.meta)
        return (
            bool(sharing)
            and owner is not None
            and (addresses.sharing_of(owner.meta) == sharing)
        )

    def is_releasing(self, uid: Uid) -> bool:
        """Return whether an address of a Service is on its way back."""
        found = (
            addresses.address_of(kind, uid) for kind in self._view.classes.values()
        )
        return any(one is not None and one.is_releasing for one in found)

    async def mark(self, uid: Uid) -> None:
        """Mark the addresses of a Service before its load balancers are looked for (rule 2).

        Raises:
            KubeError: a class could not be written.
        """
        for key in self._giving(uid):
            async with self._turns[key]:
                kind = await self._writer.read(key)
                given = addresses.releasing(kind, uid)
                if given != kind.given:
                    await self._writer.write_given(kind.meta, given)

    async def release(self, uid: Uid) -> None:
        """Take back what was marked; the API server has said that no load balancer is left.

        Raises:
            KubeError: a class could not be written.
        """
        for key in self._giving(uid):
            async with self._turns[key]:
                kind = await self._writer.read(key)
                found = addresses.address_of(kind, uid)
                if found is not None and found.is_releasing:
                    left = addresses.released(kind, uid)
                    await self._writer.write_given(kind.meta, left)
                    _log.info("address.released", address=found.address)

    async def collect(self, key: ObjectKey, living: Uid | None) -> bool:
        """Take back what Services of a name have that do not exist any more.

        Returns:
            False: load balancers of some are still there.

        Raises:
            KubeError: the API server could not be asked.
        """
        classes = self._view.classes.values()
        uids = {one.uid for kind in classes for one in kind.given if one.service == key}
        done = [await self._collect(key, uid) for uid in uids - {living}]
        return all(done)

    async def _collect(self, key: ObjectKey, uid: Uid) -> bool:
        try:
            found = await self._reader.get(SERVICES, key)
        except NotFound:
            found = None
        if found is not None and found.meta.uid == uid:
            return True  # it is there: the view is behind
        await self.mark(uid)
        label = f"{names.LABEL_EXPOSES_UID}={uid}"
        selection = Selection(namespace=key.namespace, labels=label)
        page = await self._reader.list(LOAD_BALANCERS, selection)
        if page.objects or page.unreadable:
            return False
        await self.release(uid)
        return True

    def _giving(self, uid: Uid) -> list[ObjectKey]:
        """Find the classes of which a Service has an address."""
        return [
            kind.meta.key
            for kind in self._view.classes.values()
            if addresses.address_of(kind, uid) is not None
        ]


def _have(owned: Iterable[Derived], address: str) -> bool:
    """Return whether all load balancers have an address: nothing is to be written."""
    balancers = (one for one in owned if isinstance(one, LoadBalancer))
    return all(one.address == address for one in balancers)
