"""The sample of faults is the seed's, and has everything in it."""

from lbcf.runtime.failpoints import Failpoint
from tests.lab.faults.plans import DECK, LEASE, Kind, plans
from tests.lab.faults.troubles import Trouble


def test_same_seed_is_the_same_sample() -> None:
    """A run that broke something can be repeated, alone or among fewer others."""
    assert list(plans(7, 20)) == list(plans(7, 50))[:20]
    assert list(plans(7, 20)) != list(plans(8, 20))


def test_one_deck_has_every_kind() -> None:
    """Each kind of fault and each trouble comes up."""
    dealt = list(plans(1, len(DECK)))

    assert set(Kind) == {plan.kind for plan in dealt}
    assert set(Trouble) == {plan.trouble for plan in dealt} - {None}


def test_plans_are_possible() -> None:
    """Failpoints can be read; a paused leader is paused for longer than its Lease."""
    dealt = list(plans(3, 200))
    pauses = [plan.seconds for plan in dealt if plan.kind is Kind.PAUSED_LEADER]
    points = [Failpoint.parse(plan.failpoint) for plan in dealt if plan.failpoint]

    assert min(pauses) > LEASE
    assert len({point.mode for point in points}) == 4
    assert len({plan.role for plan in dealt}) == 2
