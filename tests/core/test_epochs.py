"""What a new epoch means, and how often epochs that do not stay are acted on."""

from datetime import timedelta

import pytest

from lbcf.core.lifecycle.listing import AT_ONCE, CALM, Epochs, lost_members
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import MemberKey
from tests.builders import a_record, a_spec


REGISTERED = a_record(registered=True)
ADDRESSED = a_record()
"""On its way in: it has its address, and nobody says Registered yet."""
UNADDRESSED = a_record(spec=a_spec(address=""))
LISTED = ("10.0.0.1:8080", REGISTERED.meta.uid)


@pytest.mark.parametrize(
    ("record", "listed", "before", "is_lost"),
    [
        pytest.param(REGISTERED, (), "e1", True, id="reset"),
        pytest.param(REGISTERED, (LISTED,), "e1", True, id="reset, listed as it was"),
        pytest.param(ADDRESSED, (), "e1", True, id="reset while on its way in"),
        pytest.param(REGISTERED, (), "", True, id="first epoch, not listed"),
        pytest.param(ADDRESSED, (), "", True, id="first epoch, on its way in"),
        pytest.param(REGISTERED, (LISTED,), "", False, id="first epoch, listed"),
        pytest.param(
            a_record(registered=True, deleting=True), (), "e1", False, id="ending"
        ),
        pytest.param(UNADDRESSED, (), "e1", False, id="without an address"),
    ],
)
def test_new_epoch_may_have_lost(
    record: BackendRecord, listed: tuple[tuple[str, str]], before: str, is_lost: bool
) -> None:
    """All members are lost with an epoch; before the first one those that are not there."""
    lost = lost_members([record], listed, MemberKey.RECORD, before)

    assert is_lost == bool(lost)


def test_resets_in_a_row_are_acted_on_less_and_less_often() -> None:
    """The first ones at once."""
    known, now, waits = Epochs("e0"), 1000.0, []
    for number in range(AT_ONCE + 5):
        rest = known.rest(now)
        waits.append(rest.total_seconds())
        now += rest.total_seconds()
        known = known.after_reset(f"e{number + 1}", now)

    assert [0.0] * AT_ONCE == waits[:AT_ONCE]
    assert [10.0, 20.0, 40.0, 80.0, 150.0] == waits[AT_ONCE:]
    assert AT_ONCE + 5 == known.changes(now)


def test_reset_after_calm_is_the_first_again() -> None:
    """Reloads that are far apart are what they seem."""
    known, now = Epochs("e0"), 1000.0
    for number in range(AT_ONCE + 1):
        known = known.after_reset(f"e{number + 1}", now)
    later = now + CALM.total_seconds()

    assert known.rest(later) == timedelta(0)
    assert known.changes(later) == 0
    assert known.after_reset("e9", later) == Epochs("e9", 1, later)


def test_few_resets_are_resets() -> None:
    """Nothing is said of epochs that do not stay."""
    known = Epochs("e0").after_reset("e1", 5.0).after_reset("e2", 6.0)

    assert known.changes(7.0) == 0


def test_rest_runs_out() -> None:
    """It is counted from the last reset."""
    known = Epochs("e", AT_ONCE, 1000.0)

    assert timedelta(seconds=7) == known.rest(1003.0)
    assert 0 == known.changes(1003.0)
    assert Epochs("f", AT_ONCE, 1000.0) == known.acted_on("f")
