"""BackendGroups: snapshot -> plan -> guards -> validations -> quota -> order -> writes."""

from collections.abc import Callable
from datetime import timedelta

import attrs
import structlog

from lbcf.controller.apply import Applier, worst_of
from lbcf.controller.decision import (
    Decision,
    NodeDoubts,
    doubts_of,
    guarded_plan,
    held_by_guards,
    postponed_creates,
)
from lbcf.controller.driver_decisions import Judgements, Validations
from lbcf.controller.record_quota import RecordQuota
from lbcf.controller.removals import Removals
from lbcf.controller.snapshot import is_local, take_snapshot
from lbcf.controller.triggers import ChangedBackends
from lbcf.controller.view import View
from lbcf.core.model.cluster import Snapshot
from lbcf.core.model.node_backends import ServiceSelection
from lbcf.core.model.resources import BackendGroup, PodRef
from lbcf.core.model.values import ObjectKey, ReplaceOrder
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.plan import Plan, strays_of
from lbcf.core.selection.replacement import order_replacements, still_serves
from lbcf.runtime.clock import Clock
from lbcf.runtime.worker import Done, Failed, RequeueAfter, Result


_log = structlog.get_logger(__name__)


GRACE = timedelta(seconds=30)
"""From the first look that misses a Service until its nodes leave.

`kubectl replace --force` deletes a Service and creates it again a moment later:
deregistering all its nodes in between would empty the load balancer. A Service that is
gone for good lets its node port be given to another one, so the time is short.
"""


@attrs.frozen
class _Missing:
    """A Service that is not there, and since when that is known, in monotonic seconds."""

    service: ObjectKey
    since: float


