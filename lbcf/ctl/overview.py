"""`status`: what is wrong first, then what there is, each in a line.

Before it: `reading` has our kinds, `leaders` the Leases. After it: `tables` draws it, or
`output` writes it as JSON.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

import attrs

from lbcf.controller.view import View
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendGroup, LoadBalancer, LoadBalancerDriver
from lbcf.ctl import problems
from lbcf.ctl.leaders import CONTROLLER, LEASES_OF, Leader
from lbcf.ctl.problems import Problem, subject
from lbcf.ctl.reading import Reading
from lbcf.kube.kinds import HasMeta
from lbcf.kube.leases import LEASES
from lbcf.kube.store import Store


T = TypeVar("T", bound=HasMeta)


@attrs.frozen
class GroupRow:
    """A group, or a Bind, at a glance; numbers of backends as its status has them."""

    namespace: str
    name: str
    load_balancers: tuple[str, ...]
    selected: int
    registered: int
    draining: int
    ready: str


@attrs.frozen
class BalancerRow:
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
class Overview:
    """All of it.

    Attributes:
        namespace: what was asked about, empty for all of them.
        problems: what is wrong.
        unread: what may not be read, in words.
    """

    namespace: str
    problems: tuple[Problem, ...]
    groups: tuple[GroupRow, ...]
    load_balancers: tuple[BalancerRow, ...]
    drivers: tuple[DriverRow, ...]
    leaders: tuple[Leader, ...]
    unread: tuple[str, ...] = ()


def overview(reading: Reading, leaders: tuple[Leader, ...], now: datetime) -> Overview:
    """Look at all that was read."""
    view = reading.view
    groups = [g for g in _all(view.groups) if reading.is_meant(g.meta.key.namespace)]
    balancers = _balancers(reading, groups)
    drivers = _drivers(reading, balancers)
    led = any(one.is_alive for one in leaders if one.name == CONTROLLER)
    readable = reading.gap(LEASES, "") is None
    return Overview(
        namespace=reading.namespace or "",
        problems=(
            *problems.without_leader(leaders, LEASES_OF if readable else ()),
            *problems.unreadable(reading),
            *problems.of_drivers(drivers, now),
            *problems.of_balancers(balancers, now),
            *problems.of_groups(groups, now, led=led),
            *problems.of_records(view.records.values(), now),
        ),
        groups=tuple(_group_row(group) for group in groups),
        load_balancers=tuple(_balancer_row(balancer, view) for balancer in balancers),
        drivers=tuple(_driver_row(driver, view) for driver in drivers),
        leaders=leaders,
        unread=reading.unread(),
    )


def _all(store: Store[T]) -> list[T]:
    """Return what a store holds, by key."""
    return sorted(store.values(), key=lambda found: found.meta.key)


def _balancers(reading: Reading, groups: Iterable[BackendGroup]) -> list[LoadBalancer]:
    """Find the load balancers of what was asked about, and the shared ones it uses."""
    used = {g.load_balancer_key(name) for g in groups for name in g.load_balancers}
    used |= {record.load_balancer_key for record in reading.view.records.values()}
    return [
        balancer
        for balancer in _all(reading.view.load_balancers)
        if reading.is_meant(balancer.meta.key.namespace) or balancer.meta.key in used
    ]


def _drivers(
    reading: Reading, balancers: Iterable[LoadBalancer]
) -> list[LoadBalancerDriver]:
    """Find the drivers of what was asked about, and the shared ones it uses."""
    used = {balancer.driver_key for balancer in balancers}
    used |= {record.driver_key for record in reading.view.records.values()}
    return [
        driver
        for driver in _all(reading.view.drivers)
        if reading.is_meant(driver.meta.key.namespace) or driver.meta.key in used
    ]


def _group_row(group: BackendGroup) -> GroupRow:
    """Say a group in a line."""
    status = group.status
    return GroupRow(
        namespace=group.meta.key.namespace,
        name=subject("bg", group.meta.key),
        load_balancers=group.load_balancers,
        selected=status.backends,
        registered=status.registered,
        draining=status.draining,
        ready=_word(status.conditions, conditions.READY),
    )


def _balancer_row(balancer: LoadBalancer, view: View) -> BalancerRow:
    """Say a load balancer in a line."""
    key = balancer.meta.key
    found = Counter(
        "ending" if r.is_deleting else "registered" if r.is_registered else "pending"
        for r in view.records.by_index("load_balancer", key)
    )
    return BalancerRow(
        namespace=key.namespace,
        name=subject("lb", key),
        driver=balancer.driver,
        state=state_of(balancer),
        registered=found["registered"],
        pending=found["pending"],
        ending=found["ending"],
    )


def _driver_row(driver: LoadBalancerDriver, view: View) -> DriverRow:
    """Say a driver in a line."""
    return DriverRow(
        namespace=driver.meta.key.namespace,
        name=subject("driver", driver.meta.key),
        url=driver.url,
        accepted=_word(driver.conditions, conditions.ACCEPTED),
        healthy=_word(driver.conditions, conditions.HEALTHY),
        load_balancers=len(view.load_balancers.by_index("driver", driver.meta.key)),
    )


def state_of(balancer: LoadBalancer) -> str:
    """Say how a load balancer is: the first thing that is not so, else that all is."""
    if balancer.meta.deleting_since is not None:
        return "Deleting"
    said = [one for one in balancer.conditions if one.type != conditions.DRIFTED]
    bad = next((one.reason for one in said if one.status is not True), None)
    return bad or (said[-1].reason if said else "")


def _word(found: tuple[Condition, ...], kind: str) -> str:
    """Say what a condition says in a word, empty where it says nothing."""
    condition = conditions.find(found, kind)
    return "" if condition is None else condition.reason
