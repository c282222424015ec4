"""What is excused after a node lost its power, what is not, and what is told of it."""

import pytest

from tests.lab.demo.traffic import FailedRequest
from tests.lab.installed.verdict import Outage, examine, read_log, unexcused
from tests.lab.installed.witness import told_about


OUTAGE = Outage("n2", 10.0, 20.0, frozenset({"lbcf-dead"}))
LOG = """\
proxy started
failed /?n=7 member=lbcf-dead status=-1 state=SH times=0/0/1/-1/8001
failed /slow?s=1.0&n=71 member=lbcf-well status=504 state=sH times=0/0/1/-1/8001
"""
STORY = """\
1.000 ADDED record lbcf-dead pod=web-0 deleted=
2.000 MODIFIED pod web-0 node=n2 ready=True
11.000 act power_off_leader begins
12.000 MODIFIED pod web-1 node=n3 ready=True
90.000 act roll_web begins
"""


def _failure(
    sent: float, pod: str = "lbcf-dead", path: str = "/?n=1", took: float = 0.5
) -> FailedRequest:
    """A request that failed."""
    return FailedRequest(sent, took * 1000, path, "kept", "reset", 0, pod)


@pytest.mark.parametrize(
    ("failure", "counts"),
    [
        pytest.param(_failure(12.0), False, id="with a member on it"),
        pytest.param(_failure(9.8), False, id="under way when the power went"),
        pytest.param(_failure(9.0), True, id="over before"),
        pytest.param(_failure(20.1), True, id="sent after the record was gone"),
        pytest.param(_failure(12.0, "lbcf-well"), True, id="with another member"),
        pytest.param(_failure(12.0, ""), True, id="with nobody knows whom"),
        pytest.param(_failure(12.0, "", "/?n=7"), False, id="told by the log alone"),
        pytest.param(_failure(12.0, "", "/?n=71"), True, id="another one's log line"),
    ],
)
def test_only_what_a_lost_node_had_is_excused(
    failure: FailedRequest, counts: bool
) -> None:
    """The member must have been on it, and the request under way in that time."""
    lost = examine([failure], read_log(LOG))

    assert counts == bool(unexcused(lost, [OUTAGE]))


def test_nothing_is_excused_without_an_outage() -> None:
    """A failure counts whoever had it."""
    [lost] = examine([_failure(12.0)], {})

    assert [lost] == unexcused([lost], [])


def test_a_failure_is_told_with_all_that_happened_to_its_member() -> None:
    """The member's record, its pod, and what was done just then; nothing else."""
    told = told_about(STORY, "lbcf-dead", sent=12.0, failed=12.5)

    texts = [line.split(" s  ", 1)[1] for line in told]
    assert texts == [
        "ADDED record lbcf-dead pod=web-0 deleted=",
        "MODIFIED pod web-0 node=n2 ready=True",
        "act power_off_leader begins",
    ]
