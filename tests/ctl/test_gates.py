"""`why pod/NAME` names whom a readiness gate waits for."""

import attrs
import pytest

from lbcf.core.model.cluster import Pod, ReadinessGate
from lbcf.core.model.values import Gate
from lbcf.core.reasons import Reason
from lbcf.ctl.backends import why_pod
from lbcf.ctl.report import Line, Mark
from tests.builders import START, a_group, a_pod, a_record, seconds
from tests.controller.views import Thing
from tests.ctl.readings import NOW, a_reading


def gated(*, ready: bool = True, is_open: bool = False) -> Pod:
    """Make a pod with our gate."""
    return a_pod(ready=ready, gate=ReadinessGate(is_open=is_open, since=START))


def lines(pod: Pod, *others: Thing) -> list[Line]:
    """Return what is said of the gate."""
    report = why_pod(a_reading(pod, *others), pod.meta.key, pod, NOW)
    found = [s for s in report.sections if "readiness gate" in s.title]
    return [line for section in found for line in section.lines]


def test_who_is_waited_for_is_named() -> None:
    """With the group, the reason, and until when."""
    (line,) = lines(gated(), a_record())

    assert Mark.WAIT is line.mark
    assert "front (group web)" in line.text
    assert "until 00:10:00 UTC at the latest" in line.text
    assert Reason.AWAITING_REGISTRATION == line.reason


@pytest.mark.parametrize(
    ("timeout", "said"),
    [(seconds(30), "until 00:00:30 UTC"), (None, "for as long as it takes")],
)
def test_time_of_the_group_is_told(timeout: object, said: str) -> None:
    """Whoever has no time limit waits for ever."""
    group = attrs.evolve(a_group(version=2), gate_timeout=timeout)  # type: ignore[arg-type]

    assert said in lines(gated(), group)[0].text


def test_gate_about_to_be_opened_is_told() -> None:
    """The controller may be away."""
    optional = attrs.evolve(a_group(version=2), gate=Gate.OPTIONAL)
    (line,) = lines(gated(), optional)

    assert Reason.NOTHING_REQUIRED == line.reason
    assert "the controller is to open it" in line.text


def test_open_gate_is_fine() -> None:
    """It says so."""
    assert [Mark.OK] == [line.mark for line in lines(gated(is_open=True))]


def test_pod_whose_containers_are_not_ready_waits_for_them() -> None:
    """No load balancer is to blame."""
    assert [Reason.POD_NOT_READY] == [line.reason for line in lines(gated(ready=False))]


def test_pod_without_the_gate_has_no_such_section() -> None:
    """Most have none."""
    assert [] == lines(a_pod())
