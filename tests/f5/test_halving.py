"""Who is found by halving, and by how many tries."""

import pytest

from webhooks.f5.halving import Halving


@pytest.mark.parametrize("number", [1, 2, 3, 27, 32, 100])
def test_the_cause_is_found_wherever_it_is(number: int) -> None:
    """By as many tries as it has digits in base 2; all others are made or cleared, once."""
    for cause in range(number):
        search, made, tries = Halving(range(number)), list[int](), 0
        while half := list(search.half):
            tries += 1
            if cause in half:
                search = search.refused(len(half))
            else:
                made += half
                search = search.made(len(half))

        assert [cause] == list(search.suspects)
        assert set(range(number)) == {cause, *made, *search.cleared}
        assert number == 1 + len(made) + len(search.cleared)
        assert tries <= (number - 1).bit_length()


def test_a_half_for_which_there_was_no_time() -> None:
    """What was not tried stays suspect beside what was made; beside the cause it is cleared."""
    search = Halving(range(10))

    assert [2, 3, 4, 5, 6, 7, 8, 9] == list(search.made(2).suspects)
    assert [] == list(search.made(2).cleared)
    assert [0, 1] == list(search.refused(2).suspects)
    assert [2, 3, 4, 5, 6, 7, 8, 9] == list(search.refused(2).cleared)
    assert set(range(10)) == set(search.refused(2).unmade)
