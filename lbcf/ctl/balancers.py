"""One load balancer, or one record: who operates it, what was said, who is waited for.

Before it: the view. After it: `tables`.
"""

from collections.abc import Iterator
from datetime import datetime

from lbcf.core.lifecycle.trouble import is_trouble
from lbcf.core.model.conditions import CREATED, READY, find
from lbcf.core.model.resources import LoadBalancer
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.ctl.flags import Kind
from lbcf.ctl.groups import look_at
from lbcf.ctl.history import section_of, sections_of
from lbcf.ctl.lookups import not_found, unread_lines
from lbcf.ctl.problems import subject
from lbcf.ctl.reading import Reading
from lbcf.ctl.records import stage_of, waits_for
from lbcf.ctl.spans import since
from lbcf.ctl.users import called, counted, named
from lbcf.ctl.verdicts import Line, Mark, Section, Why, condition_line, first_wrong
from lbcf.kube.kinds import BINDS, DRIVERS, GROUPS, RECORDS


def why_record(reading: Reading, key: ObjectKey, now: datetime) -> Why:
    """Tell how far a record is, and what its group has in mind for it.

    Raises:
        Unknown: there is none.
    """
    view = reading.view
    record = view.records.get(key)
    if record is None:
        raise not_found(reading, Kind.RECORD, key)
    group = None if record.group is None else view.groups.get(record.group)
    plan = None if group is None else look_at(reading, group).plan
    who = waits_for(record, reading, now)
    headline = f"{stage_of(record)}; waits for {who}" if who else stage_of(record)
    sections = (section_of(record, reading, now, plan),)
    about = f"br/{key.name}"
    return Why(key.namespace, about, headline, sections, reading.unread())


def why_balancer(reading: Reading, key: ObjectKey, now: datetime) -> Why:
    """Tell how a load balancer is, who uses it, and which records are in trouble.

    Raises:
        Unknown: there is none.
    """
    view = reading.view
    found = view.load_balancers.get(key)
    if found is None:
        raise not_found(reading, Kind.LOAD_BALANCER, key)
    records = view.records.by_index("load_balancer", key)
    sections = (
        Section("itself", tuple(_itself(found, reading, now))),
        Section("used by", tuple(_users(found, reading))),
        *sections_of(records, reading, now),
    )
    headline = _headline(found, sections)
    return Why(key.namespace, subject("lb", key), headline, sections, reading.unread())


def _headline(found: LoadBalancer, sections: tuple[Section, ...]) -> str:
    """Answer in a sentence."""
    if found.meta.deleting_since is not None:
        return _end_of(found, sections)
    wrong = first_wrong(sections[:1])
    if wrong is not None and wrong.mark is not Mark.UNKNOWN:
        return wrong.text
    told = "created, and nothing is wrong with it" if found.info else "not created yet"
    return told if wrong is None else f"{told}, as far as we may read"


def _end_of(found: LoadBalancer, sections: tuple[Section, ...]) -> str:
    """Say what the end of one that is being deleted waits for."""
    lines = sections[0].lines
    refused = next((line.text for line in lines if line.mark is Mark.NO), "")
    # Of a Bind's, Ready tells; of others, Created, although it is created.
    said = find(found.conditions, READY) or find(found.conditions, CREATED)
    told = refused or ("" if said is None else said.message)
    begun = "being deleted; "
    return f"{begun}{told.removeprefix(begun) or 'waits for the controller'}"


def _operator(found: LoadBalancer, reading: Reading) -> Iterator[Line]:
    """Say who operates it, and what is wrong with that driver."""
    key = found.driver_key
    driver, lacking = reading.view.drivers.get(key), reading.lacking_driver(key)
    if reading.is_hidden(DRIVERS, key):
        text = f"{key}: we {reading.gap(DRIVERS, key.namespace)}"
        yield Line(Mark.UNKNOWN, "driver", text, Reason.NOT_READ)
    elif lacking is not None:
        yield Line(Mark.NO, "driver", lacking.message, lacking.reason)
    elif driver is not None:
        yield Line(Mark.OK, "driver", f"{key} at {driver.url}")
        bad = (c for c in driver.conditions if is_trouble(c))
        for said in bad:
            yield Line(Mark.NO, f"driver {said.type}", said.message, said.reason)


def _itself(found: LoadBalancer, reading: Reading, now: datetime) -> Iterator[Line]:
    """Say who operates it, what is said of it, and who is waited for."""
    yield from _operator(found, reading)
    if found.meta.deleting_since is not None:
        text = f"since {since(found.meta.deleting_since, now)}"
        yield Line(Mark.WAIT, "being deleted", text)
    why = found.meta.abandoned
    if why:
        yield Line(Mark.WAIT, "abandoned", why)
    for said in found.conditions:
        yield condition_line(said, now)
    if found.info is not None:
        identity = ", ".join(f"{key}={value}" for key, value in found.info.items())
        yield Line(Mark.OK, "identity", identity or "(empty)")


def _users(found: LoadBalancer, reading: Reading) -> Iterator[Line]:
    """Say which groups use it, and how many records need it."""
    view, key = reading.view, found.meta.key
    groups = view.groups.by_index("load_balancer", key)
    names = (called("bg", group.meta.key, key) for group in groups)
    yield Line(Mark.NONE, "groups", named(names))
    records = view.records.by_index("load_balancer", key)
    yield Line(Mark.NONE, "records", counted(records))
    yield from unread_lines(reading, key.namespace, GROUPS, BINDS, RECORDS)
