"""When something that is well one moment and not the next one is told of."""

from lbcf.core.lifecycle.steadiness import CALM, LASTING, READINGS, Steadiness


PERIOD = 2.0
START = 1000.0


def read_until(
    state: Steadiness, now: float, *, is_well: bool
) -> tuple[Steadiness, float]:
    """Read the same by period until it is told; return when the next reading is due."""
    while state.is_well is not is_well:
        state, now = state.read(now, is_well=is_well), now + PERIOD
    return state, now


def test_single_bad_reading_is_not_told() -> None:
    """Nor are two that are far from each other."""
    state, now = Steadiness(), START
    for _ in range(10):
        state = state.read(now, is_well=False)
        assert state.is_well
        state = state.read(now + 1, is_well=True)
        assert state == Steadiness()
        now += LASTING.total_seconds()


def test_bad_readings_are_told_when_they_last() -> None:
    """Often enough, and for long enough, whichever takes longer."""
    quick, now, count = Steadiness(), START, 0
    while quick.is_well:
        quick, count, now = quick.read(now, is_well=False), count + 1, now + PERIOD
    slow, readings = Steadiness(), 0
    while slow.is_well:
        slow, readings = slow.read(START + 60.0 * readings, is_well=False), readings + 1

    assert LASTING.total_seconds() <= PERIOD * (count - 1) < LASTING.total_seconds() + 2
    assert READINGS == readings


def test_first_recovery_is_told_at_once() -> None:
    """Also of what an earlier process told not to be well."""
    fallen = Steadiness().read(START, is_well=False).read(START + 5, is_well=False)

    assert not fallen.is_well
    assert fallen.read(START + 7, is_well=True).is_well
    assert Steadiness(is_well=False).read(START, is_well=True).is_well


def test_flapping_is_told_less_and_less_often() -> None:
    """It must have been well for longer each time; bad readings begin that anew."""
    state, now, lasted = Steadiness(), START, []
    for _ in range(8):
        state, fell_at = read_until(state, now, is_well=False)
        state, now = read_until(state, fell_at, is_well=True)
        lasted.append(now - PERIOD - fell_at)
    restless = Steadiness(is_well=False, falls=2)
    for _ in range(100):
        restless, now = restless.read(now, is_well=True), now + 10
        restless, now = restless.read(now, is_well=False), now + 10

    assert [0, 16, 30, 60, 120, 240, 300, 300] == lasted
    assert not restless.is_well


def test_fall_after_calm_is_the_first_again() -> None:
    """What was long ago does not count."""
    before = Steadiness(is_well=True, falls=7, fell_at=START)
    now = START + CALM.total_seconds()

    fallen = before.read(now, is_well=False).read(now + 5, is_well=False)

    assert 1 == fallen.falls


def test_each_reading_counts_once() -> None:
    """Two that are apart are told, one is not; one is enough that says it is well again."""
    once = Steadiness().read(START, is_well=False)
    fallen = once.read(START + LASTING.total_seconds(), is_well=False)

    assert (True, 1) == (once.is_well, once.readings)
    assert not fallen.is_well
    assert fallen.read(START + 60.0, is_well=True).is_well
