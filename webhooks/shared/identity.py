"""What one physical pool is known by, however a load balancer spells it. Pure.

A driver answers it as `lockKey`: one record at a time has an address in what one key
names. So a record that finds a member of another one under the same key knows that the
other one exists no more. Under another key it knows nothing: two load balancers may
overlap, such as one unit and the pair that it belongs to. So drivers that write on a
member whose it is write a digest of the key there, too, and `is_taken` compares.
"""

import hashlib

from collections.abc import Iterable

import attrs


DIGEST = 16
"""Hexadecimal digits: enough that nobody finds a second key for a digest."""


@attrs.frozen
class Owner:
    """Whose a member is.

    Attributes:
        record: id of the record that the member stands for.
        pool: digest of the key under which it was registered; empty: not written down.
    """

    record: str
    pool: str = ""

    def is_taken(self, by: "Owner | None") -> bool:
        """Tell whether another record may still need the member that is this one's."""
        return by is None or (self.record != by.record and self.pool != by.pool)


def lock_key(kind: str, places: Iterable[object], *names: str) -> str:
    """Return the key of one physical pool: short, whatever it is made of.

    Args:
        kind: of load balancer; keys of different ones are never equal.
        places: where the pool is; their order means nothing.
        names: of the pool there.
    """
    said = "\n".join((*sorted({str(one) for one in places}), "", *names))
    return f"{kind}-{hashlib.sha256(said.encode()).hexdigest()}"


def digest(key: str) -> str:
    """Return what is written on members of a pool."""
    return hashlib.sha256(key.encode()).hexdigest()[:DIGEST]


def taken(member: object, owner: Owner, where: str) -> str:
    """Return what to say of a member that another record may still need."""
    return (
        f"{member} {where} already, registered for record {owner.record} by a load "
        "balancer that is declared otherwise (other devices, sockets or target groups "
        "of the same pool): use that load balancer, or take the member out by hand if "
        "its record is gone"
    )
