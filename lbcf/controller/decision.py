"""What is decided about a group, as one value: no queue, no driver, no write.

`groups` writes the plan and `group_status` the conditions; `lbcf.ctl` shows both to people
and writes nothing.
"""

from collections.abc import Collection, Mapping

import attrs

from lbcf.core.model import conditions
from lbcf.core.model.cluster import Snapshot
from lbcf.core.model.conditions import Condition
from lbcf.core.model.values import ObjectKey
from lbcf.core.model.verdicts import Undecided
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.plan import Hold, Plan, hold_readiness_removals, plan_group
from lbcf.core.selection.webhook_policy import KEPT_BY_WEBHOOK
from lbcf.core.wording import some_of


_GUARDS = KEPT_BY_WEBHOOK | {
    Reason.TOO_MANY_UNREADY,
    Reason.LAST_SERVING_NODE,
    Reason.AWAITING_REPLACEMENT,
}
"""Reasons for which a removal is held back."""


@attrs.frozen
class Decision:
    """What was decided about a group, for its status.

    Attributes:
        doubts: why some or all of it is left as it is.
        held: removals that a guard holds.
    """

    doubts: tuple[Explanation, ...] = ()
    held: tuple[Hold, ...] = ()


def guarded_plan(snapshot: Snapshot) -> Plan:
    """Return what is to be written for a group, with what its guards hold taken out."""
    return hold_readiness_removals(
        plan_group(snapshot), snapshot.group.max_unready_percent
    )


def held_by_guards(plan: Plan) -> tuple[Hold, ...]:
    """Find the removals of a plan that a guard holds."""
    return tuple(hold for hold in plan.holds if hold.reason in _GUARDS)


def postponed_creates(plan: Plan) -> tuple[Explanation, ...]:
    """Return why some of a plan's creates wait, if any do."""
    if not plan.postponed:
        return ()
    message = (
        f"{plan.postponed} new backends wait for as many that leave the same load "
        "balancer, because protection.order is DeregisterFirst"
    )
    return (Explanation(Reason.AWAITING_DEPARTURES, message),)


def doubts_of(snapshot: Snapshot) -> tuple[Explanation, ...]:
    """Return why some of a group is left as it is, as far as a snapshot tells."""
    trouble = snapshot.webhook_decision.trouble
    judge = () if trouble is None else (trouble,)
    closed = None if snapshot.scene is None else snapshot.scene.closed
    port = () if closed is None else (closed,)
    first = (*snapshot.undecided.values(), *snapshot.leaving.values())
    return tuple(dict.fromkeys((*first, *judge, *port)))


def conditions_of(decision: Decision, generation: int) -> tuple[Condition, Condition]:
    """Return the conditions that tell what was decided about that generation of a group."""
    return _ready(decision, generation), _held(decision, generation)


def _ready(decision: Decision, generation: int) -> Condition:
    """Return whether all of it could be decided."""
    if not decision.doubts:
        message = "every load balancer of the group can be used"
        return Condition(conditions.READY, True, Reason.RECONCILED, message, generation)
    reason = decision.doubts[0].reason
    message = "; ".join(doubt.message for doubt in decision.doubts)
    return Condition(conditions.READY, False, reason, message, generation)


def _held(decision: Decision, generation: int) -> Condition:
    """Return whether removals are held."""
    kind = conditions.REMOVALS_HELD
    if not decision.held:
        message = "no removal is held back"
        return Condition(kind, False, Reason.NOT_HELD, message, generation)
    first = decision.held[0]
    names = [hold.record.meta.key.name for hold in decision.held]
    message = f"{first.message}; held: {some_of(names)}"
    return Condition(kind, True, first.reason, message, generation)


class NodeDoubts:
    """By group, the nodes that wait, and why.

    A turn may look only at the nodes that changed: what it finds of those must not make
    the group's status forget the others.
    """

    def __init__(self) -> None:
        self._waiting: dict[ObjectKey, dict[str, Undecided]] = {}

    def learn(
        self,
        group: ObjectKey,
        scope: Collection[str] | None,
        waiting: Mapping[str, Undecided],
    ) -> tuple[Explanation, ...]:
        """Take in what a turn found, and return all doubts that there are.

        Args:
            group: that was looked at.
            scope: names of the only nodes that were looked at, None for all.
            waiting: those that could not be judged. Those that are merely kept are
                told as removals that are held.
        """
        known = self._waiting.pop(group, {})
        if scope is None:
            known = {}
        for name in scope or ():
            known.pop(name, None)
        known.update(
            {n: w for n, w in waiting.items() if w.reason != Reason.LAST_SERVING_NODE}
        )
        if known:
            self._waiting[group] = known
        return _doubts_by_reason(known)

    def forget(self, group: ObjectKey) -> None:
        """Forget a group that is gone."""
        self._waiting.pop(group, None)


def _doubts_by_reason(waiting: Mapping[str, Undecided]) -> tuple[Explanation, ...]:
    """Return a sentence for each reason, with the first few nodes."""
    found: dict[Reason, list[str]] = {}
    for _, doubt in sorted(waiting.items()):
        found.setdefault(doubt.reason, []).append(doubt.message)
    return tuple(
        Explanation(reason, some_of(messages, separator="; ", last="; and "))
        for reason, messages in found.items()
    )
