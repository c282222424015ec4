"""For how long addresses were out when all pods went at once, from made-up histories."""

import pytest

from tests.lab.faults.history import Effect
from tests.lab.soak.served import ADDRESSES
from tests.lab.soak.waves import BLINKS, ROUNDS, Seen, beyond, gaps, result_of


HOST = "10.0.0.1:80"
OTHER = "10.0.0.2:80"
SLOW = (
    "pods that were not ready for a second were out beyond it for "
    "2.60 times what 12 plain requests for each take"
)
EFFECTS = (
    Effect(1.0, True, HOST, "u1"),
    Effect(1.0, True, OTHER, "u2"),
    Effect(2.0, False, HOST, "u1", "u1"),
    Effect(6.0, True, HOST, "u3"),
    Effect(8.0, False, HOST, "u3", "u3"),
    Effect(8.5, True, HOST, "u4"),
    Effect(9.0, False, HOST, "u4", "u4"),
    Effect(10.5, True, HOST, "u5"),
    Effect(11.0, False, OTHER, "u2", "u2"),
)


def test_longest_gap_since_a_moment() -> None:
    """Earlier ones do not count, nor does one that has not ended."""
    assert {HOST: 4.0} == gaps(EFFECTS, 0.0)
    assert {HOST: 1.5} == gaps(EFFECTS, 7.0)
    assert {} == gaps(EFFECTS, 9.5)


def test_restart_of_a_pod_is_its_own() -> None:
    """Only what comes on top of it is ours."""
    assert {HOST: 0.5} == beyond({HOST: 2.5}, {HOST: 2.0, OTHER: 1.0})


@pytest.mark.parametrize(
    ("blink", "over", "locks", "expected"),
    [
        pytest.param(1.4, 0.3, 1, [], id="well"),
        pytest.param(
            5.2, 0.3, 1, [SLOW], id="blink",
        ),
        pytest.param(
            1.4, 1.5, 1, ["a pod was out for 1.50 s more than its restart took"],
            id="restart",
        ),
        pytest.param(
            1.4, 0.3, 2, ["9.00 writes for a record whose address is reused"],
            id="writes",
        ),
    ],
)  # fmt: skip
def test_one_pod_is_enough(
    blink: float, over: float, locks: int, expected: list[str]
) -> None:
    """The longest of all is what counts; where all blink, the mean of the longest."""
    blinks = [dict.fromkeys(ADDRESSES, 1.1) for _ in range(BLINKS)]
    for wave in blinks[:3]:
        wave[ADDRESSES[0]] = blink
    for wave in blinks[3:]:
        wave[ADDRESSES[1]] = 2.0
    replaced = [dict.fromkeys(ADDRESSES, 1.1) for _ in range(ROUNDS)]
    restarts = dict.fromkeys(ADDRESSES, 0.1) | {ADDRESSES[3]: over}
    lives = ROUNDS * len(ADDRESSES)
    writes = {
        "create backendrecords": lives,
        "patch backendrecords/status": 6 * lives,
        "patch leases": locks * lives,
        "create leases refused": 2 * lives,
        "patch backendgroups/status": 500,
    }
    seen = Seen(blinks, [0.5, 1.5], replaced, restarts, writes)

    assert expected == result_of(seen, []).wrong


def test_what_was_not_seen_is_told() -> None:
    """A pod that was in all the time did not blink."""
    seen = Seen([{HOST: 1.1}], [0.4], [{HOST: 0.2}], {HOST: 0.1}, {})

    assert ["seen out: 1 that blinked, 1 that were restarted"] == result_of(
        seen, []
    ).wrong
