"""Readings of made-up clusters, and reports as a pipe gets them."""

from datetime import datetime, timedelta

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord, DrainProgress, RecordStatus
from lbcf.core.reasons import Reason
from lbcf.ctl import tables
from lbcf.ctl.errors import MissingRight
from lbcf.ctl.reading import Reading
from lbcf.ctl.report import Line, WhyReport
from lbcf.kube.client import KubeClient
from tests.builders import (
    NAMESPACE,
    START,
    a_driver,
    a_group,
    a_load_balancer,
    a_record,
)
from tests.controller.exchanges import Nobody
from tests.controller.views import Thing, show


NOW: datetime = START + timedelta(minutes=1)
FORBIDDEN_PODS = MissingRight("list", "pods", NAMESPACE)


def bare_reading(*things: Thing, namespace: str | None = NAMESPACE) -> Reading:
    """Make a reading of these things alone."""
    reading = Reading(KubeClient(Nobody()), namespace)
    show(reading.view, *things)
    return reading


def a_reading(*things: Thing) -> Reading:
    """Make a reading of the everyday driver, load balancer and group, and of these."""
    return bare_reading(a_driver(), a_load_balancer(), a_group(), *things)


def a_draining_record() -> BackendRecord:
    """Make a record whose four connections may go on for another half minute."""
    told = Condition(conditions.DRAINED, False, Reason.DRAINING, "wait", 1, START)
    drain = DrainProgress(START, NOW + timedelta(seconds=30), 4)
    status = RecordStatus(conditions=(told,), drain=drain)
    return a_record(status=status, deleting=True)


def line_facts(report: WhyReport) -> list[tuple[str, str, str]]:
    """Return a report's lines: mark, subject, and reason where there is one."""
    lines: list[Line] = [line for part in report.sections for line in part.lines]
    return [(line.mark.value, line.subject, line.reason) for line in lines]


def text_of(report: object, width: int = 10_000) -> str:
    """Return what a report looks like, without colours."""
    return tables.as_text(tables.draw(report), tables.make_console(width))
