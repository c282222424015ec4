"""SPIN, which shares no code with the search, comes to the same verdicts."""

import pytest

from tests.lab.model import spin


pytestmark = pytest.mark.skipif(bool(spin.missing()), reason="spin is not installed")


def test_what_is_built_has_no_errors() -> None:
    """The lock on addresses, with one of each worker, holds to its last state."""
    verdict = spin.check(("-DADDRESS",))

    assert verdict.complete
    assert 0 == verdict.errors


@pytest.mark.parametrize("switches", spin.WEAKER, ids=" ".join)
def test_a_weaker_protocol_has_errors(switches: tuple[str, ...]) -> None:
    """Each switch takes a rule away that SPIN misses."""
    assert 1 == spin.check(switches).errors
