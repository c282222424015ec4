"""One trouble, asked about in each way: no answer calls well what another one calls ill."""

from collections.abc import Callable, Mapping
from typing import Final

import attrs
import pytest

from lbcf.core.model import conditions, names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendGroup, BackendRecord, GroupStatus
from lbcf.core.reasons import Reason
from lbcf.ctl.backends import why_pod
from lbcf.ctl.drivers import why_driver
from lbcf.ctl.flags import Kind
from lbcf.ctl.groups import why_group
from lbcf.ctl.load_balancers import why_load_balancer
from lbcf.ctl.reading import Reading
from lbcf.ctl.records import why_record
from lbcf.ctl.report import Mark, WhyReport
from lbcf.ctl.services import why_service
from lbcf.ctl.status import status_report
from lbcf.ctl.workloads import why_workload
from tests.builders import (
    START,
    a_driver,
    a_group,
    a_key,
    a_load_balancer,
    a_meta,
    a_pod,
    a_record,
    seconds,
)
from tests.ctl.readings import NOW, bare_reading, line_facts, text_of
from tests.ctl.test_members_down import DOWN
from tests.ctl.test_records import a_status
from tests.ctl.test_services import a_service
from tests.ctl.test_workloads import a_workload


@attrs.frozen
class Ill:
    """What is wrong, and with what.

    Attributes:
        subject: KIND/NAME, as `status` names it.
        kind: of the condition that tells it.
        reason: of that condition.
        word: of its message; all answers have this or the reason in front.
        status: of that condition.
    """

    subject: str
    kind: str
    reason: Reason
    word: str
    status: bool = False

    @property
    def told(self) -> tuple[Condition, ...]:
        """The condition, beside those that say yes."""
        told = Condition(self.kind, self.status, self.reason, self.word, 1, START)
        if self.subject != "lb/front":
            return (told,)
        well = (
            Condition(conditions.CREATED, True, Reason.CREATED, "", 1, START),
            Condition(conditions.REACHABLE, True, Reason.REACHABLE, "", 1, START),
        )
        return (told, *(one for one in well if one.type != told.type))


RESTORING: Final = "members being put back"
"""What mends itself says nothing against the driver."""

TROUBLES: Final[Mapping[str, Ill]] = {
    "load balancer down": Ill(
        *("lb/front", conditions.REACHABLE, Reason.DRIVER_REFUSED, "it is down")
    ),
    "members not listed": Ill(
        *("lb/front", conditions.REACHABLE, Reason.DRIVER_RUNNING, "no Envoy is there")
    ),
    "epochs change": Ill(
        *("lb/front", conditions.REACHABLE, Reason.EPOCH_CHANGING, "5 times")
    ),
    "drifted": Ill(
        *("lb/front", conditions.DRIFTED, Reason.MEMBERS_MISSING, "not there"),
        status=True,
    ),
    "orphans": Ill(
        *("lb/front", conditions.ORPHANED, Reason.MEMBERS_ORPHANED, "of no record"),
        status=True,
    ),
    RESTORING: Ill(
        *("lb/front", conditions.RESTORED, Reason.LOAD_BALANCER_RESET, "has lost 1")
    ),
    "attributes not taken": Ill(
        *("lb/front", conditions.ATTRIBUTES_SYNCED, Reason.DRIVER_REFUSED, "no such")
    ),
    "driver unwell": Ill(
        *("driver/proxy", conditions.HEALTHY, Reason.UNHEALTHY, "disk is full")
    ),
    "member DOWN": Ill(
        *("br/web-1", conditions.IN_SERVICE, Reason.MEMBER_DOWN, "it says DOWN")
    ),
    "all members down": Ill(
        *("bg/web", conditions.SERVING, Reason.ALL_MEMBERS_DOWN, "none of 1"),
    ),
    "record refused": Ill(
        *("br/web-1", conditions.REGISTERED, Reason.DRIVER_REFUSED, "because")
    ),
}

BESIDE_ITS_MEMBERS: Final = {conditions.ORPHANED, conditions.ATTRIBUTES_SYNCED}
"""What says nothing against the list of a load balancer's members."""


def of_trouble(ill: Ill) -> Reading:
    """Make the everyday objects, all well but for one trouble; a Service has the rest."""
    labels = {names.LABEL_EXPOSES: "web"}
    balancer = attrs.evolve(a_load_balancer(), meta=a_meta("front", labels=labels))
    group = attrs.evolve(a_group(), meta=a_meta("web", labels=labels))
    healthz = {Operation.HEALTHZ.value: seconds(10)}
    driver, record = (
        attrs.evolve(a_driver(), timeouts=healthz),
        a_record(registered=True),
    )
    match ill.subject:
        case "lb/front":
            balancer = attrs.evolve(balancer, conditions=ill.told)
        case "driver/proxy":
            driver = attrs.evolve(driver, conditions=ill.told)
        case "bg/web":
            status = GroupStatus(observed_generation=1, conditions=ill.told)
            group, record = attrs.evolve(group, status=status), DOWN
        case _:
            record = _record(ill)
    return bare_reading(driver, balancer, group, record, a_pod())


