"""One pod, or one node, in the groups that mean it: every check, and what came of it.

Before it: the view with all that these groups depend on. After it: `tables`. The checks
are asked as `core.eligibility` and `core.node_policy` list them; the verdict that counts,
after drivers and guards, is the one of the controller's own plan.
"""

from collections.abc import Collection, Iterator
from datetime import datetime

from lbcf.controller.selection import does_select
from lbcf.core.model.cluster import Pod, Snapshot
from lbcf.core.model.conditions import REMOVALS_HELD, find
from lbcf.core.model.judgement import Undecided
from lbcf.core.model.node_backends import (
    NodeSelection,
    ServiceSelection,
)
from lbcf.core.model.nodes import Node
from lbcf.core.model.resources import BackendGroup, BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.core.selection.desired import judge_all
from lbcf.core.selection.eligibility import POD_CHECKS
from lbcf.core.selection.node_policy import NODE_CHECKS
from lbcf.ctl.errors import Unknown
from lbcf.ctl.flags import Kind
from lbcf.ctl.groups import Outlook, balancer_lines, doubt_lines, look_at
from lbcf.ctl.history import section_of
from lbcf.ctl.lookups import unclear_groups
from lbcf.ctl.problems import subject
from lbcf.ctl.reading import Reading
from lbcf.ctl.recorded import Backend, recorded
from lbcf.ctl.records import stage_of
from lbcf.ctl.selections import meant
from lbcf.ctl.verdicts import Line, Mark, Section, Why, asked, first_wrong, judged
from lbcf.kube.kinds import RECORDS


def why_pod(reading: Reading, key: ObjectKey, pod: Pod | None, now: datetime) -> Why:
    """Tell where a pod is registered, and why there and nowhere else.

    Raises:
        Unknown: there is no such pod, and no record of one.
    """
    backend = recorded(reading, Kind.POD, key, pod)
    groups = [
        group
        for group in reading.view.groups.by_index("namespace", key.namespace)
        if (pod is not None and does_select(group, pod)) or backend.records_of(group)
    ]
    return _told(reading, key, backend, groups, now)


def why_node(reading: Reading, name: str, now: datetime) -> Why:
    """Tell where a node is registered, and why there and nowhere else.

    Raises:
        Unknown: there is no such node, and no record of one.
    """
    view, key = reading.view, ObjectKey("", name)
    node = view.nodes.get(key)
    backend = recorded(reading, Kind.NODE, key, node)
    groups = [
        group
        for group in view.groups_on_nodes()
        if (node is not None and _means(group, node)) or backend.records_of(group)
    ]
    return _told(reading, key, backend, groups, now)


def _told(
    reading: Reading,
    key: ObjectKey,
    backend: Backend,
    groups: list[BackendGroup],
    now: datetime,
) -> Why:
    """Make the report.

    Raises:
        Unknown: there is nothing to report on.
    """
    if backend.found is None and not backend.records:
        where = f" in namespace {key.namespace}" if key.namespace else ""
        gap = reading.gap(RECORDS, key.namespace or reading.namespace or "")
        more = f"; we {gap}" if gap else ", and no BackendRecord of one"
        raise Unknown(f"there is no {backend.kind}/{key.name}{where}{more}")
    sections = _of_groups(reading, groups, backend, now)
    known = {group.meta.key for group in groups}
    for record in (one for one in backend.records if one.group not in known):
        sections.append(_without_group(reading, record))
        sections.append(section_of(record, reading, now))
    headline = _headline(backend.records, sections)
    subject_of = f"{backend.kind}/{key.name}"
    return Why(key.namespace, subject_of, headline, tuple(sections), reading.unread())


def _means(group: BackendGroup, node: Node) -> bool:
    """Tell whether a group's selector catches a node."""
    selection = group.selection
    return isinstance(
        selection, ServiceSelection | NodeSelection
    ) and selection.selector.matches(node.meta.labels)


def _headline(records: Collection[BackendRecord], sections: list[Section]) -> str:
    """Answer in a sentence."""
    inside = [r.spec.load_balancer for r in records if stage_of(r) == "Registered"]
    leaving = [r.spec.load_balancer for r in records if r.is_deleting]
    parts = []
    if inside:
        parts.append(f"registered at {', '.join(dict.fromkeys(inside))}")
    if leaving:
        parts.append(f"on its way out of {', '.join(dict.fromkeys(leaving))}")
    wrong = first_wrong(sections)
    if len(inside) == len(records) > 0 and (wrong is None or wrong.mark is not Mark.NO):
        return "; ".join(parts)
    if wrong is not None:
        parts.append(wrong.text)
    return "; ".join(parts) or "nothing is known of it yet"


