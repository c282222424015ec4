"""`why lb/NAME`: one load balancer: its driver, conditions, users and their records."""

from collections.abc import Iterator
from datetime import datetime

from lbcf.core.lifecycle.trouble import is_trouble
from lbcf.core.model.conditions import CREATED, READY, find
from lbcf.core.model.resources import LoadBalancer
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.ctl.flags import Kind
from lbcf.ctl.reading import Reading, not_found, unread_lines
from lbcf.ctl.records import record_sections, records_in_trouble
from lbcf.ctl.remedies import Trouble, remedied_line
from lbcf.ctl.report import (
    Line,
    Mark,
    Section,
    WhyReport,
    deletion_lines,
    first_few,
    first_wrong,
    object_ref,
    record_counts,
    user_ref,
)
from lbcf.kube.kinds import BINDS, DRIVERS, GROUPS, RECORDS


def why_load_balancer(reading: Reading, key: ObjectKey, now: datetime) -> WhyReport:
    """Report how a load balancer is, who uses it, and which records are not settled.

    Raises:
        ObjectNotFound: there is none.
    """
    view = reading.view
    balancer = view.load_balancers.get(key)
    if balancer is None:
        raise not_found(reading, Kind.LOAD_BALANCER, key)
    records = view.records.by_index("load_balancer", key)
    sections = (
        Section("itself", tuple(_own_lines(balancer, reading, now))),
        Section("used by", tuple(_user_lines(balancer, reading))),
        *record_sections(records, reading, now),
    )
    ill = records_in_trouble(records)
    headline, subject = _headline(balancer, sections, ill), object_ref("lb", key)
    return WhyReport(key.namespace, subject, headline, sections, reading.unread())


def _headline(balancer: LoadBalancer, sections: tuple[Section, ...], ill: str) -> str:
    if balancer.meta.deleting_since is not None:
        return _deletion(balancer, sections)
    wrong = first_wrong(sections[:1])
    if wrong is not None and wrong.mark is not Mark.UNKNOWN:
        return wrong.text
    if ill:
        return ill
    created = "created, and nothing is wrong with it"
    text = created if balancer.info else "not created yet"
    return text if wrong is None else f"{text}, as far as we may read"


def _deletion(balancer: LoadBalancer, sections: tuple[Section, ...]) -> str:
    """Return what the deletion of a load balancer waits for."""
    lines = sections[0].lines
    failure = next((line.text for line in lines if line.mark is Mark.NO), "")
    # Of a Bind's, Ready tells; of others, Created, although it is created.
    found = find(balancer.conditions, READY) or find(balancer.conditions, CREATED)
    text = failure or ("" if found is None else found.message)
    prefix = "being deleted; "
    return f"{prefix}{text.removeprefix(prefix) or 'waits for the controller'}"


def _own_lines(
    balancer: LoadBalancer, reading: Reading, now: datetime
) -> Iterator[Line]:
    yield from _driver_lines(balancer, reading)
    yield from deletion_lines(balancer.meta, now)
    driver = reading.view.drivers.get(balancer.driver_key)
    for condition in balancer.conditions:
        yield remedied_line(Trouble(balancer.meta.key, condition, driver), now)
    if balancer.info is not None:
        identity = ", ".join(f"{key}={value}" for key, value in balancer.info.items())
        yield Line(Mark.OK, "identity", identity or "(empty)")


def _driver_lines(balancer: LoadBalancer, reading: Reading) -> Iterator[Line]:
    key = balancer.driver_key
    driver, unavailable = reading.view.drivers.get(key), reading.driver_unavailable(key)
    if reading.is_forbidden(DRIVERS, key):
        text = f"{key}: we {reading.missing_right(DRIVERS, key.namespace)}"
        yield Line(Mark.UNKNOWN, "driver", text, Reason.NOT_READ)
    elif unavailable is not None:
        yield Line(Mark.NO, "driver", unavailable.message, unavailable.reason)
    elif driver is not None:
        yield Line(Mark.OK, "driver", f"{key} at {driver.url}")
        for bad in filter(is_trouble, driver.conditions):
            yield Line(Mark.NO, f"driver {bad.type}", bad.message, bad.reason)


def _user_lines(balancer: LoadBalancer, reading: Reading) -> Iterator[Line]:
    view, key = reading.view, balancer.meta.key
    groups = view.groups.by_index("load_balancer", key)
    names = (user_ref("bg", group.meta.key, key) for group in groups)
    yield Line(Mark.NONE, "groups", first_few(names))
    records = view.records.by_index("load_balancer", key)
    yield Line(Mark.NONE, "records", record_counts(records))
    yield from unread_lines(reading, key.namespace, GROUPS, BINDS, RECORDS)
