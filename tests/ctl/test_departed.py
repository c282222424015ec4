"""`why` of what is gone: groups remember for a day how registrations ended."""

import attrs
import pytest

from lbcf.core.lifecycle.departures import KEPT
from lbcf.core.model.departures import Departure, Outcome
from lbcf.core.model.names import bind_group_key
from lbcf.core.model.resources import BackendGroup, GroupStatus, StaticSelection
from lbcf.core.reasons import Reason
from lbcf.ctl.backends import why_node, why_pod
from lbcf.ctl.errors import ObjectNotFound
from lbcf.ctl.output import as_builtins
from lbcf.ctl.records import why_record
from lbcf.ctl.report import WhyReport
from tests.builders import START, a_group, a_key, a_pod, a_record, seconds
from tests.ctl.readings import NOW, bare_reading, line_facts, text_of
from tests.node_builders import OF_NODES


CUT = Departure(
    *("web-1:80", "front", "web-1-80", NOW - seconds(20)),
    *(Outcome.CUT, Reason.POD_TERMINATING, 3),
)
DRAINED = Departure("web-1:81", "front", "web-1-81", START, Outcome.DRAINED)
OTHER = Departure("web-10:80", "front", "web-10-80", START, Outcome.DRAINED)


def remembering(*departed: Departure, name: str = "web") -> BackendGroup:
    """Make a group that remembers these."""
    return attrs.evolve(a_group(name), status=GroupStatus(departed=departed))


def of_pod(*groups: BackendGroup) -> WhyReport:
    """Ask about a pod that is gone."""
    return why_pod(bare_reading(*groups), a_key("web-1"), None, NOW)


def test_pod_that_is_gone_is_told_how_it_left() -> None:
    """Each of its registrations, the latest first, and nobody else's."""
    report = of_pod(remembering(CUT, DRAINED, OTHER))

    cut = "cut at the deadline of its drain, with 3 connections by the last count"
    drained = "drained, nothing was left"
    told = f"left front 20s ago: {cut}; left front 1m ago: {drained}"
    assert f"there is no pod web-1 now; {told}" == report.headline
    assert [("NO", "left front", "Cut"), ("ok", "left front", "Drained")] == line_facts(
        report
    )
    why = f"Cut: 20s ago: {cut}; PodTerminating: the pod is being deleted"
    assert f"  NO    left front  {why}\n" in text_of(report)
    assert "; why its record was deleted is not known" in text_of(report)
    assert "'reason': 'Cut'" in str(as_builtins(report))


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_is_told(outcome: Outcome) -> None:
    """In words."""
    report = of_pod(remembering(attrs.evolve(DRAINED, outcome=outcome)))

    assert [("left front", outcome)] == [(n, r) for _, n, r in line_facts(report)]


def test_what_ended_a_day_ago_is_not_told() -> None:
    """Nor what a group of addresses had under such a name: it is no pod."""
    old = attrs.evolve(DRAINED, time=NOW - KEPT - seconds(1))
    addresses = attrs.evolve(remembering(CUT), selection=StaticSelection(()))
    for group in (remembering(old, OTHER), addresses):
        with pytest.raises(ObjectNotFound, match=r"there is no pod/web-1 .* of one$"):
            of_pod(group)


def test_pod_that_is_still_in_somewhere_is_told_both() -> None:
    """Its records first."""
    record = a_record(registered=True, deleting=True)
    reading = bare_reading(remembering(CUT), record)
    report = why_pod(reading, a_key("web-1"), None, NOW)

    assert report.headline.startswith("on its way out of front; ")
    assert "bg/web remembers for a day" == report.sections[-1].title


def test_namesake_that_lives_is_told_of_itself() -> None:
    """What was of the earlier one is not its own."""
    pod = a_pod(labels={"app": "other"})
    report = why_pod(bare_reading(remembering(CUT), pod), pod.meta.key, pod, NOW)

    assert "left front" not in text_of(report)


def test_bind_remembers_too() -> None:
    """Under its own name."""
    group = remembering(CUT)
    meta = attrs.evolve(group.meta, key=bind_group_key(a_key("both")))
    report = of_pod(attrs.evolve(group, meta=meta))

    assert ["bind/both remembers for a day"] == [s.title for s in report.sections]


@pytest.mark.parametrize("backend", ["n1:80", "n1 for web:80"])
def test_node_that_is_gone_is_told_how_it_left(backend: str) -> None:
    """Of itself, or for a Service."""
    left = attrs.evolve(CUT, backend=backend, reason=Reason.NODE_GONE)
    group = attrs.evolve(remembering(left), selection=OF_NODES)
    report = why_node(bare_reading(group), "n1", NOW)

    assert [("NO", "left front", "Cut")] == line_facts(report)
    assert "no longer selected" in text_of(report)


def test_record_that_is_gone_is_told_by_its_name() -> None:
    """As logs and Events have it."""
    reading = bare_reading(remembering(CUT, DRAINED))
    report = why_record(reading, a_key("web-1-81"), NOW)

    told = "left front 1m ago: drained, nothing was left"
    assert f"there is no such record now; {told}" == report.headline
    with pytest.raises(ObjectNotFound, match="there is no br/x in namespace shop"):
        why_record(reading, a_key("x"), NOW)
