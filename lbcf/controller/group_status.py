"""The status of BackendGroups: counts, conditions and events, no more often than needed.

All that happened since the last write is told at once: a rollout of thousands of pods costs
a handful of writes.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

import attrs

from prometheus_client import Gauge

from lbcf.controller.decision import Decision, conditions_of
from lbcf.controller.departures import Departures
from lbcf.controller.snapshot import count_nodes
from lbcf.controller.view import View
from lbcf.core.lifecycle import in_service
from lbcf.core.lifecycle.departures import cut_condition, with_departures
from lbcf.core.lifecycle.serving import (
    count_in_service,
    is_asked,
    serving_condition,
)
from lbcf.core.model import conditions
from lbcf.core.model.binds import Bind
from lbcf.core.model.conditions import Condition
from lbcf.core.model.departures import Departure
from lbcf.core.model.names import bind_of
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    GroupStatus,
    PodRef,
    PodSelection,
    StaticSelection,
)
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import EventReason, Reason
from lbcf.core.selection.drain_gate import gate_condition
from lbcf.core.selection.hand_drain import said_of
from lbcf.core.selection.plan import Removal
from lbcf.core.wording import some_of
from lbcf.executor.object_events import reference_to
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import Conflict, NotFound
from lbcf.kube.events import EventRecorder
from lbcf.kube.requests import Body
from lbcf.runtime.clock import Clock
from lbcf.runtime.metrics import Metrics
from lbcf.runtime.worker import Done, Parked, RequeueAfter, Result
from lbcf.wire.resources import render_group_status


_BETWEEN_WRITES = timedelta(seconds=5)
_UNTOLD_AT_MOST = timedelta(minutes=1)
"""How long a departure may wait for the next change of the counts."""

_ACTIONS = {
    EventReason.BACKENDS_REGISTERED: "Register",
    EventReason.BACKENDS_DEREGISTERED: "Deregister",
    EventReason.MEMBERS_DOWN: "List",
    EventReason.MEMBERS_BACK: "List",
}
"""What was done when it was noticed."""


@attrs.frozen
class _News:
    """What happened to a group's backends since the last event: names by record.

    A member that its load balancer lost is registered again, and told of once. One that is
    down and back meanwhile, or the other way round, is not told of.
    """

    registered: dict[Uid, str] = attrs.Factory(dict)
    deregistered: dict[Uid, str] = attrs.Factory(dict)
    down: dict[Uid, str] = attrs.Factory(dict)
    back: dict[Uid, str] = attrs.Factory(dict)


class GroupStatusReconciler:
    """Writes the status of groups.

    Args:
        view: what has been read.
        groups: writes BackendGroups.
        binds: writes Binds, whose status has the same fields.
        recorder: of events.
        clock: spaces the writes.
    """

    def __init__(
        self,
        view: View,
        groups: ObjectWriter[BackendGroup],
        binds: ObjectWriter[Bind],
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        self._view = view
        self._groups = groups
        self._binds = binds
        self._recorder = recorder
        self._clock = clock
        self._decisions: dict[ObjectKey, Decision] = {}
        self._written_at: dict[ObjectKey, float] = {}
        self._news: defaultdict[ObjectKey, _News] = defaultdict(_News)
        self._departures = Departures(view, clock)

    def decided(self, group: ObjectKey, decision: Decision) -> None:
        """Note what was decided about a group."""
        self._decisions[group] = decision

    def removing(self, removal: Removal) -> None:
        """Note why a record is about to be deleted."""
        self._departures.removing(removal)

    def record_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Note which backends came and went."""
        if new is None and old is not None:
            self._departures.gone(old)
        either = new or old
        if either is None or either.group is None:
            return
        if new is None:
            self._news[either.group].deregistered[either.meta.uid] = _backend_name(
                either
            )
        elif old is not None and new.is_registered and not old.is_registered:
            self._news[either.group].registered[new.meta.uid] = _backend_name(new)
        elif (
            old is not None
            and new.is_registered
            and in_service.is_down(old) != in_service.is_down(new)
        ):
            news = self._news[either.group]
            here, there = news.down, news.back
            if not in_service.is_down(new):
                here, there = there, here
            if there.pop(new.meta.uid, None) is None:
                here[new.meta.uid] = _backend_name(new)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Write a group's status if it says anything new, and its events."""
        group = self._view.groups.get(key)
        if group is None:
            for notes in (self._decisions, self._written_at, self._news):
                notes.pop(key, None)
            self._departures.forget(key)
            return Done()
        rest = self._rest(key)
        if rest > timedelta(0):
            return Parked(rest)
        status = self._status(group)
        self._tell(group)
        untold = self._departures.untold(key)
        if status == group.status and (wait := self._wait(status, untold)):
            return wait
        status = self._departed(group, status, untold)
        if (refused := self._groups.rest(group.meta)) is not None:
            return Parked(refused)
        self._written_at[key] = self._clock.monotonic()
        try:
            await self._write(group, render_group_status(status))
        except (Conflict, NotFound):
            return RequeueAfter(timedelta(seconds=1))
        self._departures.told(key, untold)
        return Done()

    def _departed(
        self, group: BackendGroup, status: GroupStatus, untold: Sequence[Departure]
    ) -> GroupStatus:
        """Return a group's status with who has left, and whether drains were cut."""
        found, now = status.conditions, self._clock.now()
        departed = with_departures(group.status.departed, untold, now)
        cut = cut_condition(
            departed,
            is_told=conditions.find(found, conditions.DRAINS_CUT) is not None,
            generation=group.meta.generation,
        )
        if cut is not None:
            found = conditions.with_condition(found, cut, now)
        return attrs.evolve(status, conditions=found, departed=departed)

    def _wait(self, status: GroupStatus, untold: Sequence[Departure]) -> Result | None:
        """Return how a turn ends in which no count has changed; None: it writes."""
        if not untold:
            return Done()
        rest = _UNTOLD_AT_MOST - (self._clock.now() - untold[-1].time)
        # While others drain the counts are about to change: what left is told then.
        waits = status.draining and rest > timedelta(0)
        return RequeueAfter(rest) if waits else None

    async def _write(self, group: BackendGroup, body: Body) -> None:
        """Write the status of a BackendGroup, or of the Bind that a group is made of."""
        bind = bind_of(group.meta.key)
        if bind is None:
            await self._groups.patch(group.meta, body, "status")
        else:
            meta = attrs.evolve(group.meta, key=bind)
            await self._binds.patch(meta, body, "status")

    def _rest(self, key: ObjectKey) -> timedelta:
        last = self._written_at.get(key)
        if last is None:
            return timedelta(0)
        return _BETWEEN_WRITES - timedelta(seconds=self._clock.monotonic() - last)

    def _status(self, group: BackendGroup) -> GroupStatus:
        """Return what a group's status is to be."""
        records = self._view.records_of(group.meta.key)
        found = group.status.conditions
        decision = self._decisions.get(group.meta.key, Decision())
        told = list(conditions_of(decision, group.meta.generation))
        drained = said_of(self._view.drained_by_hand(group), group.meta.generation)
        # Of a group of which nothing ever was drained by hand nothing is said.
        if drained.status or conditions.find(found, conditions.DRAINED_BY_HAND):
            told.append(drained)
        if gate := self._gate(group, records):
            told.append(gate)
        registered = [r for r in records if r.is_registered and not r.is_deleting]
        selected, serving = self._count(group), self._in_service(registered)
        if lack := serving_condition(
            selected,
            len(registered),
            serving,
            is_told=conditions.find(found, conditions.SERVING) is not None,
            generation=group.meta.generation,
        ):
            told.append(lack)
        for condition in told:
            found = conditions.with_condition(found, condition, self._clock.now())
        return GroupStatus(
            backends=selected,
            registered=len(registered),
            in_service=serving,
            draining=sum(1 for r in records if r.is_deleting),
            observed_generation=group.meta.generation,
            conditions=found,
            departed=group.status.departed,
        )

    def _in_service(self, registered: Collection[BackendRecord]) -> int | None:
        """Count members that are in service; None: no load balancer can be asked."""
        used = {record.load_balancer_key for record in registered}
        if not any(is_asked(self._view.load_balancers.get(key)) for key in used):
            return None
        return count_in_service(registered)

    def _gate(
        self, group: BackendGroup, records: Collection[BackendRecord]
    ) -> Condition | None:
        """Return what is to be said of pods that wait for their drain."""
        if not isinstance(group.selection, PodSelection):
            return None
        told = conditions.find(group.status.conditions, conditions.DRAIN_GATED)
        return gate_condition(
            records,
            self._view.selected_pods(group),
            is_told=told is not None,
            generation=group.meta.generation,
        )

    def _count(self, group: BackendGroup) -> int:
        """Count what a group selects."""
        selection = group.selection
        if isinstance(selection, StaticSelection):
            return len(selection.addresses)
        if not isinstance(selection, PodSelection):
            return count_nodes(self._view, group)
        pods = self._view.selected_pods(group)
        return sum(1 for pod in pods if not pod.is_terminating)

    def _tell(self, group: BackendGroup) -> None:
        """Record one event for all backends that came, and one for all that went."""
        news = self._news.pop(group.meta.key, None)
        if news is None:
            return
        regarding = reference_to("BackendGroup", group.meta.key, group.meta.uid)
        for found, words, reason in (
            (news.registered, "registered", EventReason.BACKENDS_REGISTERED),
            (news.deregistered, "deregistered", EventReason.BACKENDS_DEREGISTERED),
            (news.down, "out of service", EventReason.MEMBERS_DOWN),
            (news.back, "back in service", EventReason.MEMBERS_BACK),
        ):
            if names := list(found.values()):
                noun = "backend" if len(names) == 1 else "backends"
                self._recorder.record(
                    regarding,
                    reason=reason,
                    action=_ACTIONS[reason],
                    note=f"{len(names)} {noun} {words}: {some_of(names)}",
                    warning=reason is EventReason.MEMBERS_DOWN,
                )


