"""One group: snapshot -> plan -> guards -> validations -> quota -> writes.

Before it: `triggers` put the group's key into the queue, with the pods that changed.
After it: records are written, and `status` has something new to tell.
"""

from collections.abc import Callable

import structlog

from lbcf.controller.apply import Applier, worst_of
from lbcf.controller.decision import (
    Decision,
    doubts_of,
    guarded_plan,
    held_by_guards,
)
from lbcf.controller.judgements import Judgements
from lbcf.controller.node_doubts import NodeDoubts
from lbcf.controller.node_scene import is_local
from lbcf.controller.record_quota import RecordQuota
from lbcf.controller.removals import Removals
from lbcf.controller.scopes import Scopes
from lbcf.controller.service_grace import ServiceGrace
from lbcf.controller.snapshot import take_snapshot
from lbcf.controller.validations import Validations
from lbcf.controller.view import View
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.plan import Plan
from lbcf.runtime.worker import Done, Failed, RequeueAfter, Result


_log = structlog.get_logger(__name__)


class Reconciler:
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
        decided: told what was decided about a group.
    """

    def __init__(
        self,
        view: View,
        scopes: Scopes,
        judgements: Judgements,
        validations: Validations,
        quota: RecordQuota,
        *,
        grace: ServiceGrace,
        applier: Applier,
        removals: Removals,
        decided: Callable[[ObjectKey, Decision], None],
    ) -> None:
        self._view = view
        self._scopes = scopes
        self._applier = applier
        self._removals = removals
        self._judgements = judgements
        self._validations = validations
        self._quota = quota
        self._grace = grace
        self._decided = decided
        self._node_doubts = NodeDoubts()

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
        # Its records are ended by the garbage collector, through ownerReferences.
        if group is None or group.meta.deleting_since is not None:
            self._node_doubts.forget(key)
            self._validations.forget(key)
            self._quota.forget(key)
            self._grace.forget(key)
            return Plan()
        counts_all = group.max_unready_percent is not None or group.webhook is not None
        if counts_all or is_local(self._view, group) or self._quota.is_waiting(key):
            # The guards count all of the group, a driver judges all of it, and what it
            # could not create before is wanted still.
            scope = None
        kept = self._grace.consider(group)
        snapshot = kept or take_snapshot(self._view, group, scope)
        if isinstance(snapshot, Explanation):
            return self._undecided(key, snapshot)
        snapshot = self._judgements.consider(snapshot)
        plan, unagreed = self._validations.consider(snapshot, guarded_plan(snapshot))
        plan, beyond = self._quota.consider(key, plan)
        nodes = self._node_doubts.learn(key, scope, plan.waiting)
        doubts = (*beyond, *doubts_of(snapshot), *dict.fromkeys(unagreed), *nodes)
        self._decided(key, Decision(doubts, held_by_guards(plan)))
        self._applier.withdraw(plan.removals)
        self._removals.decided(snapshot.records, plan.removals)
        return plan

    def _undecided(self, key: ObjectKey, doubt: Explanation) -> Plan:
        """Leave all of a group as it is."""
        self._decided(key, Decision((doubt,)))
        self._removals.undecided(key)
        return Plan()

    async def _apply(self, key: ObjectKey, plan: Plan) -> Result:
        """Write a plan; if any of it fails, the whole group is looked at again."""
        try:
            with self._quota.booked(key, len(plan.creates)):
                again = await self._applier.apply(plan)
        except ExceptionGroup as errors:
            self._scopes.widen(key)
            error = worst_of(errors)
            _log.warning("plan.failed", group=str(key), error=str(error))
            return Failed(error)
        if again is None:
            return Done()
        self._scopes.widen(key)
        return RequeueAfter(again)
