"""Services of type LoadBalancer: each change of one, or of what it is derived into, is a turn.

What is decided is in `lbcf.core.lifecycle.services`; here it learns what is in the view, and
says what has become of it in the Service's status and in Events.
"""

from collections.abc import Iterable
from datetime import timedelta

import attrs
import structlog

from lbcf.controller.addresses import Addresses
from lbcf.controller.view import View
from lbcf.core.lifecycle.services import (
    Derived,
    ServicePlan,
    plan_service,
    reached_at,
    ready_condition,
)
from lbcf.core.model import conditions, names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.nodes import NodePortService
from lbcf.core.model.resources import LoadBalancer
from lbcf.core.model.services import (
    DerivedPort,
    Exposure,
    LoadBalancerClass,
    class_of,
    derive,
    has_finalizer_of_ours,
    is_held,
)
from lbcf.core.model.values import Ingress, ObjectKey
from lbcf.core.reasons import EventReason, Explanation, Reason
from lbcf.core.wording import some_of
from lbcf.executor.services import ServiceWriter
from lbcf.kube.errors import Conflict, NotFound
from lbcf.kube.events import EventRecorder, Reference
from lbcf.kube.kinds import GROUPS, LOAD_BALANCERS
from lbcf.kube.list_watch import Selection
from lbcf.kube.reader import KubeReader
from lbcf.runtime.clock import Clock
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, RequeueAfter, Result


_SOON = RequeueAfter(timedelta(seconds=1))
_RECHECK = RequeueAfter(timedelta(seconds=30))
"""Nobody tells when a name that strangers had, or a refusal's cause, is gone."""
_UNTOLD = frozenset(
    {Reason.NAME_TAKEN, Reason.DERIVATION_REFUSED, Reason.POOLS_OVERLAP}
)

_log = structlog.get_logger(__name__)


