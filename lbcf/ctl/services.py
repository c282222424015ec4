"""`why svc/NAME`: a Service of type LoadBalancer: its class, its ports, their records."""

from collections.abc import Iterator
from datetime import datetime

from lbcf.core.model import conditions, names
from lbcf.core.model.nodes import NodePortService
from lbcf.core.model.resources import BackendGroup, BackendRecord, LoadBalancer
from lbcf.ctl.balancer_troubles import balancer_troubles
from lbcf.ctl.reading import Reading, unread_lines
from lbcf.ctl.records import record_sections, records_in_trouble
from lbcf.ctl.remedies import Trouble, remedied_line
from lbcf.ctl.report import (
    Line,
    Mark,
    Section,
    WhyReport,
    deletion_lines,
    first_wrong,
    is_wrong,
    object_ref,
    record_counts,
)
from lbcf.kube.kinds import GROUPS, LOAD_BALANCERS, RECORDS


def why_service(reading: Reading, service: NodePortService, now: datetime) -> WhyReport:
    """Report what became of a Service, and what of it is not as it should be.

    Args:
        reading: load balancers, groups and records of its namespace.
        service: itself.
        now: the moment.
    """
    key, view = service.meta.key, reading.view
    balancers = view.load_balancers.by_index("service", key)
    groups = view.groups.by_index("exposed_by", key)
    records = [r for group in groups for r in view.records_of(group.meta.key)]
    sections = (
        Section("as the controller last wrote", tuple(_own_lines(service, now))),
        Section(
            "its ports",
            (
                *(
                    line
                    for one in balancers
                    for line in _balancer_lines(one, reading, now)
                ),
                *(line for one in groups for line in _group_lines(one, reading, now)),
                *unread_lines(reading, key.namespace, LOAD_BALANCERS, GROUPS, RECORDS),
            ),
        ),
        *record_sections(records, reading, now),
    )
    headline = _headline(service, sections, records)
    return WhyReport(
        key.namespace, object_ref("svc", key), headline, sections, reading.unread()
    )


def _headline(
    service: NodePortService,
    sections: tuple[Section, ...],
    records: list[BackendRecord],
) -> str:
    wrong, ill = first_wrong(sections[:2]), records_in_trouble(records)
    if wrong is not None and (wrong.mark is Mark.NO or not ill):
        return wrong.text
    if ill:
        return ill
    if _stranger(service):
        return sections[0].lines[0].text
    return f"nothing is wrong with it; {record_counts(records)}"


def _stranger(service: NodePortService) -> str:
    """Return why lbcf leaves a Service alone; empty: it does not."""
    exposure = service.exposure
    if service.meta.annotations.get(names.ANNOTATION_CLASS):
        return ""
    if exposure is None or not exposure.is_balanced:
        return f"its type is {service.type}: lbcf leaves it alone"
    if not exposure.class_name:
        return (
            "it names no loadBalancerClass, and lbcf has not taken it up: no "
            "LoadBalancerClass is the default"
        )
    if exposure.class_name.startswith(f"{names.API_GROUP}/"):
        return ""
    return f"its loadBalancerClass {exposure.class_name} is another controller's"


def _own_lines(service: NodePortService, now: datetime) -> Iterator[Line]:
    if stranger := _stranger(service):
        yield Line(Mark.NONE, "class", stranger)
        return
    yield from deletion_lines(service.meta, now)
    exposure, meta = service.exposure, service.meta
    taken_up = meta.annotations.get(names.ANNOTATION_CLASS, "")
    if taken_up:
        yield Line(Mark.OK, "class", taken_up)
    said = exposure.conditions if exposure else ()
    condition = conditions.find(said, conditions.LOAD_BALANCER_READY)
    if condition is None:
        yield Line(Mark.WAIT, "its spec", "no controller has looked at it yet")
    else:
        yield remedied_line(Trouble(meta.key, condition), now)
    for one in exposure.ingress if exposure else ():
        yield Line(Mark.OK, "address", str(one))


def _balancer_lines(
    balancer: LoadBalancer, reading: Reading, now: datetime
) -> Iterator[Line]:
    subject = f"lb/{balancer.meta.key.name}"
    yield from deletion_lines(balancer.meta, now)
    troubles = tuple(balancer_troubles(reading, balancer.meta.key, now))
    yield from troubles
    if not troubles:
        text = "created" if balancer.info is not None else "not created yet"
        mark = Mark.OK if balancer.info is not None else Mark.WAIT
        yield Line(mark, subject, text)


def _group_lines(
    group: BackendGroup, reading: Reading, now: datetime
) -> Iterator[Line]:
    subject, key = f"bg/{group.meta.key.name}", group.meta.key
    for one in filter(is_wrong, group.status.conditions):
        yield remedied_line(Trouble(key, one), now)
    yield Line(Mark.NONE, subject, record_counts(reading.view.records_of(key)))
