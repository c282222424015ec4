"""`why driver/NAME`: whether a driver can be called, how it is, who uses it.

Whether it can be called only the controller knows, which reads its Secrets and has the
list of allowed URLs: its condition Accepted is taken apart into the checks behind it.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import attrs

from lbcf.controller.view import needs_of
from lbcf.core.model import conditions
from lbcf.core.model.names import FINALIZER_DRIVER, LABEL_DRAINING
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.ctl.flags import Kind
from lbcf.ctl.reading import Reading, not_found, unread_lines
from lbcf.ctl.records import next_attempt
from lbcf.ctl.remedies import MEND_REFUSAL, Trouble, remedied_line, remedy_of
from lbcf.ctl.report import (
    Line,
    Mark,
    Section,
    WhyReport,
    age,
    deletion_lines,
    first_few,
    first_wrong,
    object_ref,
    record_counts,
    user_ref,
)
from lbcf.ctl.status import Problem, load_balancer_problems, record_problems
from lbcf.kube.kinds import BINDS, GROUPS, LOAD_BALANCERS, RECORDS


CHECKS: Final = {
    "URL": frozenset({Reason.URL_UNUSABLE}),
    "place": frozenset({Reason.DRIVER_URL_NOT_ALLOWED}),
    "Secrets": frozenset({Reason.DRIVER_SECRET_NOT_FOUND, Reason.DRIVER_SECRET_UNREAD}),
    "authorities": frozenset({Reason.DRIVER_CA_BUNDLE_UNUSABLE}),
    "credentials": frozenset({Reason.DRIVER_SECRET_UNUSABLE}),
}
"""The controller's checks before it calls a driver, in order, and the reasons of each."""

_MAX_PROBLEMS = 10


def why_driver(reading: Reading, key: ObjectKey, now: datetime) -> WhyReport:
    """Report how a driver is, who uses it, what is in trouble there, and what keeps it.

    Raises:
        ObjectNotFound: there is none.
    """
    driver = reading.view.drivers.get(key)
    if driver is None:
        raise not_found(reading, Kind.DRIVER, key)
    problems = _problems(reading, key)
    sections = (
        Section("can it be called?", tuple(_check_lines(driver, now))),
        Section("itself", tuple(_own_lines(driver, now))),
        Section("used by", tuple(_user_lines(reading, key))),
        Section(
            "what its load balancers and records say",
            tuple(_problem_lines(problems, now)),
        ),
        Section("before it can go", tuple(_kept_lines(driver, reading))),
    )
    headline, subject = _headline(driver, sections, problems), object_ref("driver", key)
    return WhyReport(key.namespace, subject, headline, sections, reading.unread())


def _headline(
    driver: LoadBalancerDriver, sections: tuple[Section, ...], problems: list[Problem]
) -> str:
    if driver.meta.deleting_since is not None:
        kept = [line.text for line in sections[-1].lines if line.mark is not Mark.OK]
        return f"being deleted; waits for {'; '.join(kept) or 'the controller'}"
    wrong = first_wrong(sections[:2])
    if problems and (wrong is None or wrong.mark is not Mark.NO):
        return f"can be called; in trouble: {problems[0].message}"
    return wrong.text if wrong else "can be called, and nothing is wrong with it"


def _check_lines(driver: LoadBalancerDriver, now: datetime) -> Iterator[Line]:
    accepted = conditions.find(driver.conditions, conditions.ACCEPTED)
    has_failed = False
    for check, reasons in CHECKS.items():
        if has_failed:
            yield Line(Mark.NONE, check, "not asked any more")
        elif accepted is None:
            yield Line(Mark.WAIT, check, "no controller has looked at it yet")
        elif accepted.status is False and accepted.reason in reasons:
            has_failed = True
            remedy = remedy_of(Trouble(driver.meta.key, accepted, driver))
            yield Line(Mark.NO, check, accepted.message, accepted.reason, remedy)
        else:
            yield _passed(check, driver)
    if accepted is None:
        return
    if accepted.status is False and not has_failed:
        yield remedied_line(Trouble(driver.meta.key, accepted, driver), now, Mark.NO)
    if accepted.observed_generation < driver.meta.generation:
        yield Line(Mark.WAIT, "its spec", "no controller has looked at it as it is now")


def _passed(check: str, driver: LoadBalancerDriver) -> Line:
    """Return what a check that passed has looked at."""
    secrets = ", ".join(sorted(key.name for key in driver.secrets))
    mark = Mark.OK if secrets else Mark.NONE
    match check:
        case "Secrets":
            text = f"{secrets}: read" if secrets else "it names none"
            return Line(mark, check, text)
        case "credentials":
            text = "can be used" if secrets else "it is sent none"
            return Line(mark, check, text)
        case "authorities":
            return _authorities(check, driver)
        case "place":
            return Line(Mark.OK, check, "drivers may be there")
        case _:
            return Line(Mark.OK, check, driver.url)


