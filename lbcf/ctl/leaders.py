"""Who leads the controller and the deregistrar, by their Leases.

A Lease says when its holder renewed it, by the holder's clock, which is not ours. A holder
whose last renewals seem to be missing is therefore watched until it renews, or has had to
give up: whoever stopped is known before its Lease has run out, and a
clock that is some seconds ahead costs a wait and no false alarm.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

import attrs

from lbcf.core.model.shards import MOST_SHARDS, lease_name
from lbcf.kube.address_locks import LABEL_LOCK
from lbcf.kube.kinds import Resource
from lbcf.kube.leader_election import Timing
from lbcf.kube.leases import LEASES, Lease
from lbcf.kube.list_watch import Page, Selection
from lbcf.runtime.clock import Clock
from lbcf.wire.metadata import Identity, identity_of


ListLeases = Callable[[Resource[Lease], Selection], Awaitable[Page[Lease]]]

CONTROLLER: Final = "lbcf-controller"
LEASE_NAMES: Final = (CONTROLLER, "lbcf-deregistrar")
"""Names of the Leases; the admission webhook elects nobody."""

_TIMING: Final = Timing()
_RENEWED: Final = _TIMING.renew + _TIMING.request
"""A holder that works renews within that time, if one request is enough."""
_WATCHED: Final = _TIMING.renew_deadline - _RENEWED
"""After so much more it has either renewed, or has had to give up."""
_LOOK: Final = timedelta(seconds=0.4)
_CLOCK_SKEW: Final = timedelta(seconds=15)
_PREFIX: Final = "lbcf-"
_SHARDS: Final = tuple(
    tuple(lease_name(name.removeprefix(_PREFIX), n) for n in range(MOST_SHARDS))
    for name in LEASE_NAMES
)
"""The Leases that each process may have, in the order of its shards."""
_SELECTION: Final = Selection(
    labels=f"{LABEL_LOCK}!=address", fields="metadata.namespace!=kube-node-lease"
)
"""Few Leases, ours among them: without those of addresses and nodes, which may be thousands."""


@attrs.frozen
class Leader:
    """One process of the cluster.

    Attributes:
        name: of its Lease.
        holder: identity of the leader, empty where nobody leads.
        renewed: when the Lease was renewed last, by its holder's clock.
        is_alive: whether it was renewed in time; by the holder's clock and ours, which
            may differ by some seconds, and by what was seen while it was watched.
    """

    namespace: str
    name: str
    holder: str
    renewed: datetime | None
    is_alive: bool


async def read_leaders(
    read: Callable[[], Awaitable[tuple[Lease, ...]]], clock: Clock
) -> tuple[Leader, ...]:
    """Read who leads; whoever may have stopped is watched for some seconds.

    Args:
        read: reads the Leases.
        clock: measures.

    Raises:
        KubeError: the API server cannot be asked.
    """
    leases = await read()
    overdue = {identity_of(one.meta) for one in leases if _is_due(one, clock.now())}
    end = clock.monotonic() + _WATCHED.total_seconds()
    while overdue and clock.monotonic() < end:
        await clock.sleep(_LOOK)
        leases = await read()
        overdue &= {identity_of(lease.meta) for lease in leases}
    return tuple(leaders_of(leases, clock.now(), overdue))


async def list_leases(read: ListLeases) -> tuple[Lease, ...]:
    """List the Leases of all shards of both processes, in whichever namespaces they are.

    Args:
        read: lists those that are selected.

    Raises:
        KubeError: the API server cannot be asked.
    """
    page = await read(LEASES, _SELECTION)
    ours = {name for names in _SHARDS for name in names}
    return tuple(lease for lease in page.objects if lease.meta.key.name in ours)


def expected_leases(existing: Collection[str]) -> Iterator[str]:
    """Return the names of the Leases that there should be.

    Of each process up to the last that exists: a shard that nobody has led yet has none.
    The number of shards is written nowhere else that whoever asks may read.

    Args:
        existing: names of those that exist.
    """
    for names in _SHARDS:
        last = max((n for n, name in enumerate(names) if name in existing), default=0)
        yield from names[: last + 1]


def missing_lease(name: str, existing: Collection[str]) -> str:
    """Say what it means that an expected Lease does not exist.

    Args:
        name: its name.
        existing: names of those that exist.
    """
    [shards] = (names for names in _SHARDS if name in names)
    if any(shard in existing for shard in shards):
        return (
            "there is no such Lease: nobody has led this shard yet; are there as many "
            "replicas as shards?"
        )
    return f"there is no such Lease: has {name} ever run, with --leader-elect?"


def leaders_of(
    leases: Iterable[Lease], now: datetime, overdue: Collection[Identity] = ()
) -> Iterator[Leader]:
    """Return who leads, by name and namespace.

    Args:
        leases: to look at.
        now: the moment.
        overdue: versions of Leases that were not renewed while they were watched.
    """
    for lease in sorted(leases, key=lambda lease: lease.meta.key[::-1]):
        is_renewed = identity_of(lease.meta) not in overdue and _is_in_time(lease, now)
        yield Leader(
            namespace=lease.meta.key.namespace,
            name=lease.meta.key.name,
            holder=lease.holder,
            renewed=lease.renewed_at,
            is_alive=bool(lease.holder) and is_renewed,
        )


def _is_due(lease: Lease, now: datetime) -> bool:
    """Return whether a holder that may be alive seems not to have renewed."""
    renewed = lease.renewed_at
    is_old = renewed is not None and now - renewed > _RENEWED
    return bool(lease.holder) and is_old and _is_in_time(lease, now)


def _is_in_time(lease: Lease, now: datetime) -> bool:
    limit = timedelta(seconds=lease.duration) + _CLOCK_SKEW
    return lease.renewed_at is not None and now - lease.renewed_at <= limit


def leader_remedy(name: str, namespace: str = "lbcf-system") -> str:
    """Return what to do where nobody holds a Lease.

    Args:
        name: of the Lease.
        namespace: where it is, or should be.
    """
    component = name.removeprefix(_PREFIX).split("-")[0]  # without a shard's number
    pods = f"-l app.kubernetes.io/component={component}"
    alert = f"lbcf{component}hasnoleader"
    return (
        f"kubectl -n {namespace} describe pods {pods}: do they run, and are they ready? "
        f"docs/runbooks.md#{alert}"
    )