def _record(ill: Ill) -> BackendRecord:
    refused = a_record(status=a_status(conditions.REGISTERED, Reason.DRIVER_REFUSED))
    return DOWN if ill.kind == conditions.IN_SERVICE else refused


ANSWERS: Final[Mapping[str, Callable[[Reading], WhyReport]]] = {
    "pod": lambda reading: why_pod(reading, a_key("web-1"), a_pod(), NOW),
    "br": lambda reading: why_record(reading, a_key("web-1"), NOW),
    "bg": lambda reading: why_group(reading, _group(reading), NOW),
    "lb": lambda reading: why_load_balancer(reading, a_key("front"), NOW),
    "driver": lambda reading: why_driver(reading, a_key("proxy"), NOW),
    "svc": lambda reading: why_service(reading, a_service(), NOW),
    "deployment": lambda r: why_workload(r, Kind.DEPLOYMENT, a_workload(), NOW),
}


def _group(reading: Reading) -> BackendGroup:
    found = reading.view.groups.get(a_key("web"))
    assert found is not None
    return found


@pytest.mark.parametrize("ill", TROUBLES.values(), ids=TROUBLES)
def test_status_names_it(ill: Ill) -> None:
    """What the other answers are held against."""
    found = status_report(of_trouble(ill), (), NOW)
    named = {(one.subject, one.reason) for one in (*found.problems, *found.lately)}

    assert (ill.subject, ill.reason) in named


@pytest.mark.parametrize(
    ("ill", "answer"),
    [
        pytest.param(ill, answer, id=f"{answered}-{name}")
        for name, ill in TROUBLES.items()
        for answered, answer in ANSWERS.items()
        if (name, answered) != (RESTORING, "driver")
    ],
)
def test_no_answer_says_that_nothing_is_wrong(
    ill: Ill, answer: Callable[[Reading], WhyReport]
) -> None:
    """Its headline tells a trouble, no line calls the thing well, and none is "none"."""
    report = answer(of_trouble(ill))

    # All members down is told by the word of each as well.
    words = (ill.word, ill.reason, "it says DOWN")
    assert any(word in report.headline for word in words), report.headline
    assert "nothing is wrong" not in text_of(report)
    marks = {mark for mark, subject, _ in line_facts(report) if subject == ill.subject}
    assert "ok" not in marks
    if ill.subject != "driver/proxy":
        assert ("ok", "in trouble", "") not in line_facts(report)


@pytest.mark.parametrize(
    ("ill", "mark"),
    [
        pytest.param(ill, "ok" if ill.kind in BESIDE_ITS_MEMBERS else "-", id=name)
        for name, ill in TROUBLES.items()
        if ill.subject == "lb/front"
    ],
)
def test_member_is_called_in_service_where_its_list_can_be_believed(
    ill: Ill, mark: str
) -> None:
    """What other answers have against the load balancer is why nobody knows."""
    report = why_record(of_trouble(ill), a_key("web-1"), NOW)

    assert (mark, conditions.IN_SERVICE, "") in line_facts(report)


@pytest.mark.parametrize("answer", ["pod", "br", "bg", "svc", "deployment"])
def test_what_to_do_stands_beside_it(answer: str) -> None:
    """As in the load balancer's own answer; others than its Service are told its name."""
    report = ANSWERS[answer](of_trouble(TROUBLES["load balancer down"]))
    lines = [line for part in report.sections for line in part.lines]
    [line] = [line for line in lines if line.subject == "lb/front"]

    named = "" if answer == "svc" else "lb/front: "
    assert f"{named}it is down (for 1m)" in report.headline
    assert (Mark.NO, "DriverRefused") == (line.mark, line.reason)
    assert line.remedy.endswith("kubectl lbcf why driver/proxy -n shop")


def test_own_trouble_of_a_pod_is_told_before_that_of_its_load_balancer() -> None:
    """It is what keeps the pod out."""
    reading = of_trouble(TROUBLES["orphans"])
    unready = a_pod(ready=False)
    reading.view.pods.place(unready)
    report = why_pod(reading, unready.meta.key, unready, NOW)

    assert report.headline == "registered at front; pod web-1 is not ready"
    assert ("NO", "lb/front", "MembersOrphaned") in line_facts(report)
