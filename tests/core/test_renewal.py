"""When a certificate and its authority are made anew."""

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from lbcf.admission.authority import Held, Renewal, Validity, renewal_of


NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NAMES = ("a", "b")


def _since(days: float, life: float = 90) -> Validity:
    """What is good for so many days, and was made so many days ago."""
    begin = NOW - days * DAY
    return Validity(begin, begin + life * DAY)


GOOD = Held(_since(1), _since(1), NAMES, is_signed=True)


@pytest.mark.parametrize(
    ("held", "renewal"),
    [
        (GOOD, Renewal.NOTHING),
        (Held(), Renewal.BOTH),
        (attrs.evolve(GOOD, authority=None), Renewal.BOTH),
        (attrs.evolve(GOOD, leaf=None), Renewal.LEAF),
        (attrs.evolve(GOOD, leaf=_since(59)), Renewal.NOTHING),
        (attrs.evolve(GOOD, leaf=_since(61)), Renewal.LEAF),
        (attrs.evolve(GOOD, leaf=_since(91)), Renewal.LEAF),
        (attrs.evolve(GOOD, leaf=_since(-1)), Renewal.LEAF),
        (attrs.evolve(GOOD, leaf_names=("a",)), Renewal.LEAF),
        (attrs.evolve(GOOD, leaf_names=("a", "b", "c")), Renewal.NOTHING),
        (attrs.evolve(GOOD, is_signed=False), Renewal.LEAF),
        (attrs.evolve(GOOD, authority=_since(61)), Renewal.AUTHORITY),
        (attrs.evolve(GOOD, authority=_since(91)), Renewal.BOTH),
    ],
    ids=[
        "good",
        "empty",
        "no authority",
        "no certificate",
        "two thirds not over",
        "two thirds over",
        "over",
        "not yet good",
        "a name is missing",
        "a name too many",
        "of an earlier authority",
        "authority due",
        "authority over",
    ],
)
def test_what_is_due_is_made(held: Held, renewal: Renewal) -> None:
    """An authority that is due is made alone: it signs only from the next look on."""
    assert renewal is renewal_of(held, NAMES, NOW)
