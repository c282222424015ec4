"""`status`: what is wrong first, then groups, load balancers, drivers and leaders.

Wrong is a condition that reports a failure, an object that cannot be understood or has
not been looked at, and a process that nobody leads.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

import attrs

from lbcf.controller.view import View
from lbcf.core.lifecycle.departures import recent
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.departures import Departure, Outcome
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    LoadBalancer,
    LoadBalancerDriver,
)
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import EventReason, Reason
from lbcf.core.wording import some_of
from lbcf.ctl.leaders import (
    CONTROLLER,
    Leader,
    expected_leases,
    leader_remedy,
    missing_lease,
)
from lbcf.ctl.reading import STORES, Reading
from lbcf.ctl.records import attempt_of, trouble_of
from lbcf.ctl.remedies import Trouble, remedy_of
from lbcf.ctl.report import is_wrong, object_ref
from lbcf.kube.kinds import HasMeta
from lbcf.kube.leases import LEASES
from lbcf.kube.store import Store


T = TypeVar("T", bound=HasMeta)

_BESIDE_ITS_LIFE = frozenset(
    {
        conditions.DRIFTED,
        conditions.ORPHANED,
        conditions.REACHABLE,
        conditions.RESTORED,
    }
)
"""Conditions of a load balancer that are no step of its life."""

RECENT: Final = timedelta(hours=1)
"""For how long `status` tells of what is over, as long as Events are kept."""
_END_OF_DRAINS: Final = (
    "if clients minded: a longer drain.timeoutSeconds of the group or load balancer, or "
    "clients that give connections up sooner (docs/runbooks.md#lbcfdrainscutoff)"
)
_UNKNOWN: Final = datetime.max.replace(tzinfo=UTC)


@attrs.frozen
class Problem:
    """Something that is wrong.

    Attributes:
        subject: kind/name, as kubectl takes it.
        since: when it began; None where nobody knows.
        next: when it was to be tried again, as it was written once; None: it was not.
        count: how many objects of the kind say just the same; the first is named.
        remedy: what to do about it; empty where nobody knows, or the message says it.
    """

    namespace: str
    subject: str
    reason: str
    message: str
    since: datetime | None = None
    next: datetime | None = None
    count: int = 1
    remedy: str = ""


@attrs.frozen
class GroupRow:
    """A group, or a Bind, at a glance; numbers of backends as its status has them.

    Attributes:
        in_service: None where no load balancer of it lists its members.
    """

    namespace: str
    name: str
    load_balancers: tuple[str, ...]
    selected: int
    registered: int
    draining: int
    in_service: int | None
    ready: str


@attrs.frozen
class LoadBalancerRow:
    """A load balancer at a glance; numbers of the records that could be read.

    Attributes:
        state: the reason of its latest condition.
        pending: records that are not registered yet.
        ending: records on their way out.
    """

    namespace: str
    name: str
    driver: str
    state: str
    registered: int
    pending: int
    ending: int


@attrs.frozen
class DriverRow:
    """A driver at a glance.

    Attributes:
        healthy: empty where it is not asked.
        load_balancers: how many of those that could be read it operates.
    """

    namespace: str
    name: str
    url: str
    accepted: str
    healthy: str
    load_balancers: int


@attrs.frozen
class StatusReport:
    """All of it.

    Attributes:
        at: the moment of the question.
        namespace: what was asked about, empty for all of them.
        problems: what is wrong.
        lately: what happened within `RECENT` and is over, or mends itself.
        unread: what may not be read, in words.
    """

    at: datetime
    namespace: str
    problems: tuple[Problem, ...]
    groups: tuple[GroupRow, ...]
    load_balancers: tuple[LoadBalancerRow, ...]
    drivers: tuple[DriverRow, ...]
    leaders: tuple[Leader, ...]
    unread: tuple[str, ...] = ()
    lately: tuple[Problem, ...] = ()


def status_report(
    reading: Reading, leaders: tuple[Leader, ...], now: datetime
) -> StatusReport:
    """Report on all that was read."""
    view, records = reading.view, list(reading.view.records.values())
    groups = [g for g in _all(view.groups) if reading.is_in_scope(g.meta.key.namespace)]
    used = {g.load_balancer_key(name) for g in groups for name in g.load_balancers}
    used |= {record.load_balancer_key for record in records}
    balancers = _relevant(reading, view.load_balancers, used)
    used = {balancer.driver_key for balancer in balancers}
    used |= {record.driver_key for record in records}
    drivers = _relevant(reading, view.drivers, used)
    is_led = any(one.is_alive for one in leaders if one.name == CONTROLLER)
    is_readable = reading.missing_right(LEASES, "") is None
    return StatusReport(
        at=now,
        namespace=reading.namespace or "",
        problems=(
            *_leader_problems(leaders),
            *(_missing_leases({one.name for one in leaders}) if is_readable else ()),
            *_unreadable(reading),
            *_driver_problems(drivers),
            *load_balancer_problems(balancers, view),
            *_group_problems(groups, view, is_led=is_led),
            *record_problems(records, view),
        ),
        groups=tuple(map(_group_row, groups)),
        load_balancers=tuple(_load_balancer_row(one, view) for one in balancers),
        drivers=tuple(_driver_row(driver, view) for driver in drivers),
        leaders=leaders,
        unread=reading.unread(),
        lately=(*_resets(balancers, view, now), *_cuts(groups, now)),
    )


def _all(store: Store[T]) -> list[T]:
    return sorted(store.values(), key=lambda found: found.meta.key)


def _relevant(reading: Reading, store: Store[T], used: set[ObjectKey]) -> list[T]:
    """Return what is in the namespace of the question, and what is used from there."""
    return [
        found
        for found in _all(store)
        if reading.is_in_scope(found.meta.key.namespace) or found.meta.key in used
    ]


def _group_row(group: BackendGroup) -> GroupRow:
    status = group.status
    return GroupRow(
        namespace=group.meta.key.namespace,
        name=object_ref("bg", group.meta.key),
        load_balancers=group.load_balancers,
        selected=status.backends,
        registered=status.registered,
        draining=status.draining,
        in_service=status.in_service,
        ready=_reason(status.conditions, conditions.READY),
    )


def _load_balancer_row(balancer: LoadBalancer, view: View) -> LoadBalancerRow:
    key = balancer.meta.key
    counts = Counter(
        "ending" if r.is_deleting else "registered" if r.is_registered else "pending"
        for r in view.records.by_index("load_balancer", key)
    )
    return LoadBalancerRow(
        namespace=key.namespace,
        name=object_ref("lb", key),
        driver=balancer.driver,
        state=_state(balancer),
        registered=counts["registered"],
        pending=counts["pending"],
        ending=counts["ending"],
    )


def _state(balancer: LoadBalancer) -> str:
    """Return the reason of the first condition that is not True, else of the last."""
    if balancer.meta.deleting_since is not None:
        return "Deleting"
    found = [one for one in balancer.conditions if one.type not in _BESIDE_ITS_LIFE]
    bad = next((one.reason for one in found if one.status is not True), None)
    reachable = conditions.find(balancer.conditions, conditions.REACHABLE)
    if bad is None and reachable is not None and reachable.status is False:
        return reachable.reason
    return bad or (found[-1].reason if found else "")


def _driver_row(driver: LoadBalancerDriver, view: View) -> DriverRow:
    key = driver.meta.key
    return DriverRow(
        namespace=key.namespace,
        name=object_ref("driver", key),
        url=driver.url,
        accepted=_reason(driver.conditions, conditions.ACCEPTED),
        healthy=_reason(driver.conditions, conditions.HEALTHY),
        load_balancers=view.load_balancers.count("driver", key),
    )


def _reason(found: tuple[Condition, ...], kind: str) -> str:
    condition = conditions.find(found, kind)
    return "" if condition is None else condition.reason


def _leader_problems(leaders: Collection[Leader]) -> Iterator[Problem]:
    """Return Leases that nobody holds."""
    # A Lease that a move to another namespace left behind is no problem.
    led = {leader.name for leader in leaders if leader.is_alive}
    for leader in (one for one in leaders if one.name not in led):
        message = "nobody holds it"
        if leader.holder:
            message = f"{leader.holder} holds it and does not renew it"
        yield Problem(
            leader.namespace,
            f"lease/{leader.name}",
            Reason.NO_LEADER,
            f"{message}: is {leader.name} running?",
            since=leader.renewed,
            remedy=leader_remedy(leader.name, leader.namespace),
        )


def _missing_leases(existing: Collection[str]) -> Iterator[Problem]:
    """Return Leases that there should be beside those that exist."""
    for name in expected_leases(existing):
        if name not in existing:
            message, remedy = missing_lease(name, existing), leader_remedy(name)
            subject = f"lease/{name}"
            yield Problem("", subject, Reason.NO_LEADER, message, remedy=remedy)


def _unreadable(reading: Reading) -> Iterator[Problem]:
    for kind, (resource, store_of) in STORES.items():
        for key, message in sorted(store_of(reading.view).unreadable.items()):
            # What may not be read counts as unreadable, and is no problem of the object.
            if not reading.is_forbidden(resource, key):
                ref = object_ref(kind, key)
                yield Problem(key.namespace, ref, Reason.UNREADABLE, message)


def _driver_problems(
    drivers: Iterable[LoadBalancerDriver],
) -> Iterator[Problem]:
    for driver in drivers:
        for condition in filter(is_wrong, driver.conditions):
            yield _problem("driver", Trouble(driver.meta.key, condition, driver))


def load_balancer_problems(
    balancers: Iterable[LoadBalancer], view: View
) -> Iterator[Problem]:
    """Return load balancers that are not created, synced or deleted, or lost members."""
    for balancer in balancers:
        driver = view.drivers.get(balancer.driver_key)
        for condition in filter(is_wrong, balancer.conditions):
            yield _problem("lb", Trouble(balancer.meta.key, condition, driver))


def _resets(
    balancers: Iterable[LoadBalancer], view: View, now: datetime
) -> Iterator[Problem]:
    """Return load balancers that lost their members, which are back or on their way."""
    for balancer in balancers:
        said = conditions.find(balancer.conditions, conditions.RESTORED)
        if said is None or (said.status and now - (said.since or now) >= RECENT):
            continue
        driver = view.drivers.get(balancer.driver_key)
        yield _problem("lb", Trouble(balancer.meta.key, said, driver))


def _cuts(groups: Iterable[BackendGroup], now: datetime) -> Iterator[Problem]:
    """Return groups of which drains were cut at their deadline, as they remember it."""
    for group in groups:
        told = recent(group.status.departed, now)
        cuts = [one for one in told if one.outcome is Outcome.CUT]
        if cuts := [one for one in cuts if now - one.time < RECENT]:
            key = group.meta.key
            yield Problem(
                key.namespace,
                object_ref("bg", key),
                EventReason.DRAINS_CUT,
                _cuts_text(cuts),
                since=max(one.time for one in cuts),
                remedy=_END_OF_DRAINS,
            )


def _cuts_text(cuts: Collection[Departure]) -> str:
    known = [one.connections for one in cuts if one.connections is not None]
    noun = "drain was" if len(cuts) == 1 else "drains were"
    left = f", with {sum(known)} connections by the last count" if known else ""
    names = some_of([f"{one.backend} at {one.load_balancer}" for one in cuts])
    return f"{len(cuts)} {noun} cut at the deadline{left}: {names}"


def _group_problems(
    groups: Iterable[BackendGroup], view: View, *, is_led: bool
) -> Iterator[Problem]:
    """Return groups of which not all is decided, or whose guards hold after a failure.

    Args:
        groups: to look at.
        view: where their records are.
        is_led: somebody leads the controller: it looks at each change within seconds.
    """
    for group in groups:
        key, status = group.meta.key, group.status
        if not is_led and status.observed_generation < group.meta.generation:
            yield Problem(
                key.namespace,
                object_ref("bg", key),
                Reason.NOT_LOOKED_AT,
                "no controller has looked at it as it is now; that is in order for some "
                "seconds after a change",
            )
        for condition in filter(is_wrong, status.conditions):
            if not _is_outdated(condition, view.records_of(key)):
                yield _problem("bg", Trouble(key, condition))


def _is_outdated(condition: Condition, records: Iterable[BackendRecord]) -> bool:
    """Return whether a group selects something by now: its status is written every 5 s."""
    return condition.reason == Reason.NOTHING_SELECTED and any(
        not record.is_deleting for record in records
    )


def record_problems(records: Iterable[BackendRecord], view: View) -> Iterator[Problem]:
    """Return records in trouble; those that say the same are one problem."""
    same: dict[tuple[str, ...], list[tuple[BackendRecord, Condition]]] = {}
    for record in sorted(records, key=lambda record: record.meta.key):
        if (current := trouble_of(record)) is not None:
            place = (record.meta.key.namespace, record.spec.load_balancer)
            alike = same.setdefault((*place, current.reason, current.message), [])
            alike.append((record, current))
    for alike in same.values():
        record, current = min(alike, key=lambda one: one[1].since or _UNKNOWN)
        driver = view.drivers.get(record.driver_key)
        first = _problem("br", Trouble(record.meta.key, current, driver))
        yield attrs.evolve(first, next=attempt_of(record), count=len(alike))


def _problem(kind: str, trouble: Trouble) -> Problem:
    condition = trouble.condition
    return Problem(
        trouble.key.namespace,
        object_ref(kind, trouble.key),
        condition.reason,
        condition.message,
        condition.since,
        remedy=remedy_of(trouble),
    )
