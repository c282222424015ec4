"""One driver: whether it can be called, how it is, who uses it, what keeps it.

Before it: the view. After it: `tables`. Whether it can be called only the controller
knows, which reads its Secrets and is told where drivers may be: here its word is taken
apart into the checks that it makes, in their order.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import attrs

from lbcf.controller.driver_needs import needs_of
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import FINALIZER_DRIVER, LABEL_DRAINING
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.ctl import problems
from lbcf.ctl.flags import Kind
from lbcf.ctl.lookups import not_found, unread_lines
from lbcf.ctl.problems import Problem, subject
from lbcf.ctl.reading import Reading
from lbcf.ctl.spans import since
from lbcf.ctl.users import called, counted, named
from lbcf.ctl.verdicts import Line, Mark, Section, Why, condition_line, first_wrong
from lbcf.kube.kinds import BINDS, GROUPS, LOAD_BALANCERS, RECORDS


CHECKS: Final = {
    "URL": frozenset({Reason.URL_UNUSABLE}),
    "place": frozenset({Reason.DRIVER_URL_NOT_ALLOWED}),
    "Secrets": frozenset({Reason.DRIVER_SECRET_NOT_FOUND, Reason.DRIVER_SECRET_UNREAD}),
    "authorities": frozenset({Reason.DRIVER_CA_BUNDLE_UNUSABLE}),
    "credentials": frozenset({Reason.DRIVER_SECRET_UNUSABLE}),
}
"""What is looked at before a driver is called, in order, and the reasons of a no."""

_SHOWN = 10


@attrs.frozen
class _Asked:
    """What is asked about, and what was read around it."""

    driver: LoadBalancerDriver
    reading: Reading
    now: datetime

    @property
    def key(self) -> ObjectKey:
        """Say where the driver is."""
        return self.driver.meta.key


def why_driver(reading: Reading, key: ObjectKey, now: datetime) -> Why:
    """Tell how a driver is, who uses it, what is in trouble there, and what keeps it.

    Raises:
        Unknown: there is none.
    """
    driver = reading.view.drivers.get(key)
    if driver is None:
        raise not_found(reading, Kind.DRIVER, key)
    asked = _Asked(driver, reading, now)
    trouble = _trouble(asked)
    sections = (
        Section("can it be called?", tuple(_checked(asked))),
        Section("itself", tuple(_itself(asked))),
        Section("used by", tuple(_users(asked))),
        Section("what its load balancers and records say", tuple(_told(trouble))),
        Section("before it can go", tuple(_kept(asked))),
    )
    headline = _headline(asked, sections, trouble)
    about = subject("driver", key)
    return Why(key.namespace, about, headline, sections, reading.unread())


def _headline(
    asked: _Asked, sections: tuple[Section, ...], trouble: list[Problem]
) -> str:
    """Answer in a sentence."""
    if asked.driver.meta.deleting_since is not None:
        kept = [line.text for line in sections[-1].lines if line.mark is not Mark.OK]
        return f"being deleted; waits for {'; '.join(kept) or 'the controller'}"
    wrong = first_wrong(sections[:2])
    if trouble and (wrong is None or wrong.mark is not Mark.NO):
        return f"can be called; in trouble: {trouble[0].message}"
    return wrong.text if wrong else "can be called, and nothing is wrong with it"


def _checked(asked: _Asked) -> Iterator[Line]:
    """Say of each check what came of it, as the controller last wrote."""
    driver, spoken = asked.driver, False
    accepted = conditions.find(driver.conditions, conditions.ACCEPTED)
    for check, reasons in CHECKS.items():
        if spoken:
            yield Line(Mark.NONE, check, "not asked any more")
        elif accepted is None:
            yield Line(Mark.WAIT, check, "no controller has looked at it yet")
        elif accepted.status is False and accepted.reason in reasons:
            spoken = True
            yield Line(Mark.NO, check, accepted.message, accepted.reason)
        else:
            yield _passed(check, driver)
    if accepted is not None and accepted.status is False and not spoken:
        yield condition_line(accepted, asked.now, Mark.NO)
    if accepted is not None and _is_old(accepted, driver):
        yield Line(Mark.WAIT, "its spec", "no controller has looked at it as it is now")


def _is_old(said: Condition, driver: LoadBalancerDriver) -> bool:
    """Tell whether something was said of an earlier spec."""
    return said.observed_generation < driver.meta.generation


def _passed(check: str, driver: LoadBalancerDriver) -> Line:
    """Say what a check that found nothing has looked at."""
    secrets = ", ".join(sorted(key.name for key in driver.secrets))
    return {
        "URL": Line(Mark.OK, check, driver.url),
        "place": Line(Mark.OK, check, "drivers may be there"),
        "Secrets": _needed(check, f"{secrets}: read", "it names none", secrets),
        "authorities": _authorities(check, driver),
        "credentials": _needed(check, "can be used", "it is sent none", secrets),
    }[check]


def _needed(check: str, text: str, otherwise: str, found: str) -> Line:
    """Say what a check has looked at, where there was anything to look at."""
    return Line(Mark.OK, check, text) if found else Line(Mark.NONE, check, otherwise)


def _authorities(check: str, driver: LoadBalancerDriver) -> Line:
    """Say whose certificate a driver has to have."""
    if driver.security.ca_bundle:
        return Line(Mark.OK, check, "those of spec.tls.caBundle")
    if driver.url.startswith("https:"):
        return Line(Mark.OK, check, "the system's, where our processes run")
    return Line(Mark.NONE, check, "none are asked over http")


def _itself(asked: _Asked) -> Iterator[Line]:
    """Say what it answers of itself, and what was ordered about it."""
    driver, now = asked.driver, asked.now
    healthy = conditions.find(driver.conditions, conditions.HEALTHY)
    if not driver.declares(Operation.HEALTHZ):
        yield Line(Mark.NONE, "healthz", "not asked: spec.webhooks does not list it")
    elif healthy is None:
        yield Line(Mark.WAIT, "healthz", "not asked yet")
    else:
        yield condition_line(healthy, now)
    if driver.meta.deleting_since is not None:
        text = f"since {since(driver.meta.deleting_since, now)}"
        yield Line(Mark.WAIT, "being deleted", text)
    if why := driver.meta.abandoned:
        yield Line(Mark.WAIT, "abandoned", why)
    if driver.is_leaving:
        yield Line(Mark.WAIT, "draining?", "it takes no new load balancer")
    else:
        yield Line(Mark.OK, "draining?", "no")
    text = f"at most {driver.max_concurrent_calls} at a time from each process"
    yield Line(Mark.NONE, "calls", text)


def _users(asked: _Asked) -> Iterator[Line]:
    """Say which load balancers and groups use it, and how many records need it."""
    view, key = asked.reading.view, asked.key
    balancers = view.load_balancers.by_index("driver", key)
    groups = {g.meta.key for g in view.groups.by_index("judge", key)}
    for balancer in balancers:
        users = view.groups.by_index("load_balancer", balancer.meta.key)
        groups |= {group.meta.key for group in users}
    names = (called("lb", balancer.meta.key, key) for balancer in balancers)
    yield Line(Mark.NONE, "load balancers", named(names))
    yield Line(Mark.NONE, "groups", named(called("bg", group, key) for group in groups))
    yield Line(Mark.NONE, "records", counted(view.records.by_index("driver", key)))


def _trouble(asked: _Asked) -> list[Problem]:
    """Find what is in trouble of all that it operates."""
    view, key, now = asked.reading.view, asked.key, asked.now
    balancers = sorted(
        view.load_balancers.by_index("driver", key), key=lambda one: one.meta.key
    )
    return [
        *problems.of_balancers(balancers, now),
        *problems.of_records(view.records.by_index("driver", key), now),
    ]


def _told(trouble: list[Problem]) -> Iterator[Line]:
    """Say what is in trouble, and since when."""
    if not trouble:
        yield Line(Mark.OK, "in trouble", "none")
    for one in trouble[:_SHOWN]:
        more = f" and {one.count - 1} more" if one.count > 1 else ""
        following = f"; tried again {one.next}" if one.next else ""
        held = f" (for {one.since})" if one.since else ""
        text = f"{one.message}{held}{following}"
        yield Line(Mark.NO, f"{one.subject}{more}", text, one.reason)
    if len(trouble) > _SHOWN:
        yield Line(Mark.NONE, "not shown", f"{len(trouble) - _SHOWN} more")


def _kept(asked: _Asked) -> Iterator[Line]:
    """Say what stands between it and its end."""
    meta, reading = asked.driver.meta, asked.reading
    if meta.deleting_since is None:
        label = f"label {LABEL_DRAINING}=true"
        is_set = meta.labels.get(LABEL_DRAINING) == "true"
        text = f"it has {label}" if is_set else f"nobody can delete it without {label}"
        yield Line(Mark.OK if is_set else Mark.WAIT, "label", text)
    needs = needs_of(reading.view, asked.key)
    kinds = (LOAD_BALANCERS, GROUPS, BINDS, RECORDS)
    for line in unread_lines(reading, asked.key.namespace, *kinds):
        yield attrs.evolve(line, subject="needed by")
    for need in needs:
        yield Line(Mark.WAIT, "needed by", need)
    if not needs:
        yield Line(Mark.OK, "needed by", "nobody that we see")
    for other in (f for f in meta.finalizers if f != FINALIZER_DRIVER):
        yield Line(Mark.WAIT, "finalizer", f"whoever holds the finalizer {other}")
