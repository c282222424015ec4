"""A member that its load balancer calls down is never "nothing is wrong"."""

import pytest

from lbcf.core.lifecycle.in_service import in_service, with_in_service
from lbcf.core.model.resources import BackendRecord
from lbcf.core.reasons import Reason
from lbcf.ctl.backends import why_pod
from lbcf.ctl.groups import why_group
from lbcf.ctl.load_balancers import why_load_balancer
from lbcf.ctl.records import why_record
from lbcf.ctl.status import status_report
from tests.builders import START, a_group, a_key, a_pod, a_record
from tests.ctl.readings import NOW, a_reading, text_of


def a_member(word: str | None, name: str = "web-1") -> BackendRecord:
    """A registered record of which this was told."""
    record = a_record(name, registered=True)
    return with_in_service(record, in_service(record, word), START)


DOWN = a_member("DOWN")
SAID = "it says DOWN"


def test_every_answer_names_the_load_balancers_word() -> None:
    """`status` and each `why`."""
    pod = a_pod()
    reading = a_reading(pod, DOWN)
    problems = status_report(reading, (), NOW).problems
    headlines = [
        why_pod(reading, pod.meta.key, pod, NOW).headline,
        why_record(reading, DOWN.meta.key, NOW).headline,
        why_load_balancer(reading, a_key("front"), NOW).headline,
        why_group(reading, a_group(), NOW).headline,
    ]

    assert Reason.MEMBER_DOWN in {problem.reason for problem in problems}
    assert [] == [one for one in headlines if SAID not in one]
    report = why_load_balancer(reading, a_key("front"), NOW)
    assert "1 registered member is not in service" in report.headline
    assert "InService False" in text_of(report)


def test_many_members_that_say_the_same_are_one_problem() -> None:
    """Counted, as other trouble of records is."""
    reading = a_reading(*(a_member("DOWN", f"web-{n}") for n in range(30)))

    found = status_report(reading, (), NOW).problems

    down = [one.count for one in found if one.reason == Reason.MEMBER_DOWN]
    assert [30] == down


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(a_member(""), id="in service again"),
        pytest.param(a_member(None), id="unknown"),
        pytest.param(
            a_record(status=DOWN.status, deleting=True, generation=1), id="ending"
        ),
    ],
)
def test_member_that_is_not_down_is_no_problem(record: BackendRecord) -> None:
    """What it was before its end is no news."""
    found = status_report(a_reading(record), (), NOW).problems

    assert Reason.MEMBER_DOWN not in {problem.reason for problem in found}