class Services:
    """Takes Services of type LoadBalancer through their life.

    Args:
        view: what has been read.
        writer: writes them, and what they are derived into.
        reader: says by a quorum read that nothing is left.
        recorder: of events.
        clock: the time.
        addresses: gives them those of their class.
        queue: of the Services' keys.
    """

    def __init__(
        self,
        view: View,
        writer: ServiceWriter,
        reader: KubeReader,
        recorder: EventRecorder,
        clock: Clock,
        *,
        addresses: Addresses,
        queue: WorkQueue[ObjectKey],
    ) -> None:
        self._view = view
        self._addresses = addresses
        self._writer = writer
        self._reader = reader
        self._recorder = recorder
        self._clock = clock
        self._queue = queue

    def listen(self) -> None:
        """Begin to listen, and look at all Services that there are, or were."""
        view = self._view
        view.services.follow(self.service_changed)
        view.load_balancers.follow(self.derived_changed)
        view.groups.follow(self.derived_changed)
        view.classes.follow(self.class_changed)

    def service_changed(
        self, old: NodePortService | None, new: NodePortService | None
    ) -> None:
        """Look at a Service that is, or was, to be balanced."""
        for one in (old, new):
            if one is not None and one.exposure:
                self._queue.add(one.meta.key)

    def derived_changed(self, old: Derived | None, new: Derived | None) -> None:
        """Look at the Service that something is derived from."""
        for one in (old, new):
            if one is not None and (name := one.meta.labels.get(names.LABEL_EXPOSES)):
                self._queue.add(ObjectKey(one.meta.key.namespace, name))
        # Its class may be gone, so that no record tells that an address is back.
        if new is None and isinstance(old, LoadBalancer) and old.address:
            self._look_again(unaddressed=True)

    def class_changed(
        self, old: LoadBalancerClass | None, new: LoadBalancerClass | None
    ) -> None:
        """Look at all Services, where more has changed than who has an address.

        Classes are few, and seldom change. Who has got an address knows it; when one is
        given back, those look again that wait for one.
        """
        before, after = (frozenset(one.given if one else ()) for one in (old, new))
        for given in before ^ after:
            self._queue.add(given.service)
        if not _is_only_given(old, new):
            self._look_again(unaddressed=False)
        elif before - after:
            self._look_again(unaddressed=True)

    def _look_again(self, *, unaddressed: bool) -> None:
        """Look at all Services, or at those alone for which there was no address left."""
        index = "unaddressed" if unaddressed else "exposed"
        for service in self._view.services.by_index(index, True):
            self._queue.add(service.meta.key)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Take one Service as far as it goes."""
        service = self._view.services.get(key)
        if key in self._view.services.unreadable:
            return Done()
        try:
            uid = None if service is None else service.meta.uid
            is_done = await self._addresses.collect(key, uid)
            if service is None:
                return Done() if is_done else _SOON
            return await self._turn(service)
        except* (Conflict, NotFound):
            _log.debug("service.met_another_version", service=str(key))
        return _SOON

    async def _turn(self, service: NodePortService) -> Result:
        """Have a Service balanced, or what was made for it taken away."""
        exposure = service.exposure
        name = "" if exposure is None else self._class_name(service, exposure)
        if exposure is None or not name:
            return await self._clean_up(service)
        kind = self._class(name)
        if isinstance(kind, Explanation):
            await self._tell(service, exposure, _failing(kind), None)
            return Done()
        if self._addresses.is_releasing(service.meta.uid):
            return await self._empty(service)
        if not is_held(service.meta):
            service = await self._take_up(service, name)
        # Before the address is asked for: it may be written into these alone.
        owned = self._owned(service.meta.key)
        address = await self._addresses.of(service, exposure, kind, owned)
        unaddressed = [address] if isinstance(address, Explanation) else []
        given = "" if isinstance(address, Explanation) else address
        parts = list(derive(service.meta, exposure, kind, given))
        plan = plan_service(service.meta, parts, owned, self._taken(parts))
        refused = await self._writer.carry_out(plan, service.meta)
        troubles = [*unaddressed, *plan.troubles, *refused]
        await self._report(service, kind, parts, troubles)
        is_untold = any(one.reason in _UNTOLD for one in troubles)
        return _RECHECK if is_untold else Done()

    def _class_name(self, service: NodePortService, exposure: Exposure) -> str:
        """Return the name of a Service's class, empty where it is none of ours."""
        defaults = (
            c.meta.key.name for c in self._view.classes.values() if c.is_default
        )
        return class_of(service.meta, exposure, min(defaults, default=""))

    def _class(self, name: str) -> LoadBalancerClass | Explanation:
        """Find a class, or say why it cannot be used."""
        key = ObjectKey("", name)
        found = self._view.classes.get(key)
        if (told := self._view.classes.unreadable.get(key)) is not None:
            message = f"LoadBalancerClass {name} cannot be understood: {told}"
            return Explanation(Reason.CLASS_NOT_FOUND, message)
        message = f"LoadBalancerClass {name} does not exist; create it"
        return found or Explanation(Reason.CLASS_NOT_FOUND, message)

    def _owned(self, key: ObjectKey) -> list[Derived]:
        """Find what is labelled as derived from a Service of this name."""
        view = self._view
        return [
            *view.load_balancers.by_index("service", key),
            *view.groups.by_index("exposed_by", key),
        ]

    def _taken(self, parts: Iterable[DerivedPort | Explanation]) -> set[str]:
        """Find the names that strangers have."""
        keys = [p.balancer.meta.key for p in parts if isinstance(p, DerivedPort)]
        stores = (self._view.load_balancers, self._view.groups)
        found = ((key, store.get(key)) for key in keys for store in stores)
        return {
            key.name
            for key, one in found
            if one is not None and names.LABEL_EXPOSES not in one.meta.labels
        }

    async def _take_up(self, service: NodePortService, name: str) -> NodePortService:
        """Mark a Service as ours before anything is made for it."""
        held = await self._writer.take_up(service.meta, name)
        self._record(
            service,
            EventReason.ENSURING_LOAD_BALANCER,
            "Ensure",
            f"taken up with LoadBalancerClass {name}",
        )
        return held

    async def _report(
        self,
        service: NodePortService,
        kind: LoadBalancerClass,
        parts: Iterable[DerivedPort | Explanation],
        troubles: list[Explanation],
    ) -> None:
        """Say where a Service is reached, and what is the matter with its ports."""
        exposure = service.exposure
        if exposure is None:
            return
        ports = [part for part in parts if isinstance(part, DerivedPort)]
        keys = (port.balancer.meta.key for port in ports)
        known = ((key.name, self._view.load_balancers.get(key)) for key in keys)
        found = {
            name: one
            for name, one in known
            if one is not None and names.LABEL_EXPOSES in one.meta.labels
        }
        ingress = reached_at(ports, found, kind)
        condition = ready_condition(troubles, ports, found, ingress)
        await self._tell(service, exposure, condition, ingress)

    async def _tell(
        self,
        service: NodePortService,
        exposure: Exposure,
        condition: Condition,
        ingress: tuple[Ingress, ...] | None,
    ) -> None:
        """Write the status if it says anything new, and the Event of what is new."""
        before = conditions.find(exposure.conditions, condition.type)
        found = conditions.with_condition(
            exposure.conditions, condition, self._clock.now()
        )
        is_reached = ingress is None or ingress == exposure.ingress
        if found == exposure.conditions and is_reached:
            return
        await self._writer.write_status(service.meta, ingress, found)
        if before is not None and condition.says_the_same(before):
            return
        if condition.status is True:
            reason, warning = EventReason.ENSURED_LOAD_BALANCER, False
        elif condition.reason is Reason.CREATING:
            return  # it is on its way
        else:
            reason, warning = EventReason.SYNC_LOAD_BALANCER_FAILED, True
        note = (
            condition.message
            if not warning
            else f"{condition.reason}: {condition.message}"
        )
        self._record(service, reason, "Ensure", note, warning=warning)

    async def _empty(self, service: NodePortService) -> Result:
        """Take away what has an address that is being released, then give it back."""
        meta, owned = service.meta, self._owned(service.meta.key)
        doomed = tuple(one for one in owned if one.meta.deleting_since is None)
        await self._writer.carry_out(ServicePlan(delete=doomed), meta)
        if not await self._is_anything_left(service):
            await self._addresses.release(meta.uid)
        return _SOON

    async def _clean_up(self, service: NodePortService) -> Result:
        """Take away what was made for a Service, then our mark."""
        meta, owned = service.meta, self._owned(service.meta.key)
        held = has_finalizer_of_ours(meta, service.exposure)
        await self._addresses.mark(meta.uid)
        doomed = [one for one in owned if one.meta.deleting_since is None]
        if doomed:
            if held:
                listed = some_of(sorted({one.meta.key.name for one in doomed}))
                self._record(
                    service, EventReason.DELETING_LOAD_BALANCER, "Delete", listed
                )
            await self._writer.carry_out(ServicePlan(delete=tuple(doomed)), meta)
        if not held or self._owned(meta.key):
            return Done()
        if await self._is_anything_left(service):
            return _SOON
        await self._addresses.release(meta.uid)
        if meta.deleting_since is None and service.exposure is not None:
            service = await self._clear(service, service.exposure)
        await self._writer.let_go(service.meta)
        note = "nothing is left of its load balancers"
        self._record(service, EventReason.DELETED_LOAD_BALANCER, "Delete", note)
        return Done()

    async def _is_anything_left(self, service: NodePortService) -> bool:
        """Ask the API server itself: what another controller has made meanwhile counts."""
        label = f"{names.LABEL_EXPOSES}={service.meta.key.name}"
        selection = Selection(namespace=service.meta.key.namespace, labels=label)
        balancers = await self._reader.list(LOAD_BALANCERS, selection)
        groups = await self._reader.list(GROUPS, selection)
        pages = (balancers, groups)
        return any(page.objects or page.unreadable for page in pages)

    async def _clear(
        self, service: NodePortService, exposure: Exposure
    ) -> NodePortService:
        """Take what we have said out of the status of a Service that lives on."""
        ours = conditions.LOAD_BALANCER_READY
        left = tuple(c for c in exposure.conditions if c.type != ours)
        if left == exposure.conditions and not exposure.ingress:
            return service
        return await self._writer.write_status(service.meta, (), left)

    def _record(
        self,
        service: NodePortService,
        reason: EventReason,
        action: str,
        note: str,
        *,
        warning: bool = False,
    ) -> None:
        """Record an Event about a Service."""
        about = Reference("v1", "Service", service.meta.key, service.meta.uid)
        self._recorder.record(
            about, reason=reason, action=action, note=note, warning=warning
        )


def _is_only_given(
    old: LoadBalancerClass | None, new: LoadBalancerClass | None
) -> bool:
    """Return whether a class differs in nothing but who has its addresses."""
    if old is None or new is None:
        return False
    return attrs.evolve(old, meta=new.meta, given=new.given) == new


def _failing(why: Explanation) -> Condition:
    return Condition(conditions.LOAD_BALANCER_READY, False, why.reason, why.message)
