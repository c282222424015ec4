"""The script's own honesty: what it counts, excuses and complains about."""

from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

from tests.lab.demo.traffic import FailedRequest
from tests.lab.nodes import page
from tests.lab.nodes.events import Event, Reading, damages, named
from tests.lab.nodes.naive import is_wanted


MEMBERS = {"lbcf-1": "n1", "lbcf-3": "n3"}


def a_reading(
    at: float = 0,
    *,
    writes: Mapping[str, int] | None = None,
    created: tuple[str, ...] = (),
    removed: tuple[tuple[str, str], ...] = (),
    **calls: int,
) -> Reading:
    """Make a reading."""
    return Reading(at, calls, writes or {}, created, removed)


def an_event(
    at: float = 0,
    *reasons: tuple[str, str],
    lost: str = "",
    after: Reading | None = None,
) -> Event:
    """Make an event that begins at a moment."""
    ended = after or a_reading(at + 1)
    return Event("it", False, lost, reasons, a_reading(at), ended)


def a_failure(sent: float, pod: str, took_ms: float = 10) -> FailedRequest:
    """Make a failed request."""
    return FailedRequest(sent, took_ms, "/", "new", "status", 503, pod)


def test_failure_through_the_lost_node_is_excused() -> None:
    """And none through any other node, nor one of which nobody knows the node."""
    failures = [a_failure(1, "lbcf-3"), a_failure(2, "lbcf-1"), a_failure(3, "")]

    [damage] = damages([an_event(lost="n3")], [1, 2, 3, 4], failures, MEMBERS)

    assert (4, 1) == (damage.requests, damage.excused)
    assert ["lbcf-1", ""] == [f.pod for f in damage.failed]


def test_failure_of_an_event_without_a_lost_node_is_none_s_fault() -> None:
    """An unknown member is not the node that does not exist."""
    failures = [a_failure(1, ""), a_failure(1, "lbcf-9")]

    [damage] = damages([an_event()], [1], failures, MEMBERS)

    assert 2 == len(damage.failed)


def test_request_under_way_when_the_power_goes_is_excused() -> None:
    """It was sent before, but one that had ended by then was not."""
    events = [an_event(0), an_event(10, lost="n3")]
    cut = a_failure(8, "lbcf-3", took_ms=5000)
    before = a_failure(8, "lbcf-3", took_ms=1000)

    first, second = damages(events, [8, 8, 11], [cut, before], MEMBERS)

    assert (2, 0, (before,)) == (first.requests, first.excused, first.failed)
    assert (1, 1, ()) == (second.requests, second.excused, second.failed)


def test_what_kube_proxy_drops_is_excused_until_the_load_balancer_is_told() -> None:
    """Both learn at one time that no pod of a node is ready."""
    event = attrs.evolve(an_event(lost="n3"), until=5)
    failures = [a_failure(4, "lbcf-3"), a_failure(6, "lbcf-3"), a_failure(4, "lbcf-1")]

    [damage] = damages([event], [4, 6, 4], failures, MEMBERS)

    assert 1 == damage.excused
    assert [failures[2], failures[1]] == sorted(damage.failed, key=lambda f: f.sent)


def test_request_without_an_answer_went_where_the_log_says() -> None:
    """HAProxy's log names the member of a connection that it ended while it was made."""
    log = (
        "127.0.0.1:1 [30/Nov/2026:07:44:22.307] web pods/lbcf-3 0/0/-1/-1/250 -1 0 - - "
        'K--- 42/42/41/38/0 0/0 "GET /?n=7 HTTP/1.1"\n'
        "127.0.0.1:2 [30/Nov/2026:07:44:22.401] web pods/<NOSRV> 0/-1/-1/-1/0 503 0 - - "
        'SC-- 1/1/0/0/0 0/0 "GET /?n=8 HTTP/1.1"\n'
    )
    lost = [attrs.evolve(a_failure(1, ""), path=f"/?n={n}") for n in (7, 8, 9)]
    told = attrs.evolve(a_failure(1, "lbcf-1"), path="/?n=7")

    found = named([*lost, told], log)

    assert ["lbcf-3", "<NOSRV>", "", "lbcf-1"] == [f.pod for f in found]


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        pytest.param(
            an_event(after=a_reading(removed=(("n1", "NodeGone"),))),
            "records deleted",
            id="a record that was to stay",
        ),
        pytest.param(
            an_event(0, ("n1", "NodeGone")), "records deleted", id="one that stayed"
        ),
        pytest.param(
            an_event(after=a_reading(ensureBackend=1)),
            "ensureBackend called 1 times, expected 0",
            id="a call for nothing",
        ),
        pytest.param(
            an_event(after=a_reading(created=("n1",), ensureBackend=2)),
            "ensureBackend called 2 times, expected 1",
            id="a call too many",
        ),
        pytest.param(
            an_event(
                0,
                ("n1", "NodeGone"),
                after=a_reading(removed=(("n1", "NodeGone"),), deregisterBackend=1),
            ),
            "drainBackend called 0 times",
            id="no drain",
        ),
        pytest.param(
            an_event(after=a_reading(writes={"patch pods": 1})),
            "for nothing: {'patch pods': 1}",
            id="a write for nothing",
        ),
    ],
)
def test_what_is_not_as_expected_is_told(event: Event, complaint: str) -> None:
    """Each of them makes the script fail."""
    assert any(complaint in told for told in event.complaints())


def test_least_that_can_be_done_is_no_cause_for_complaint() -> None:
    """One node out and one in: one call each, and as many drains as it takes."""
    after = a_reading(
        removed=(("n1", "NodeGone"),),
        created=("n2",),
        writes={"create backendrecords": 1},
        ensureBackend=1,
        deregisterBackend=1,
        drainBackend=3,
    )

    assert [] == an_event(0, ("n1", "NodeGone"), after=after).complaints()


def test_table_is_put_between_its_marks(tmp_path: Path) -> None:
    """What stands around it stays; what stood there goes."""
    path = tmp_path / "page.md"
    path.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    [damage] = damages([an_event()], [1, 2], [], {})

    page.put(path, page.table([an_event()], [damage]))

    text = path.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| it | Cluster | as they were | **0** | **0** | 2 | **0** |  |" in text
    path.write_text("no marks")
    with pytest.raises(ValueError, match="no place"):
        page.put(path, "table")


def test_naive_controller_drops_cordoned_and_unready_nodes() -> None:
    """That is what makes it one."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    silent = {"conditions": [{"type": "Ready", "status": "Unknown"}]}

    assert is_wanted({"spec": {}, "status": ready})
    assert not is_wanted({"spec": {"unschedulable": True}, "status": ready})
    assert not is_wanted({"spec": {}, "status": silent})