class ServiceGrace:
    """Remembers since when Services are missed; a new process begins to count anew."""

    def __init__(self, view: View, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._missing: dict[ObjectKey, _Missing] = {}

    def consider(self, group: BackendGroup) -> Explanation | None:
        """Return why a group's nodes stay for now; None: nothing keeps them.

        A group that has no records has nothing to keep.
        """
        key, service = group.meta.key, self._missed_by(group)
        if service is None:
            self.forget(key)
            return None
        known = self._missing.get(key)
        if known is None or known.service != service:
            known = self._missing[key] = _Missing(service, self._clock.monotonic())
        if self._left(known) <= timedelta(0):
            return None
        message = (
            f"Service {service} does not exist; its nodes stay for "
            f"{GRACE.total_seconds():.0f} s in case it is being replaced, and leave then"
        )
        return Explanation(Reason.SERVICE_NOT_FOUND, message)

    def rest(self, group: ObjectKey) -> timedelta | None:
        """Return when a group's nodes are to leave; None: not yet decided, or already."""
        known = self._missing.get(group)
        left = timedelta(0) if known is None else self._left(known)
        return left if left > timedelta(0) else None

    def forget(self, group: ObjectKey) -> None:
        """Be done with a group."""
        self._missing.pop(group, None)

    def _missed_by(self, group: BackendGroup) -> ObjectKey | None:
        """Return which Service a group names that is not there."""
        selection, key = group.selection, group.meta.key
        if not isinstance(selection, ServiceSelection):
            return None
        service = ObjectKey(key.namespace, selection.name)
        services = self._view.services
        if service in services.unreadable or services.get(service) is not None:
            return None
        return service if self._view.records_of(key) else None

    def _left(self, missing: _Missing) -> timedelta:
        passed = self._clock.monotonic() - missing.since
        return GRACE - timedelta(seconds=passed)


class GroupReconciler:
    """Reconciles groups.

    Args:
        view: what has been read.
        scopes: which pods of a group changed.
        judgements: what drivers say of unready pods.
        validations: what drivers say of parameters.
        quota: how many records a namespace may have.
        grace: for how long a Service may be missing.
        applier: writes what plans create and update.
        removals: has the rest written, beside what follows.
        clock: the time.
        decided: told what was decided about a group.
        depart_after: has `depart` called for a group in a while.
    """

    def __init__(
        self,
        view: View,
        scopes: ChangedBackends,
        judgements: Judgements,
        validations: Validations,
        quota: RecordQuota,
        *,
        grace: ServiceGrace,
        applier: Applier,
        removals: Removals,
        clock: Clock,
        decided: Callable[[ObjectKey, Decision], None],
        depart_after: Callable[[ObjectKey, timedelta], None],
    ) -> None:
        self._view = view
        self._scopes = scopes
        self._applier = applier
        self._removals = removals
        self._judgements = judgements
        self._validations = validations
        self._quota = quota
        self._grace = grace
        self._clock = clock
        self._decided = decided
        self._depart_after = depart_after
        self._node_doubts = NodeDoubts()
        self._being_made: dict[ObjectKey, set[str]] = {}

    async def reconcile(self, key: ObjectKey) -> Result:
        """Make a group's records what they should be."""
        plan = self._plan(key, self._scopes.take(key))
        result = await self._apply(key, plan)
        if (rest := self._grace.rest(key)) is None or not isinstance(result, Done):
            return result
        self._scopes.widen(key)
        return RequeueAfter(rest)

    async def depart(self, key: ObjectKey) -> Result:
        """Remove what went while the group's turn is under way.

        A rollout makes new records all the time, and old ones must not wait for these.
        What else such a plan wants is left to the next turn.
        """
        if pods := self._scopes.take_leaving(key):
            self._plan(key, pods)
        return Done()

    def _plan(self, key: ObjectKey, scope: set[str] | None) -> Plan:
        """Decide about a group, and have removed what is to go.

        Args:
            key: of the group.
            scope: the only pods to look at, None for all.
        """
        unreadable = self._view.groups.unreadable.get(key)
        if unreadable is not None:
            return self._undecided(
                key, Explanation(Reason.GROUP_UNREADABLE, unreadable)
            )
        group = self._view.groups.get(key)
        # Once it is gone the garbage collector ends its records, through ownerReferences.
        # Until then somebody's finalizer may hold it, and nobody but we ends them.
        if group is None:
            self._forget(key)
            return Plan()
        scope = self._scope_of(group, scope)
        kept = self._grace.consider(group)
        snapshot = kept or take_snapshot(self._view, group, scope)
        if isinstance(snapshot, Explanation):
            return self._undecided(key, snapshot)
        snapshot = self._judgements.consider(snapshot)
        plan, unagreed = self._validations.consider(snapshot, guarded_plan(snapshot))
        self._scopes.keep(key, scope, strays_of(plan, snapshot))
        plan, beyond = self._quota.consider(key, plan)
        plan = self._ordered(snapshot, plan)
        beyond = (*beyond, *postponed_creates(plan))
        nodes = self._node_doubts.learn(key, scope, plan.waiting)
        doubts = (*beyond, *doubts_of(snapshot), *dict.fromkeys(unagreed), *nodes)
        self._decided(key, Decision(doubts, held_by_guards(plan)))
        self._applier.withdraw(plan.removals)
        self._removals.decided(snapshot.records, plan.removals)
        return plan

    def _forget(self, key: ObjectKey) -> None:
        self._node_doubts.forget(key)
        self._validations.forget(key)
        self._quota.forget(key)
        self._grace.forget(key)
        self._scopes.hold(key, frozenset())
        self._scopes.keep(key, None, frozenset())

    def _scope_of(self, group: BackendGroup, scope: set[str] | None) -> set[str] | None:
        """Return which pods to look at together; None: all."""
        key = group.meta.key
        counts_all = (
            group.max_unready_percent is not None
            or group.webhook is not None
            or group.replace_order is ReplaceOrder.DEREGISTER_FIRST
        )
        if counts_all or is_local(self._view, group) or self._quota.is_waiting(key):
            # The guards count all of the group, a driver judges all of it, and what it
            # could not create before is wanted still.
            return None
        pods = self._view.pods
        if scope is None or not any(
            still_serves(pod)
            for name in scope
            if (pod := pods.get(ObjectKey(key.namespace, name))) is not None
        ):
            return scope
        # Whether they stay depends on who is on the way in.
        pending = self._scopes.pending(key)
        if pending is None:
            return None
        being_made = self._being_made.get(key, set())
        return scope | pending | being_made | self._view.pods_coming(key)

    def _ordered(self, snapshot: Snapshot, plan: Plan) -> Plan:
        """Take out of a plan what others are to come, or to leave, before."""
        key, now = snapshot.group.meta.key, self._clock.now()
        plan = order_replacements(plan, snapshot, now)
        waiting = (h for h in plan.holds if h.reason == Reason.AWAITING_REPLACEMENT)
        backends = (hold.record.spec.backend for hold in waiting)
        pods = frozenset(b.name for b in backends if isinstance(b, PodRef))
        self._scopes.hold(key, pods)
        if plan.due is not None:
            self._depart_after(key, plan.due - now)
        return plan

    def _undecided(self, key: ObjectKey, doubt: Explanation) -> Plan:
        if self._quota.is_waiting(key):
            # Others may have the room; what it wants is decided when it can be.
            self._quota.forget(key)
            self._scopes.widen(key)
        self._decided(key, Decision((doubt,)))
        self._removals.undecided(key)
        return Plan()

    async def _apply(self, key: ObjectKey, plan: Plan) -> Result:
        """Write a plan; if any of it fails, the whole group is looked at again."""
        backends = (create.desired.spec.backend for create in plan.creates)
        self._being_made[key] = {b.name for b in backends if isinstance(b, PodRef)}
        try:
            with self._quota.booked(key, len(plan.creates)):
                again = await self._applier.apply(plan)
        except ExceptionGroup as errors:
            self._scopes.widen(key)
            error = worst_of(errors)
            _log.warning("plan.failed", group=str(key), error=str(error))
            return Failed(error)
        finally:
            del self._being_made[key]
        if again is None:
            return Done()
        self._scopes.widen(key)
        return RequeueAfter(again)
