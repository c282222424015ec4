"""What is wrong, as a list: the first part of `status`.

Before it: the view and the Leases. After it: `overview`. Wrong is a condition that says
no for a reason that no healthy life has (`core.trouble`), what cannot be understood or
has not been looked at, and a process that nobody leads.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

import attrs

from lbcf.core.lifecycle.trouble import is_trouble
from lbcf.core.model import names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    LoadBalancer,
    LoadBalancerDriver,
)
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.ctl.leaders import Leader
from lbcf.ctl.reading import Reading
from lbcf.ctl.records import last_word, next_attempt
from lbcf.ctl.spans import since
from lbcf.ctl.verdicts import is_wrong
from lbcf.kube.kinds import BINDS, DRIVERS, GROUPS, LOAD_BALANCERS, RECORDS


@attrs.frozen
class Problem:
    """Something that is wrong.

    Attributes:
        subject: kind/name, as kubectl takes it.
        since: for how long, in words; empty where nobody knows.
        next: when it is tried again, in words; empty where that is not written.
        count: how many objects of the kind say just the same; the first is named.
    """

    namespace: str
    subject: str
    reason: str
    message: str
    since: str = ""
    next: str = ""
    count: int = 1


def subject(kind: str, key: ObjectKey) -> str:
    """Name an object as the commands take it; a Bind's group goes by the Bind."""
    bind = names.bind_of(key)
    if kind == "bg" and bind is not None:
        return f"bind/{bind.name}"
    return f"{kind}/{key.name}"


def without_leader(
    leaders: Iterable[Leader], expected: Collection[str]
) -> Iterator[Problem]:
    """Find processes that nobody leads; a Lease left elsewhere is no matter then.

    Args:
        leaders: who holds Leases, or held them.
        expected: names of the Leases that there should be, as far as we may know.
    """
    found = list(leaders)
    led = {leader.name for leader in found if leader.is_alive}
    for leader in (one for one in found if one.name not in led):
        message = "nobody holds it"
        if leader.holder:
            message = f"{leader.holder} holds it and does not renew it"
        yield Problem(
            leader.namespace,
            f"lease/{leader.name}",
            Reason.NO_LEADER,
            f"{message}: is {leader.name} running?",
            since=leader.renewed,
        )
    for name in expected:
        if not any(leader.name == name for leader in found):
            told = f"there is no such Lease: has {name} ever run, with --leader-elect?"
            yield Problem("", f"lease/{name}", Reason.NO_LEADER, told)


def unreadable(reading: Reading) -> Iterator[Problem]:
    """Find what cannot be understood, but for what we may not read at all."""
    view = reading.view
    for kind, resource, store in (
        ("driver", DRIVERS, view.drivers),
        ("lb", LOAD_BALANCERS, view.load_balancers),
        ("bg", GROUPS, view.groups),
        ("bind", BINDS, view.binds),
        ("br", RECORDS, view.records),
    ):
        for key, message in sorted(store.unreadable.items()):
            if not reading.is_hidden(resource, key):
                yield Problem(
                    key.namespace, subject(kind, key), Reason.UNREADABLE, message
                )


def of_drivers(
    drivers: Iterable[LoadBalancerDriver], now: datetime
) -> Iterator[Problem]:
    """Find drivers that are not accepted, or not healthy."""
    for driver in drivers:
        yield from _said("driver", driver.meta.key, driver.conditions, now)


def of_balancers(balancers: Iterable[LoadBalancer], now: datetime) -> Iterator[Problem]:
    """Find load balancers that are not created, synced or deleted, or lost members."""
    for balancer in balancers:
        yield from _said("lb", balancer.meta.key, balancer.conditions, now)


def of_groups(
    groups: Iterable[BackendGroup], now: datetime, *, led: bool
) -> Iterator[Problem]:
    """Find groups of which not all is decided, or whose guards hold for bad reasons.

    Args:
        groups: to look at.
        now: the moment.
        led: somebody leads the controller: it looks at each change within seconds.
    """
    for group in groups:
        found, key = group.status.conditions, group.meta.key
        if not led and group.status.observed_generation < group.meta.generation:
            yield Problem(
                key.namespace,
                subject("bg", key),
                Reason.NOT_LOOKED_AT,
                "no controller has looked at it as it is now; that is in order for some "
                "seconds after a change",
            )
        yield from _said("bg", key, found, now)


def of_records(records: Iterable[BackendRecord], now: datetime) -> Iterator[Problem]:
    """Find records in trouble; those that say the same are told as one."""
    same: dict[tuple[str, ...], list[tuple[BackendRecord, Condition]]] = {}
    for record in sorted(records, key=lambda record: record.meta.key):
        word = last_word(record)
        if word is not None and is_trouble(word):
            place = (record.meta.key.namespace, record.spec.load_balancer)
            same.setdefault((*place, word.reason, word.message), []).append(
                (record, word)
            )
    for alike in same.values():
        record, word = min(alike, key=lambda one: one[1].since or now)
        first = _problem("br", record.meta.key, word, now)
        yield attrs.evolve(first, next=next_attempt(record, now), count=len(alike))


def _said(
    kind: str, key: ObjectKey, found: Iterable[Condition], now: datetime
) -> Iterator[Problem]:
    """Find what is wrong with an object."""
    for condition in found:
        if is_wrong(condition):
            yield _problem(kind, key, condition, now)


def _problem(kind: str, key: ObjectKey, condition: Condition, now: datetime) -> Problem:
    """Say a condition as something that is wrong."""
    return Problem(
        key.namespace,
        subject(kind, key),
        condition.reason,
        condition.message,
        since(condition.since, now),
    )
