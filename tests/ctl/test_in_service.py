"""An empty column InService is put into words: in service, never told, or not yet."""

import attrs
import pytest

from lbcf.core.lifecycle.in_service import GRACE
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord
from lbcf.core.reasons import Reason
from lbcf.ctl.backends import why_pod
from lbcf.ctl.reading import Reading
from lbcf.ctl.records import why_record
from lbcf.ctl.report import Line, WhyReport
from tests.builders import (
    START,
    a_driver,
    a_group,
    a_key,
    a_load_balancer,
    a_pod,
    a_record,
    seconds,
)
from tests.ctl.readings import NOW, bare_reading
from tests.ctl.test_members_down import DOWN, a_member


def a_listed(
    status: bool | None, reason: Reason, kind: str = conditions.REACHABLE
) -> tuple[Condition, ...]:
    """Make what is said of a load balancer."""
    return (Condition(kind, status, reason, "because", 1, START),)


LISTED = a_listed(True, Reason.REACHABLE)
IN = a_record(registered=True)


def of_balancer(
    told: tuple[Condition, ...], record: BackendRecord = IN, *, lists: bool = True
) -> Reading:
    """Make a record at a load balancer whose driver lists its members, or none."""
    timeouts = {Operation.LIST_BACKENDS.value: seconds(10)} if lists else {}
    driver = attrs.evolve(a_driver(), timeouts=timeouts)
    balancer = attrs.evolve(a_load_balancer(), conditions=told)
    return bare_reading(driver, balancer, a_group(), a_pod(), record)


def in_service_lines(report: WhyReport) -> list[Line]:
    """Return what a report says of it."""
    every = (line for part in report.sections for line in part.lines)
    return [line for line in every if line.subject.startswith("InService")]


def said(reading: Reading) -> tuple[str, str]:
    """Ask about the record and its pod; both say the same: mark and text."""
    of_record = in_service_lines(why_record(reading, a_key("web-1"), NOW))
    of_pod = in_service_lines(why_pod(reading, a_key("web-1"), a_pod(), NOW))
    [line] = of_record

    assert of_record == of_pod
    return line.mark, line.text


def test_member_of_which_nothing_bad_was_ever_said_is_in_service() -> None:
    """Its load balancer is listed, and the condition is written when it first is not."""
    told = "in service: front has said nothing else since it was registered"

    assert ("ok", told) == said(of_balancer(LISTED))


def test_driver_that_lists_no_members_is_why_nobody_knows() -> None:
    """The controller wrote so, or has not come to it yet."""
    told = "not known: driver shop/proxy lists no members: its spec.webhooks has no "
    unlisted = a_listed(None, Reason.NOT_LISTED)

    assert ("-", f"{told}listBackends") == said(of_balancer(unlisted))
    assert ("-", f"{told}listBackends") == said(of_balancer((), lists=False))


def test_load_balancer_that_nobody_has_listed_yet_is_why_nobody_knows() -> None:
    """As in the first seconds."""
    told = "not known: nobody has listed the members of front yet"

    assert ("-", told) == said(of_balancer(()))


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (a_listed(False, Reason.DRIVER_REFUSED), "front is Reachable False"),
        (a_listed(None, Reason.DRIVER_NOT_FOUND), "because"),
        (
            (
                *LISTED,
                *a_listed(True, Reason.MEMBERS_MISSING, conditions.DRIFTED),
            ),
            "front is Drifted True",
        ),
        (
            (
                *LISTED,
                *a_listed(False, Reason.LOAD_BALANCER_RESET, conditions.RESTORED),
            ),
            "front is Restored False",
        ),
    ],
)
def test_load_balancer_in_trouble_is_no_proof(
    told: tuple[Condition, ...], text: str
) -> None:
    """What it does not say, nobody has asked."""
    assert ("-", f"not known: {text}") == said(of_balancer(told))


def test_new_member_may_wait_for_its_first_checks() -> None:
    """Until then nothing is written of it."""
    young = NOW - GRACE + seconds(1)
    at = [attrs.evolve(one, since=young) for one in IN.status.conditions]
    record = attrs.evolve(IN, status=attrs.evolve(IN.status, conditions=tuple(at)))
    told = "it is new, and may wait up to 30s for the first checks of front"

    assert ("-", f"not known: {told}") == said(of_balancer(LISTED, record))


def test_load_balancer_that_could_not_be_read_is_told() -> None:
    """It may be gone, or hidden from us."""
    report = why_record(bare_reading(IN), a_key("web-1"), NOW)
    [line] = in_service_lines(report)

    assert "not known: LoadBalancer shop/front could not be read" == line.text


@pytest.mark.parametrize("record", [DOWN, a_member("")])
def test_condition_that_is_there_speaks_for_itself(record: BackendRecord) -> None:
    """In its own words."""
    [line] = in_service_lines(
        why_record(of_balancer(LISTED, record), a_key("web-1"), NOW)
    )

    assert line.text.startswith("front sends it ")


@pytest.mark.parametrize(
    "record", [a_record(), a_record(registered=True, deleting=True)]
)
def test_record_that_is_not_in_to_stay_has_no_such_line(record: BackendRecord) -> None:
    """What is on its way gets nothing new."""
    report = why_record(of_balancer(LISTED, record), a_key("web-1"), NOW)

    assert [] == in_service_lines(report)
