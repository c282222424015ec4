"""Moments of the wall clock, as tapes have them."""

from datetime import datetime

from tests.fakes.clock import EPOCH


def second(moment: datetime) -> float:
    """Return a moment of the wall clock as one of a tape."""
    return (moment - EPOCH).total_seconds()
