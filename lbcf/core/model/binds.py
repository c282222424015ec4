"""A Bind as values: LoadBalancers and a BackendGroup in one.

A Bind is derived into the values of the other kinds by `as_load_balancers` and `as_group`, so
that all that is decided about pods and records is decided as for groups; its load balancers
live by `lbcf.core.lifecycle.load_balancer`.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import attrs

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import bind_load_balancer_key, own_name
from lbcf.core.model.resources import BackendGroup, LoadBalancer, Meta
from lbcf.core.model.values import Uid
from lbcf.core.reasons import Reason


MOST_STATUSES = 128
"""How many load balancers there may be at a time, those on their way out among them."""

_IN_NO_TIME = datetime.fromtimestamp(0, UTC)


@attrs.frozen
class Entry:
    """One of spec.loadBalancers."""

    name: str
    driver: str
    spec: Mapping[str, str]
    attributes: Mapping[str, str] = attrs.Factory(dict)


@attrs.frozen
class EntryStatus:
    """One of status.loadBalancerStatuses: a load balancer that is, or may be, there.

    Attributes:
        spec: what createLoadBalancer was given; None where LBCF in Go wrote the status.
        info: the identity that the driver gave it; None until it is created.
        synced: the attributes that its driver last took; None: none yet.
        leaving_since: when it was taken out of the spec, None while it is in.
        retry_after: when its driver may be asked again, None: now.
        epoch: what listBackends said of its memory when all records were last in.
        lock_keys: as a LoadBalancer's.
    """

    name: str
    driver: str
    spec: Mapping[str, str] | None = None
    info: Mapping[str, str] | None = None
    synced: Mapping[str, str] | None = None
    leaving_since: datetime | None = None
    retry_after: datetime | None = None
    epoch: str = ""
    lock_keys: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()

    @property
    def may_exist(self) -> bool:
        """Whether its driver has made it, or may have.

        From before the first call on Created is Unknown, or names the generation for
        which its driver answered that it is not there yet; LBCF in Go left no such mark.
        """
        created = conditions.find(self.conditions, conditions.CREATED)
        is_marked = created is not None and (
            created.status is not False or created.observed_generation > 0
        )
        return is_marked or self.info is not None or self.spec is None

    @property
    def is_ready(self) -> bool:
        """Whether it has its attributes."""
        found = conditions.find(self.conditions, conditions.READY)
        return found is not None and found.status is True


@attrs.frozen
class Bind:
    """Load balancers, and the pods that are registered at each of them.

    Attributes:
        group: all of it that a BackendGroup has as well; its key is the Bind's own name
            among groups (`names.bind_group_key`), and its load balancers are those of
            the spec.
    """

    meta: Meta
    group: BackendGroup
    entries: tuple[Entry, ...]
    statuses: tuple[EntryStatus, ...] = ()

    @property
    def is_deleting(self) -> bool:
        """Whether its end was asked for."""
        return self.meta.deleting_since is not None

    def entry(self, name: str) -> Entry | None:
        """Find a load balancer in the spec."""
        return next((e for e in self.entries if e.name == name), None)

    def is_leaving(self, status: EntryStatus) -> bool:
        """Whether a load balancer is to go: taken out, or made another one."""
        entry = self.entry(status.name)
        if self.is_deleting or status.leaving_since is not None or entry is None:
            return True
        same_spec = status.spec is None or status.spec == entry.spec
        return not same_spec or status.driver != entry.driver


def as_load_balancers(bind: Bind) -> Iterator[LoadBalancer]:
    """Derive the LoadBalancers of a Bind, those on their way out as well."""
    known = {status.name for status in bind.statuses}
    for status in bind.statuses:
        yield as_load_balancer(bind, status)
    if not bind.is_deleting:
        fresh = (entry for entry in bind.entries if entry.name not in known)
        yield from (as_load_balancer(bind, _begun(entry)) for entry in fresh)


def as_load_balancer(bind: Bind, status: EntryStatus) -> LoadBalancer:
    """Derive the LoadBalancer of one load balancer of a Bind."""
    entry = bind.entry(status.name)
    since = bind.meta.deleting_since or status.leaving_since or _IN_NO_TIME
    attributes = status.synced
    if attributes is None:
        attributes = entry.attributes if entry else {}
    meta = attrs.evolve(
        bind.meta,
        key=bind_load_balancer_key(bind.meta.key, status.name),
        uid=Uid(f"{bind.meta.uid}-{status.name}"),
        deleting_since=since if bind.is_leaving(status) else None,
    )
    return LoadBalancer(
        meta,
        driver=status.driver,
        spec=status.spec or (entry.spec if entry else {}),
        attributes=attributes,
        info=status.info,
        epoch=status.epoch,
        lock_keys=status.lock_keys,
        conditions=status.conditions,
    )


def as_group(bind: Bind) -> BackendGroup:
    """Derive the BackendGroup of a Bind's pods, at the load balancers that stay.

    A Bind that is being deleted is a group without any: its records end first.
    """
    staying = tuple(
        own_name(balancer.meta.key)
        for balancer in as_load_balancers(bind)
        if balancer.meta.deleting_since is None
    )
    meta = attrs.evolve(bind.group.meta, deleting_since=None)
    return attrs.evolve(bind.group, meta=meta, load_balancers=staying)


def recorded(bind: Bind, now: datetime) -> tuple[EntryStatus, ...]:
    """Return the statuses as they must be written before any driver is asked.

    What there is no room for waits until others are gone: the API server would refuse
    the whole status, and with it what lets them go.
    """
    kept = tuple(_marked(bind, status, now) for status in bind.statuses)
    if bind.is_deleting:
        return kept
    known = {status.name for status in kept}
    new = [_begun(e, now) for e in bind.entries if e.name not in known]
    return (*kept, *new[: max(MOST_STATUSES - len(kept), 0)])


def _marked(bind: Bind, status: EntryStatus, now: datetime) -> EntryStatus:
    """Note since when a load balancer is on its way out."""
    if not bind.is_leaving(status) or status.leaving_since is not None:
        return status
    return attrs.evolve(status, leaving_since=now, retry_after=None)


def _begun(entry: Entry, now: datetime | None = None) -> EntryStatus:
    """Begin the status of a load balancer that is new in the spec."""
    message = "the driver has not created it yet"
    creating = Condition(conditions.CREATED, False, Reason.CREATING, message, since=now)
    return EntryStatus(
        entry.name, entry.driver, spec=entry.spec, conditions=(creating,)
    )