def _of_groups(
    reading: Reading, groups: list[BackendGroup], backend: Backend, now: datetime
) -> list[Section]:
    """Go through the groups that mean it, or have records of it."""
    if not groups and backend.found is not None:
        return [_unselected(reading, backend)]
    sections: list[Section] = []
    for group in sorted(groups, key=lambda group: group.meta.key):
        outlook = look_at(reading, group)
        lines = (
            *_selected(group, backend),
            *_verdict(outlook, backend),
            *doubt_lines(outlook),
            *balancer_lines(outlook),
            *_to_create(outlook, backend),
        )
        name = subject("bg", group.meta.key)
        called = f"{name} in {group.meta.key.namespace}" if _far(reading) else name
        sections.append(Section(called, lines))
        sections.extend(
            section_of(record, reading, now, outlook.plan)
            for record in backend.records_of(group)
        )
    return sections


def _without_group(reading: Reading, record: BackendRecord) -> Section:
    """Say that a record's group has gone before it, or cannot be read."""
    key = record.group
    title = "no group" if key is None else subject("bg", key)
    unclear = tuple(unclear_groups(reading, record.meta.key.namespace))
    gone = Line(Mark.NO, "the group", "there is none any more: what it had leaves")
    return Section(title, unclear or (gone,))


def _far(reading: Reading) -> bool:
    """Tell whether more than one namespace was asked about."""
    return reading.namespace is None


def _unselected(reading: Reading, backend: Backend) -> Section:
    """Say that nothing means it, and what there is that does not."""
    found = backend.found
    place = "" if found is None else found.meta.key.namespace
    near: list[BackendGroup] = [
        group
        for group in reading.view.groups.values()
        if not place or group.meta.key.namespace == place
    ]
    lines = [
        Line(
            Mark.NONE, subject("bg", group.meta.key), f"means {meant(group.selection)}"
        )
        for group in sorted(near, key=lambda group: group.meta.key)
    ]
    unclear = tuple(unclear_groups(reading, place or reading.namespace or ""))
    mark, text = Mark.NO, f"no BackendGroup and no Bind means this {backend.kind}"
    if unclear:
        mark, text = Mark.UNKNOWN, f"{text}, as far as could be read"
    return Section("groups", (Line(mark, "selected", text), *unclear, *lines))


def _selected(group: BackendGroup, backend: Backend) -> Iterator[Line]:
    """Say whether the group still means it, and lives."""
    found = backend.found
    means = isinstance(found, Node) and _means(group, found)
    means = means or (isinstance(found, Pod) and does_select(group, found))
    if group.meta.deleting_since is not None:
        yield Line(Mark.NO, "the group", "is being deleted, and its records with it")
    if found is None:
        yield Line(Mark.NO, "exists", f"there is no {backend.kind} {backend.name} now")
    elif not means:
        yield Line(Mark.NO, "selected", "the group does not mean it any more")
    else:
        yield Line(Mark.OK, "selected", "the group means it")


def _verdict(outlook: Outlook, backend: Backend) -> Iterator[Line]:
    """Ask the checks, then say what became of their verdict."""
    snapshot, found = outlook.snapshot, backend.found
    trail: list[Line] = []
    if isinstance(found, Pod):
        policy = outlook.group.deregister_policy
        trail = list(asked(POD_CHECKS, found, policy))
    elif isinstance(found, Node) and isinstance(snapshot, Snapshot) and snapshot.scene:
        trail = list(asked(NODE_CHECKS, found, snapshot.scene))
    yield from trail
    if not isinstance(snapshot, Snapshot):
        return
    verdict = judge_all(snapshot).get(backend.judged_as)
    if verdict is None:
        return
    final = judged("verdict", verdict)
    if final.text not in {line.text for line in trail}:
        yield final
    if isinstance(verdict, Undecided) and outlook.group.webhook is not None:
        yield _ruling(outlook.group)


def _ruling(group: BackendGroup) -> Line:
    """Say who judges unready pods; the answer is with the controller alone."""
    driver = "" if group.webhook is None else group.webhook.driver
    held = find(group.status.conditions, REMOVALS_HELD)
    said = f"; the controller wrote: {held.message}" if held and held.status else ""
    text = f"driver {driver} says what becomes of unready pods{said}"
    return Line(Mark.WAIT, "judged by", text, held.reason if held and said else "")


def _to_create(outlook: Outlook, backend: Backend) -> Iterator[Line]:
    """Say what the controller is about to make of it."""
    for create in outlook.plan.creates if outlook.plan else ():
        about = create.desired.spec.backend
        name = getattr(about, "node", "") or getattr(about, "name", "")
        if name == backend.name:
            where = create.desired.spec.load_balancer
            text = f"the controller is to make record {create.name} at {where}"
            yield Line(Mark.WAIT, "to be created", text)
