"""`why deployment/NAME` and its like: a workload's pods and records summed up, then trouble."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Final

import attrs
import msgspec

from lbcf.controller.selector_index import does_select
from lbcf.core.model.cluster import Pod
from lbcf.core.model.resources import BackendGroup, BackendRecord, Meta, PodRef
from lbcf.core.model.selectors import Selector
from lbcf.core.model.values import ObjectKey
from lbcf.ctl.backends import why_pod
from lbcf.ctl.balancer_troubles import balancer_troubles, trouble_headline
from lbcf.ctl.flags import Kind
from lbcf.ctl.reading import Reading, unread_lines
from lbcf.ctl.records import records_in_trouble, trouble_of
from lbcf.ctl.report import (
    Line,
    Mark,
    Section,
    WhyReport,
    first_few,
    first_wrong,
    object_ref,
    record_counts,
)
from lbcf.kube.kinds import BINDS, GROUPS, PODS, RECORDS, Resource
from lbcf.wire.fields import WireExpression, parse_selector
from lbcf.wire.metadata import ObjectMeta, decode


_MAX_PODS: Final = 10
"""So many pods in trouble are told of."""

_IN: Final = "registered at every load balancer that it goes to"
_LEAVING: Final = "on their way out"
_OUT: Final = "not registered, or not everywhere"
_UNSELECTED: Final = "meant by no group and no Bind"


@attrs.frozen
class Workload:
    """What makes pods: the labels that its pods have."""

    meta: Meta
    selector: Selector


class _LabelSelector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[WireExpression] | None = None


class _Spec(msgspec.Struct):
    selector: _LabelSelector


class _Workload(msgspec.Struct):
    metadata: ObjectMeta
    spec: _Spec


_WORKLOAD = msgspec.json.Decoder(_Workload)


def parse_workload(body: bytes) -> Workload:
    """Read a Deployment, StatefulSet, ReplicaSet or DaemonSet.

    Raises:
        Malformed: it is none.
    """
    found = decode(_WORKLOAD, body)
    wanted = found.spec.selector
    selector = parse_selector(wanted.match_labels, wanted.match_expressions)
    return Workload(found.metadata.to_meta(), selector)


def _of_apps(plural: str, kind: str) -> Resource[Workload]:
    return Resource("apps", "v1", plural, kind, parse_workload)


WORKLOADS: Final[Mapping[Kind, Resource[Workload]]] = {
    Kind.DEPLOYMENT: _of_apps("deployments", "Deployment"),
    Kind.STATEFUL_SET: _of_apps("statefulsets", "StatefulSet"),
    Kind.REPLICA_SET: _of_apps("replicasets", "ReplicaSet"),
    Kind.DAEMON_SET: _of_apps("daemonsets", "DaemonSet"),
}
"""The kinds whose pods can be asked about together."""


def why_workload(
    reading: Reading, kind: Kind, workload: Workload, now: datetime
) -> WhyReport:
    """Report how many of a workload's pods are registered, and why the others are not."""
    key = workload.meta.key
    pods = sorted(_pods_of(reading, workload), key=lambda pod: pod.meta.key)
    groups: Collection[BackendGroup] = reading.view.groups.by_index(
        "namespace", key.namespace
    )
    records = _records_by_pod(reading, {pod.meta.key.name for pod in pods})
    stages = {
        pod.meta.key: _stage(pod, groups, records.get(pod.meta.key.name, []))
        for pod in pods
    }
    every = [record for found in records.values() for record in found]
    failing = {name for name, found in records.items() if any(map(trouble_of, found))}
    troubled = [
        pod
        for pod in pods
        if stages[pod.meta.key] not in {_IN, _LEAVING} or pod.meta.key.name in failing
    ]
    sections = [Section("pods", tuple(_pod_lines(stages, reading, key)))]
    sections.append(Section("used by", tuple(_user_lines(pods, groups, every))))
    keys = sorted({record.load_balancer_key for record in every})
    troubles = [line for one in keys for line in balancer_troubles(reading, one, now)]
    if troubles:
        sections.append(Section("its load balancers", tuple(troubles)))
    if troubled and set(stages.values()) != {_UNSELECTED}:
        lines = tuple(_trouble_lines(troubled, reading, now))
        sections.append(Section("pods that are not in, or in trouble", lines))
    count = Counter(stages.values())
    headline = f"{count[_IN]} of {len(pods)} pods are registered"
    if not pods:
        headline = "it has no pods"
    elif count[_UNSELECTED] == len(pods):
        headline = f"its pods are {_UNSELECTED}"
    ill = records_in_trouble(every) or trouble_headline(troubles)
    headline = "; ".join(filter(None, (headline, ill)))
    name = f"{kind}/{key.name}"
    return WhyReport(key.namespace, name, headline, tuple(sections), reading.unread())


