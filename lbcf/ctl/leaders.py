"""Who leads which of our processes, as their Leases say.

Before it: the Leases, wherever the processes keep them. After it: `status`.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

import attrs

from lbcf.ctl.spans import since
from lbcf.kube.leases import Lease


CONTROLLER: Final = "lbcf-controller"
LEASES_OF: Final = (CONTROLLER, "lbcf-deregistrar")
"""Names of the Leases; the admission webhook elects nobody."""

_CLOCKS_DIFFER = timedelta(seconds=15)


@attrs.frozen
class Leader:
    """One process of the cluster.

    Attributes:
        name: of its Lease.
        holder: identity of the leader, empty where nobody leads.
        renewed: how long ago the Lease was renewed, in words.
        is_alive: whether it was renewed in time; by the holder's clock and ours, which
            may differ by some seconds.
    """

    namespace: str
    name: str
    holder: str
    renewed: str
    is_alive: bool


def leaders_of(leases: Iterable[Lease], now: datetime) -> Iterator[Leader]:
    """Say who leads, by name and namespace."""
    for lease in sorted(leases, key=lambda lease: lease.meta.key[::-1]):
        yield Leader(
            namespace=lease.meta.key.namespace,
            name=lease.meta.key.name,
            holder=lease.holder,
            renewed=since(lease.renewed_at, now),
            is_alive=_is_alive(lease, now),
        )


def _is_alive(lease: Lease, now: datetime) -> bool:
    """Tell whether somebody leads."""
    if not lease.holder or lease.renewed_at is None:
        return False
    limit = timedelta(seconds=lease.duration) + _CLOCKS_DIFFER
    return now - lease.renewed_at <= limit
