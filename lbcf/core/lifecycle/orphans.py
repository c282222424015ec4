"""Members whose records do not exist, and which of them a person's word takes out.

The controller names them in the status of their LoadBalancer (condition Orphaned). A person
confirms some by `kubectl lbcf remove-orphans`, which writes their record ids into an annotation,
and the deregistrar takes those out. It cannot know by itself that they are nobody's: another
cluster that uses the same load balancer has members that look the same.

A record id is the uid of a BackendRecord, which no other object ever gets. So a record that did
exist and is missing in a quorum LIST is missing for ever, and no live member can be meant by its
id where members are named after their records (memberKey Record). By an address one can be: it
may have another record by now.
"""

import re

from collections.abc import Collection, Iterable
from typing import Final

from lbcf.core.model.names import ANNOTATION_REMOVE_ORPHANS
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import Listed, MemberKey


MOST: Final = 50
"""Members that a status names, and that are confirmed in one go."""
_RECORD_ID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_LONGEST_ADDRESS: Final = 1024


def named(orphans: Iterable[Listed]) -> tuple[Listed, ...]:
    """Return the orphans that a status names: the first ones, in order.

    What is no id of a record, or no address, is whatever its driver made of it.
    """
    fit = (
        (address, record_id)
        for address, record_id in orphans
        if _RECORD_ID.fullmatch(record_id) and len(address) <= _LONGEST_ADDRESS
    )
    return tuple(sorted(fit)[:MOST])


def confirmed(load_balancer: LoadBalancer) -> frozenset[str]:
    """Return the record ids whose members a person wants to have out; none: no order."""
    said = load_balancer.meta.annotations.get(ANNOTATION_REMOVE_ORPHANS, "")
    ids = [part.strip() for part in said.split(",")]
    return frozenset(filter(_RECORD_ID.fullmatch, ids[:MOST]))


def confirmation(record_ids: Iterable[str]) -> str:
    """Return what the annotation says for these."""
    return ",".join(sorted(record_ids))


def removable(
    record_ids: Collection[str], listed: Iterable[Listed], present: Collection[str]
) -> tuple[Listed, ...]:
    """Return the members that may be taken out.

    Args:
        record_ids: that were confirmed.
        listed: the members of the load balancer, read before `present`: whoever is in it
            had a record before.
        present: uids of the records that exist, in any namespace, by a quorum LIST.
    """
    return tuple(m for m in listed if m[1] in record_ids and m[1] not in present)


def why_not(driver: LoadBalancerDriver) -> str:
    """Return why a driver's orphans are not taken out here; empty: they may be."""
    if not driver.declares(Operation.LIST_BACKENDS):
        return (
            f"driver {driver.meta.key} does not declare listBackends: which members it "
            "has is not known; take them out at the load balancer itself"
        )
    if driver.member_key is not MemberKey.RECORD:
        return (
            f"driver {driver.meta.key} tells its members apart by their addresses "
            "(memberKey: Address), and one of these addresses may belong to another "
            "record by now; take them out at the load balancer itself"
        )
    return ""