def _pods_of(reading: Reading, workload: Workload) -> Iterator[Pod]:
    place, selector = workload.meta.key.namespace, workload.selector
    for pod in reading.view.pods.values():
        if pod.meta.key.namespace == place and selector.matches(pod.meta.labels):
            yield pod


def _records_by_pod(
    reading: Reading, names: Collection[str]
) -> dict[str, list[BackendRecord]]:
    found: dict[str, list[BackendRecord]] = {}
    for record in reading.view.records.values():
        backend = record.spec.backend
        if isinstance(backend, PodRef) and backend.name in names:
            found.setdefault(backend.name, []).append(record)
    return found


def _stage(
    pod: Pod, groups: Collection[BackendGroup], records: list[BackendRecord]
) -> str:
    """Return how far a pod is, as people count it."""
    selecting = [group for group in groups if does_select(group, pod)]
    if not selecting and not records:
        return _UNSELECTED
    if pod.is_terminating or any(record.is_deleting for record in records):
        return _LEAVING
    inside = {
        (record.group, record.spec.load_balancer)
        for record in records
        if record.is_registered
    }
    wanted = {(g.meta.key, name) for g in selecting for name in g.load_balancers}
    is_in = all(record.is_registered for record in records) and wanted <= inside
    return _IN if is_in else _OUT


def _pod_lines(
    stages: Mapping[ObjectKey, str], reading: Reading, key: ObjectKey
) -> Iterator[Line]:
    yield from unread_lines(reading, key.namespace, PODS, GROUPS, BINDS, RECORDS)
    count = Counter(stages.values())
    marks = {
        _IN: Mark.OK,
        _LEAVING: Mark.WAIT,
        _OUT: Mark.NO,
        _UNSELECTED: Mark.NO,
    }
    for stage, mark in marks.items():
        if count[stage]:
            yield Line(mark, str(count[stage]), stage)
    if not stages:
        yield Line(Mark.NONE, "0", "no pod has the labels of its selector")


def _user_lines(
    pods: Collection[Pod],
    groups: Collection[BackendGroup],
    records: Collection[BackendRecord],
) -> Iterator[Line]:
    names = (
        object_ref("bg", group.meta.key)
        for group in groups
        if any(does_select(group, pod) for pod in pods)
    )
    yield Line(Mark.NONE, "groups", first_few(names))
    yield Line(Mark.NONE, "records", record_counts(records))


def _trouble_lines(pods: list[Pod], reading: Reading, now: datetime) -> Iterator[Line]:
    for pod in pods[:_MAX_PODS]:
        key = pod.meta.key
        report = why_pod(reading, key, pod, now)
        wrong = first_wrong(report.sections)
        mark = Mark.WAIT if wrong is None else wrong.mark
        reason, remedy = ("", "") if wrong is None else (wrong.reason, wrong.remedy)
        yield Line(mark, f"pod/{key.name}", report.headline, reason, remedy)
    if len(pods) > _MAX_PODS:
        yield Line(Mark.NONE, "not shown", f"{len(pods) - _MAX_PODS} more")
