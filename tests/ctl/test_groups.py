"""`why bg`: the records of a group, those in trouble first."""

from lbcf.core.model import conditions
from lbcf.core.reasons import Reason
from lbcf.ctl.groups import why_group
from lbcf.ctl.load_balancers import why_load_balancer
from tests.builders import a_key, a_pod, a_record
from tests.ctl.readings import NOW, a_reading, line_facts, text_of
from tests.ctl.test_records import a_status


def test_group_shows_its_records_in_trouble_first() -> None:
    """Those that are registered are counted only."""
    refused = a_status(conditions.REGISTERED, Reason.DRIVER_REFUSED)
    reading = a_reading(
        *(a_pod(), a_pod("web-2"), a_record(registered=True)),
        *(a_record("b", deleting=True), a_record("c", status=refused)),
    )
    group = reading.view.groups.get(a_key("web"))
    assert group is not None
    titles = [
        part.title.split(" (")[0] for part in why_group(reading, group, NOW).sections
    ]

    assert ["record c", "record b"] == titles[3:]


def test_records_that_are_not_shown_are_counted() -> None:
    """Ten are told in full, in trouble or not; of the others nobody thinks they are all."""
    refused = a_status(conditions.REGISTERED, Reason.DRIVER_REFUSED)
    records = (a_record(f"r{n:02}", status=refused) for n in range(12))
    reading = a_reading(*records)
    group = reading.view.groups.get(a_key("web"))
    assert group is not None

    for report in (
        why_group(reading, group, NOW),
        why_load_balancer(reading, a_key("front"), NOW),
    ):
        told = [part.title for part in report.sections if part.title.startswith("rec")]
        assert 10 == len(told)
        assert ("-", "not shown", "") == line_facts(report)[-1]
        assert "2 records that are to be registered, or are leaving\n" in (
            text_of(report)
        )
