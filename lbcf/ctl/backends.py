"""`why pod/NAME` and `why node/NAME`: each check in each group that selects it.

The checks are those of `core.selection.eligibility` and `core.selection.node_policy`, in
their order; the verdict that counts, after drivers and guards, is that of the plan.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import attrs

from lbcf.controller.gate_claims import claims_on, unclear_groups
from lbcf.controller.selector_index import does_select
from lbcf.core.model.cluster import Pod, Snapshot
from lbcf.core.model.conditions import REMOVALS_HELD, find
from lbcf.core.model.departures import Departure
from lbcf.core.model.names import READINESS_GATE
from lbcf.core.model.node_backends import (
    NodeRef,
    NodeSelection,
    ServiceRef,
    ServiceSelection,
)
from lbcf.core.model.nodes import Node
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    PodRef,
    PodSelection,
)
from lbcf.core.model.values import ObjectKey
from lbcf.core.model.verdicts import Undecided
from lbcf.core.reasons import Reason
from lbcf.core.selection.desired import judge_all
from lbcf.core.selection.eligibility import POD_CHECKS
from lbcf.core.selection.gate import OpenGate, Wait, decide_gate
from lbcf.core.selection.node_policy import NODE_CHECKS
from lbcf.ctl.balancer_troubles import trouble_headline
from lbcf.ctl.departed import departed_headline, departed_sections
from lbcf.ctl.errors import ObjectNotFound
from lbcf.ctl.flags import Kind
from lbcf.ctl.groups import doubt_lines, group_troubles, load_balancer_lines
from lbcf.ctl.plan import GroupPlan, plan_group
from lbcf.ctl.reading import Reading, unreadable_groups
from lbcf.ctl.records import record_section, stage_of
from lbcf.ctl.report import (
    Line,
    Mark,
    Section,
    WhyReport,
    check_lines,
    first_wrong,
    object_ref,
    selection_text,
    verdict_line,
)
from lbcf.kube.kinds import RECORDS


@attrs.frozen
class _Candidate:
    """The pod or node that is asked about.

    Attributes:
        kind: pod or node.
        key: of the object; a node has no namespace.
        found: the object, None where it does not exist any more.
        records: of all groups, also of those that are gone, by name.
    """

    kind: Kind
    key: ObjectKey
    found: Pod | Node | None
    records: tuple[BackendRecord, ...]

    @property
    def verdict_key(self) -> str:
        """Return its key among the verdicts of a snapshot."""
        return self.found.meta.uid if isinstance(self.found, Pod) else self.key.name

    def is_selected_by(self, group: BackendGroup) -> bool:
        """Return whether a group selects the object as it is now."""
        match self.found, group.selection:
            case Pod() as pod, _:
                return does_select(group, pod)
            case Node() as node, ServiceSelection() | NodeSelection() as selection:
                return selection.selector.matches(node.meta.labels)
            case _:
                return False

    def departed(
        self, near: Iterable[BackendGroup], now: datetime
    ) -> tuple[Section, ...]:
        """Return what groups remember of an object that does not exist any more."""
        if self.found is not None:
            return ()
        of_nodes = (ServiceSelection, NodeSelection)
        kinds = (PodSelection,) if self.kind is Kind.POD else of_nodes
        groups = (group for group in near if isinstance(group.selection, kinds))
        return tuple(departed_sections(groups, self._was_meant, now))

    def _was_meant(self, departure: Departure) -> bool:
        port_of, _, _ = departure.backend.rpartition(":")
        node_of, _, _ = departure.backend.partition(" for ")
        return self.key.name in {port_of, node_of}

    def records_of(self, group: BackendGroup) -> list[BackendRecord]:
        """Return the records that a group has of it."""
        return [one for one in self.records if one.group == group.meta.key]


def why_pod(
    reading: Reading, key: ObjectKey, pod: Pod | None, now: datetime
) -> WhyReport:
    """Report where a pod is registered, and why there and nowhere else.

    Raises:
        ObjectNotFound: there is no such pod, and no record or memory of one.
    """
    candidate = _Candidate(Kind.POD, key, pod, _records(reading, Kind.POD, key))
    groups = reading.view.groups.by_index("namespace", key.namespace)
    return _report(reading, candidate, list(groups), now)


def why_node(reading: Reading, name: str, now: datetime) -> WhyReport:
    """Report where a node is registered, and why there and nowhere else.

    Raises:
        ObjectNotFound: there is no such node, and no record or memory of one.
    """
    view, key = reading.view, ObjectKey("", name)
    records = _records(reading, Kind.NODE, key)
    candidate = _Candidate(Kind.NODE, key, view.nodes.get(key), records)
    return _report(reading, candidate, list(view.groups_on_nodes()), now)


def _records(reading: Reading, kind: Kind, key: ObjectKey) -> tuple[BackendRecord, ...]:
    found = (
        record
        for record in reading.view.records.values()
        if key.namespace in {"", record.meta.key.namespace}
        and _backend_object(record, kind) == key.name
    )
    return tuple(sorted(found, key=lambda record: record.meta.key))


def _backend_object(record: BackendRecord, kind: Kind) -> str:
    """Return the pod, or the node, that a record is about; empty: it is about none."""
    match record.spec.backend:
        case PodRef(name=name) if kind is Kind.POD:
            return name
        case ServiceRef(node=name) | NodeRef(name=name) if kind is Kind.NODE:
            return name
        case _:
            return ""


def _report(
    reading: Reading, candidate: _Candidate, near: list[BackendGroup], now: datetime
) -> WhyReport:
    kind, key, records = candidate.kind, candidate.key, candidate.records
    departed = candidate.departed(near, now)
    if candidate.found is None and not records and not departed:
        where = f" in namespace {key.namespace}" if key.namespace else ""
        right = reading.missing_right(RECORDS, key.namespace or reading.namespace or "")
        more = f"; we {right}" if right else ", and no BackendRecord of one"
        raise ObjectNotFound(f"there is no {kind}/{key.name}{where}{more}")
    groups = sorted(
        (
            group
            for group in near
            if candidate.is_selected_by(group) or candidate.records_of(group)
        ),
        key=lambda group: group.meta.key,
    )
    sections: list[Section] = []
    troubles: list[Line] = []
    if not groups and candidate.found is not None:
        sections.append(_not_selected(reading, candidate))
    for group in groups:
        planned = plan_group(reading, group, now)
        troubles.extend(group_troubles(planned, reading, now))
        sections.extend(_group_sections(reading, planned, candidate, now))
    if isinstance(candidate.found, Pod):
        sections.extend(_gate_section(reading, candidate.found))
    known = {group.meta.key for group in groups}
    for record in (one for one in records if one.group not in known):
        sections.append(_without_group(reading, record))
        sections.append(record_section(record, reading, now))
    headline = _headline(records, sections, troubles)
    if candidate.found is None and not records:
        headline = f"there is no {kind} {key.name} now; {departed_headline(departed)}"
    sections.extend(departed)
    subject, unread = f"{kind}/{key.name}", reading.unread()
    return WhyReport(key.namespace, subject, headline, tuple(sections), unread)


def _headline(
    records: tuple[BackendRecord, ...], sections: list[Section], troubles: list[Line]
) -> str:
    """Return where it is, then its own trouble, or else that of its load balancers."""
    inside = [r.spec.load_balancer for r in records if stage_of(r) == "Registered"]
    leaving = [r.spec.load_balancer for r in records if r.is_deleting]
    parts = []
    if inside:
        parts.append(f"registered at {', '.join(dict.fromkeys(inside))}")
    if leaving:
        parts.append(f"on its way out of {', '.join(dict.fromkeys(leaving))}")
    own = first_wrong(sections, troubles)
    is_ill = own is not None and own.mark is Mark.NO
    if troubles and not is_ill:
        parts.append(trouble_headline(troubles))
    if own is not None and (is_ill or not len(inside) == len(records) > 0):
        parts.append(own.text)
    return "; ".join(parts) or "nothing is known of it yet"


def _group_sections(
    reading: Reading, planned: GroupPlan, candidate: _Candidate, now: datetime
) -> Iterator[Section]:
    group = planned.group
    lines = (
        *_selected(group, candidate),
        *_verdict_lines(planned, candidate),
        *doubt_lines(planned),
        *load_balancer_lines(planned, reading, now),
        *_to_create(planned, candidate),
    )
    title = object_ref("bg", group.meta.key)
    if reading.namespace is None:
        title = f"{title} in {group.meta.key.namespace}"
    yield Section(title, lines)
    for record in candidate.records_of(group):
        yield record_section(record, reading, now, planned.plan)


def _gate_section(reading: Reading, pod: Pod) -> Iterator[Section]:
    """Return whom the readiness gate of a pod waits for, if it has ours."""
    gate = pod.gate
    if gate is None:
        return
    if gate.is_open:
        lines = [Line(Mark.OK, "open", "the pod's Ready waits for no registration")]
    elif not pod.is_ready:
        text = "containers, or gates of others, are not ready"
        lines = [Line(Mark.WAIT, "shut", text, Reason.POD_NOT_READY)]
    else:
        lines = list(_wait_lines(reading, pod))
    yield Section(f"readiness gate {READINESS_GATE}", tuple(lines))


def _wait_lines(reading: Reading, pod: Pod) -> Iterator[Line]:
    unclear = unclear_groups(reading.view, pod.meta.key.namespace)
    # Who waits for first checks is in the memory of the controller alone.
    claims = claims_on(reading.view, pod, lambda _record: False)
    decision = decide_gate(claims, unclear, timedelta(0))
    if isinstance(decision, OpenGate):
        text = (
            f"the controller is to open it: {decision.message}; where the load balancer "
            "has checks of its own, once they have passed"
        )
        yield Line(Mark.WAIT, "shut", text, decision.reason)
        return
    for wait in decision.waits:
        text = f"{wait}; {_until(wait, pod)}"
        yield Line(Mark.WAIT, "waits for", text, wait.why.reason)


def _until(wait: Wait, pod: Pod) -> str:
    """Say for how long a gate waits for somebody."""
    since = None if pod.gate is None else pod.gate.since
    if wait.timeout is None:
        return "for as long as it takes"
    if since is None:
        return f"for {wait.timeout.total_seconds():.0f} s at most"
    return f"until {since + wait.timeout:%H:%M:%S} UTC at the latest"


def _without_group(reading: Reading, record: BackendRecord) -> Section:
    """Return the section of a group that a record outlives, or that cannot be read."""
    key = record.group
    title = "no group" if key is None else object_ref("bg", key)
    unclear = tuple(unreadable_groups(reading, record.meta.key.namespace))
    gone = Line(Mark.NO, "the group", "there is none any more: what it had leaves")
    return Section(title, unclear or (gone,))


def _not_selected(reading: Reading, candidate: _Candidate) -> Section:
    """Return what the groups select that do not select the candidate."""
    namespace = candidate.key.namespace
    near: list[BackendGroup] = [
        group
        for group in reading.view.groups.values()
        if not namespace or group.meta.key.namespace == namespace
    ]
    lines = [
        Line(
            Mark.NONE,
            object_ref("bg", group.meta.key),
            f"means {selection_text(group.selection)}",
        )
        for group in sorted(near, key=lambda group: group.meta.key)
    ]
    unclear = tuple(unreadable_groups(reading, namespace or reading.namespace or ""))
    mark, text = Mark.NO, f"no BackendGroup and no Bind means this {candidate.kind}"
    if unclear:
        mark, text = Mark.UNKNOWN, f"{text}, as far as could be read"
    return Section("groups", (Line(mark, "selected", text), *unclear, *lines))


def _selected(group: BackendGroup, candidate: _Candidate) -> Iterator[Line]:
    if group.meta.deleting_since is not None:
        yield Line(Mark.NO, "the group", "is being deleted, and its records with it")
    if candidate.found is None:
        text = f"there is no {candidate.kind} {candidate.key.name} now"
        yield Line(Mark.NO, "exists", text)
    elif not candidate.is_selected_by(group):
        yield Line(Mark.NO, "selected", "the group does not mean it any more")
    else:
        yield Line(Mark.OK, "selected", "the group means it")


def _verdict_lines(planned: GroupPlan, candidate: _Candidate) -> Iterator[Line]:
    """Return each check, then the verdict where drivers and guards made another one."""
    snapshot, found = planned.snapshot, candidate.found
    checks: list[Line] = []
    if isinstance(found, Pod):
        policy = planned.group.deregister_policy
        checks = list(check_lines(POD_CHECKS, found, policy))
    elif isinstance(found, Node) and isinstance(snapshot, Snapshot) and snapshot.scene:
        checks = list(check_lines(NODE_CHECKS, found, snapshot.scene))
    yield from checks
    if not isinstance(snapshot, Snapshot):
        return
    verdict = judge_all(snapshot).get(candidate.verdict_key)
    if verdict is None:
        return
    final = verdict_line("verdict", verdict)
    if final.text not in {line.text for line in checks}:
        yield final
    if isinstance(verdict, Undecided) and planned.group.webhook is not None:
        yield _webhook_line(planned.group, planned.group.webhook.driver)


def _webhook_line(group: BackendGroup, driver: str) -> Line:
    """Return who decides on unready pods; the answer is with the controller alone."""
    held = find(group.status.conditions, REMOVALS_HELD)
    text, reason = f"driver {driver} says what becomes of unready pods", ""
    if held is not None and held.status:
        text, reason = f"{text}; the controller wrote: {held.message}", held.reason
    return Line(Mark.WAIT, "judged by", text, reason)


def _to_create(planned: GroupPlan, candidate: _Candidate) -> Iterator[Line]:
    for create in planned.plan.creates if planned.plan else ():
        backend = create.desired.spec.backend
        name = getattr(backend, "node", "") or getattr(backend, "name", "")
        if name == candidate.key.name:
            where = create.desired.spec.load_balancer
            text = f"the controller is to make record {create.name} at {where}"
            yield Line(Mark.WAIT, "to be created", text)
