"""Which orphans a status names, which ones a person has confirmed, and which may go."""

from datetime import timedelta

import attrs
import pytest

from lbcf.core.lifecycle.orphans import (
    MOST,
    confirmation,
    confirmed,
    named,
    removable,
    why_not,
)
from lbcf.core.model.names import ANNOTATION_REMOVE_ORPHANS
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer
from lbcf.core.model.values import MemberKey
from tests.builders import a_driver, a_load_balancer, a_meta, seconds


A, B, C = (("10.0.0.1:80", "uid-a"), ("10.0.0.2:80", "uid-b"), ("10.0.0.1:80", "uid-c"))
LISTING = {Operation.LIST_BACKENDS.value: seconds(10)}


def ordered(said: str) -> LoadBalancer:
    """A load balancer with the annotation."""
    meta = a_meta("front", annotations={ANNOTATION_REMOVE_ORPHANS: said})
    return attrs.evolve(a_load_balancer(), meta=meta)


def test_status_names_the_first_ones_in_order() -> None:
    """Whatever a driver makes of an id or an address: a schema has its limits."""
    many = [(f"10.0.{n}.1:80", f"uid-{n}") for n in range(100, 100 + MOST + 1)]
    strange = (("10.0.0.9:80", "a, b"), ("x" * 2000, "uid-x"), ("10.0.0.8:80", ""))

    assert (A, C, B) == named([B, *strange, C, A])
    assert tuple(many[:MOST]) == named(reversed(many))


def test_what_is_confirmed_is_read_as_it_was_written() -> None:
    """Nothing is confirmed by what is no list of ids, and never all."""
    assert {"uid-a", "uid-b"} == confirmed(ordered(confirmation(["uid-b", "uid-a"])))
    assert {"uid-a", "uid-b"} == confirmed(ordered(" uid-a , uid-b,"))
    for nothing in ("", " , ", "*", "uid a", "x" * 65):
        assert frozenset() == confirmed(ordered(nothing))
    assert frozenset() == confirmed(a_load_balancer())
    assert MOST == len(confirmed(ordered(confirmation(f"u{n}" for n in range(99)))))


def test_only_what_is_named_and_nobody_s_may_go() -> None:
    """A record that exists, deleted or not, has its member."""
    listed = (A, B, C, ("10.0.0.7:80", ""))

    assert (A, C) == removable({"uid-a", "uid-c", "uid-gone"}, listed, frozenset())
    assert (C,) == removable({"uid-a", "uid-c"}, listed, {"uid-a"})
    assert () == removable({"uid-gone"}, listed, frozenset())


@pytest.mark.parametrize(
    ("member_key", "timeouts", "told"),
    [
        (MemberKey.RECORD, LISTING, ""),
        (MemberKey.ADDRESS, LISTING, "may belong to another record by now"),
        (MemberKey.RECORD, {}, "does not declare listBackends"),
    ],
)
def test_why_a_driver_s_orphans_stay(
    member_key: MemberKey, timeouts: dict[str, timedelta], told: str
) -> None:
    """By an address a live member may be meant."""
    driver = attrs.evolve(a_driver(member_key=member_key), timeouts=timeouts)
    why = why_not(driver)

    assert bool(told) == bool(why)
    assert told in why
