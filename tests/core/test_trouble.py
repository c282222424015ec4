"""Which changes of conditions are told at once."""

import attrs
import pytest

from lbcf.core.lifecycle.trouble import new_trouble
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord, RecordStatus
from lbcf.core.reasons import Reason
from tests.builders import a_record


KINDS = frozenset({"Registered"})
FAILED = Condition("Registered", False, Reason.DRIVER_REFUSED, "no")


def saying(*conditions: Condition) -> BackendRecord:
    """Make a record that says this."""
    return a_record(status=RecordStatus(conditions=conditions))


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(saying(), id="nothing was said"),
        pytest.param(
            saying(attrs.evolve(FAILED, status=True, reason=Reason.REGISTERED))
        ),
        pytest.param(
            saying(attrs.evolve(FAILED, reason=Reason.DRIVER_TIMED_OUT)), id="other"
        ),
    ],
)
def test_new_trouble_is_told(before: BackendRecord) -> None:
    """Also when one trouble turns into another."""
    assert FAILED == new_trouble(before, saying(FAILED), KINDS)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, saying(FAILED), id="a start finds old troubles"),
        pytest.param(saying(FAILED), None, id="it ended"),
        pytest.param(
            saying(FAILED), saying(attrs.evolve(FAILED, message="again")), id="same"
        ),
        pytest.param(
            saying(), saying(attrs.evolve(FAILED, type="Drained")), id="other kind"
        ),
        pytest.param(saying(), saying(attrs.evolve(FAILED, status=None)), id="unknown"),
        pytest.param(
            saying(),
            saying(attrs.evolve(FAILED, reason=Reason.DRIVER_RUNNING)),
            id="in order",
        ),
    ],
)
def test_everything_else_is_no_news(
    before: BackendRecord | None, after: BackendRecord | None
) -> None:
    """Events are for what somebody should look at."""
    assert None is new_trouble(before, after, KINDS)
