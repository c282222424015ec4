"""`why lb`: its driver, its users, and what its deletion waits for."""

import attrs
import pytest

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.ctl.errors import ObjectNotFound
from lbcf.ctl.load_balancers import why_load_balancer
from tests.builders import START, a_driver, a_key, a_load_balancer, a_record
from tests.ctl.readings import NOW, a_reading, bare_reading, text_of


def test_load_balancer_names_its_driver_and_users() -> None:
    """And whom its end waits for."""
    reading = a_reading(a_record(registered=True))
    report = why_load_balancer(reading, a_key("front"), NOW)

    assert "created, and nothing is wrong with it" == report.headline
    assert "  -     records   1 registered, 0 not yet, 0 on their way out\n" in text_of(
        report
    )
    with pytest.raises(
        ObjectNotFound, match="there is no lb/lbcf-x in namespace kube-system"
    ):
        why_load_balancer(reading, ObjectKey("kube-system", "lbcf-x"), NOW)


@pytest.mark.parametrize(
    ("told", "headline"),
    [
        ((Reason.IN_USE, "being deleted; waits for 3 BackendRecords to end"), None),
        (
            (Reason.DRIVER_REFUSED, "it is locked"),
            "being deleted; it is locked (for 1m)",
        ),
        ((Reason.CREATED, ""), "being deleted; waits for the controller"),
    ],
)
def test_end_of_a_load_balancer_says_what_it_waits_for(
    told: tuple[Reason, str], headline: str | None
) -> None:
    """In the controller's words, if it said any."""
    said_of_it = Condition(conditions.CREATED, True, *told, 1, START)
    ending = attrs.evolve(a_load_balancer(deleting=True), conditions=(said_of_it,))
    report = why_load_balancer(bare_reading(a_driver(), ending), a_key("front"), NOW)

    assert (headline or told[1]) == report.headline


def test_driver_that_is_missing_is_what_is_wrong_with_a_load_balancer() -> None:
    """Nobody operates it."""
    report = why_load_balancer(bare_reading(a_load_balancer()), a_key("front"), NOW)

    assert report.headline.startswith("LoadBalancerDriver shop/proxy does not exist")
