"""Each guard of fairness, taken out: a play notices."""

from collections.abc import Mapping

import pytest

from lbcf.drivers import pool
from lbcf.runtime import limiter
from lbcf.runtime.fair_queue import FairQueue
from lbcf.runtime.limiter import ConcurrencyLimiter, Shares
from tests.fairness.plays import PLAYS
from tests.lab.sweep.edits import Edit, Mutant, Value


MUTANTS: Mapping[str, Mutant] = {
    "no-limits": Mutant(
        "turns that call drivers are limited",
        (Edit(ConcurrencyLimiter, "_full", "level.inside >= level.most", "False"),),
        ("groups",),
    ),
    "any-driver-share": Mutant(
        "a driver has a share of the workers, whatever it declares",
        (
            Edit(
                Shares,
                "of_driver",
                "max(_LEAST, self.workers // _DRIVERS_PART)",
                "self.workers",
            ),
        ),
        ("other-driver",),
    ),
    "any-namespace-share": Mutant(
        "a namespace has a share of the workers",
        (
            Edit(
                Shares,
                "of_namespace",
                "max(_LEAST, self.workers // _NAMESPACES_PART)",
                "self.workers",
            ),
        ),
        ("drivers",),
    ),
    "no-balancer-share": Mutant(
        "a load balancer's own limit counts before its driver's",
        (Edit(Shares, "at_balancer", "if calls is None:", "if True:"),),
        ("other-load-balancer",),
    ),
    "no-room-left": Mutant(
        "a driver of several namespaces keeps room for the others",
        (
            Value(limiter, "namespace_share", lambda _key, _namespace, places: places),
            Value(pool, "namespace_share", lambda _key, _namespace, places: places),
        ),
        ("hanging-for-another",),
    ),
    "no-turns": Mutant(
        "namespaces take turns",
        (
            Edit(FairQueue, "pop", "self._groups.move_to_end(group)", "pass"),
            Value(limiter, "namespace_share", lambda _key, _namespace, places: places),
            Value(pool, "namespace_share", lambda _key, _namespace, places: places),
        ),
        ("deletions-of-another",),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_guard_is_missed(name: str) -> None:
    """Its plays find somebody late."""
    mutant = MUTANTS[name]
    with mutant.made():
        missed = [play for play in mutant.where if not PLAYS[play]()]

    assert [] == missed