def _backend_name(record: BackendRecord) -> str:
    backend = record.spec.backend
    if isinstance(backend, PodRef):
        return f"{backend.name}:{backend.port.number}"
    return record.address or record.meta.key.name


class HeldRemovalsReporter:
    """Hears of decisions.

    Args:
        view: where the groups are.
        recorder: of events.
        metrics: of the process; None: nobody measures.
        then: told of each decision, too.
    """

    def __init__(
        self,
        view: View,
        recorder: EventRecorder,
        metrics: Metrics | None,
        then: Callable[[ObjectKey, Decision], None],
    ) -> None:
        self._view = view
        self._then = then
        self._recorder = recorder
        self._held: dict[ObjectKey, str] = {}
        self._gauge = None if metrics is None else _make_gauge(metrics)
        view.groups.on_change(self._group_changed)

    def decided(self, key: ObjectKey, decision: Decision) -> None:
        """Take in what was decided about a group."""
        self._then(key, decision)
        before = self._held.pop(key, "")
        if not decision.held:
            if before:
                self._count(key, 0)
            return
        first = decision.held[0]
        self._held[key] = first.reason
        self._count(key, len(decision.held))
        group = self._view.groups.get(key)
        # Pods that replace each other are everyday: an event for each would be a write.
        is_news = first.reason not in {before, Reason.AWAITING_REPLACEMENT}
        if is_news and group is not None:
            count = len(decision.held)
            noun = "removal" if count == 1 else "removals"
            note = f"{count} {noun} held ({first.reason}): {first.message}"
            self._recorder.record(
                reference_to("BackendGroup", group.meta.key, group.meta.uid),
                reason=EventReason.REMOVALS_HELD,
                action="Hold",
                note=note,
                warning=True,
            )

    def _group_changed(
        self, old: BackendGroup | None, new: BackendGroup | None
    ) -> None:
        if new is None and old is not None and self._held.pop(old.meta.key, ""):
            self._count(old.meta.key, 0)

    def _count(self, group: ObjectKey, held: int) -> None:
        """Show how many are held, and nothing of a group that holds none."""
        if self._gauge is None:
            return
        if held:
            self._gauge.labels(*group).set(held)
        else:
            self._gauge.remove(*group)


def _make_gauge(metrics: Metrics) -> Gauge:
    """Make the metric."""
    return Gauge(
        "lbcf_removals_held",
        "Records that are kept in their load balancer although something asks for "
        "their removal, by the guards of their group.",
        ["namespace", "group"],
        registry=metrics.registry,
    )
