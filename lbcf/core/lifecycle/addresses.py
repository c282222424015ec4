"""Addresses of LoadBalancerClasses: given to one Service each, and never to two at once.

The record of it is `status.addresses` of the class, written by compare-and-swap; so no two
Services have one address there. That no load balancer has an address of before is due to
an order, whoever crashes and however many controllers act (all orders are tried in
tests/core/test_address_interleavings.py):

1. A load balancer is made without its address. It gets it by compare-and-swap, after the
   class was seen to give it, by a quorum read or an own write, when that load balancer was
   there already.
2. An address is marked as being released, then all load balancers of its Service are seen
   to be gone, then it is taken out of the record. *Else*, and without 1, a controller that
   stood still would make one with an address that is somebody else's by now.
3. One that is being released is given to nothing: not to its own Service either.

A network may come from another class, and a class may be deleted and made anew, without its
record. So what a load balancer of another Service has, or another class has given, is taken
as well, and a Service whose load balancers have an address gets that one again.
"""

import contextlib
import ipaddress

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Final

import attrs

from lbcf.core.model import names
from lbcf.core.model.resources import Meta
from lbcf.core.model.services import Exposure, GivenAddress, LoadBalancerClass
from lbcf.core.model.values import Uid
from lbcf.core.reasons import Explanation, Reason


_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_V6: Final = 6


def address_of(kind: LoadBalancerClass, uid: Uid) -> GivenAddress | None:
    """Return the address that a Service has, or had and is being released."""
    return next((one for one in kind.given if one.uid == uid), None)


def given_to(
    kind: LoadBalancerClass,
    meta: Meta,
    exposure: Exposure,
    *,
    elsewhere: Collection[str] = (),
    own: Iterable[str] = (),
) -> tuple[GivenAddress, ...] | Explanation:
    """Return the record with an address for a Service that has none, or why there is none.

    Args:
        kind: its class, as it is now.
        meta: of the Service.
        exposure: of it.
        elsewhere: what other classes have given, and load balancers have of Services
            with which this one does not share.
        own: what the load balancers of this Service have.
    """
    families = exposure.options.get("ipFamilies", "IPv4")
    version = _V6 if families.startswith("IPv6") else 4
    pool = [one for one in networks(kind) if one.version == version]
    taken = set(_parsed([*elsewhere, *(one.address for one in kind.given)]))
    sharing = sharing_of(meta)
    shared = (
        one.address
        for one in kind.given
        if sharing and one.sharing == sharing and not one.is_releasing
        if (":" in one.address) == (version == _V6)
    )
    kept = (one for one in _parsed(own) if any(one in network for network in pool))
    listed = (address for network in pool for address in network)
    free = (str(one) for one in chain(kept, listed) if one not in taken)
    address = next(chain(shared, free), None)
    if address is None:
        message = (
            f"LoadBalancerClass {kind.meta.key.name} has no IPv{version} address left; add "
            "to its addresses, or delete Services that have some"
        )
        return Explanation(Reason.ADDRESSES_EXHAUSTED, message)
    return (*kind.given, GivenAddress(address, meta.key, meta.uid, sharing))


def _parsed(texts: Iterable[str]) -> Iterator[_Address]:
    for text in texts:
        with contextlib.suppress(ValueError):
            yield ipaddress.ip_address(text)


def sharing_of(meta: Meta) -> str:
    """Return under what a Service shares its address: empty: it does not."""
    key = meta.annotations.get(names.ANNOTATION_SHARED, "")
    return f"{meta.key.namespace}/{key}" if key else ""


def networks(kind: LoadBalancerClass) -> Iterator[_Network]:
    """Return the networks whose addresses a class gives; what is none gives none."""
    for text in kind.addresses:
        try:
            yield ipaddress.ip_network(text, strict=False)
        except ValueError:
            continue


def overlapping(
    kind: LoadBalancerClass, others: Iterable[LoadBalancerClass]
) -> Explanation | None:
    """Return why a class must give nothing: another one could give the same."""
    for other in others:
        if other.meta.key == kind.meta.key:
            continue
        for mine in networks(kind):
            its = [one for one in networks(other) if one.version == mine.version]
            if any(mine.overlaps(one) for one in its):
                message = (
                    f"{mine} of LoadBalancerClass {kind.meta.key.name} overlaps with "
                    f"addresses of LoadBalancerClass {other.meta.key.name}; change one"
                )
                return Explanation(Reason.POOLS_OVERLAP, message)
    return None


def releasing(kind: LoadBalancerClass, uid: Uid) -> tuple[GivenAddress, ...]:
    """Return the record with the address of a Service marked (rule 2)."""
    return tuple(
        attrs.evolve(one, is_releasing=True) if one.uid == uid else one
        for one in kind.given
    )


def released(kind: LoadBalancerClass, uid: Uid) -> tuple[GivenAddress, ...]:
    """Return the record without the address of a Service."""
    return tuple(one for one in kind.given if one.uid != uid)