def _authorities(check: str, driver: LoadBalancerDriver) -> Line:
    if driver.security.ca_bundle:
        return Line(Mark.OK, check, "those of spec.tls.caBundle")
    if driver.url.startswith("https:"):
        return Line(Mark.OK, check, "the system's, where our processes run")
    return Line(Mark.NONE, check, "none are asked over http")


def _own_lines(driver: LoadBalancerDriver, now: datetime) -> Iterator[Line]:
    healthy = conditions.find(driver.conditions, conditions.HEALTHY)
    if not driver.declares(Operation.HEALTHZ):
        yield Line(Mark.NONE, "healthz", "not asked: spec.webhooks does not list it")
    elif healthy is None:
        yield Line(Mark.WAIT, "healthz", "not asked yet")
    else:
        yield remedied_line(Trouble(driver.meta.key, healthy, driver), now)
    yield from deletion_lines(driver.meta, now)
    if driver.is_leaving:
        yield Line(Mark.WAIT, "draining?", "it takes no new load balancer")
    else:
        yield Line(Mark.OK, "draining?", "no")
    text = f"at most {driver.max_concurrent_calls} at a time from each process"
    yield Line(Mark.NONE, "calls", text)


def _user_lines(reading: Reading, key: ObjectKey) -> Iterator[Line]:
    view = reading.view
    balancers = view.load_balancers.by_index("driver", key)
    groups = {g.meta.key for g in view.groups.by_index("judge", key)}
    for balancer in balancers:
        users = view.groups.by_index("load_balancer", balancer.meta.key)
        groups |= {group.meta.key for group in users}
    names = (user_ref("lb", balancer.meta.key, key) for balancer in balancers)
    yield Line(Mark.NONE, "load balancers", first_few(names))
    names = (user_ref("bg", group, key) for group in groups)
    yield Line(Mark.NONE, "groups", first_few(names))
    records = view.records.by_index("driver", key)
    yield Line(Mark.NONE, "records", record_counts(records))


def _problems(reading: Reading, key: ObjectKey) -> list[Problem]:
    view = reading.view
    balancers = sorted(
        view.load_balancers.by_index("driver", key), key=lambda one: one.meta.key
    )
    return [
        *load_balancer_problems(balancers, view),
        *record_problems(view.records.by_index("driver", key), view),
    ]


def _problem_lines(problems: list[Problem], now: datetime) -> Iterator[Line]:
    if not problems:
        yield Line(Mark.OK, "in trouble", "none")
    for one in problems[:_MAX_PROBLEMS]:
        more = f" and {one.count - 1} more" if one.count > 1 else ""
        following = f"; tried again {next_attempt(one.next, now)}" if one.next else ""
        held = f" (for {age(one.since, now)})" if one.since else ""
        text = f"{one.message}{held}{following}"
        subject = f"{one.subject}{more}"
        # What else it refuses is below and above.
        remedy = MEND_REFUSAL if one.reason == Reason.DRIVER_REFUSED else one.remedy
        yield Line(Mark.NO, subject, text, one.reason, remedy, one.since)
    if len(problems) > _MAX_PROBLEMS:
        yield Line(Mark.NONE, "not shown", f"{len(problems) - _MAX_PROBLEMS} more")


def _kept_lines(driver: LoadBalancerDriver, reading: Reading) -> Iterator[Line]:
    """Return what stands between a driver and its end."""
    meta, key = driver.meta, driver.meta.key
    if meta.deleting_since is None:
        label = f"label {LABEL_DRAINING}=true"
        is_set = meta.labels.get(LABEL_DRAINING) == "true"
        text = f"it has {label}" if is_set else f"nobody can delete it without {label}"
        yield Line(Mark.OK if is_set else Mark.WAIT, "label", text)
    needs = needs_of(reading.view, key)
    kinds = (LOAD_BALANCERS, GROUPS, BINDS, RECORDS)
    for line in unread_lines(reading, key.namespace, *kinds):
        yield attrs.evolve(line, subject="needed by")
    for need in needs:
        yield Line(Mark.WAIT, "needed by", need)
    if not needs:
        yield Line(Mark.OK, "needed by", "nobody that we see")
    for other in (f for f in meta.finalizers if f != FINALIZER_DRIVER):
        yield Line(Mark.WAIT, "finalizer", f"whoever holds the finalizer {other}")
