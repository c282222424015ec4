"""When Python looks for cycles among objects: seldom, and never among what stays.

Cached objects are freed by their reference counts when they are replaced; searching all of
them for cycles again and again would only cost: at Python's own thresholds a twelfth of all
imports, and 0.06 s more where what is imported is searched when work begins (measured).
"""

import gc

from typing import Final


YOUNG: Final = 10_000
"""Allocations between two collections of the youngest; Python's own 700 are a handful
of API calls."""
MIDDLE: Final = 20
OLD: Final = 20


def collect_seldom() -> None:
    """Look for cycles less often; called before anything large is imported."""
    gc.set_threshold(YOUNG, MIDDLE, OLD)


def begin_run() -> None:
    """Free what an ended run in this process has held, and leave alone what is imported."""
    if gc.get_freeze_count():
        gc.unfreeze()
        gc.collect()
    gc.freeze()


def leave_alone() -> None:
    """Leave alone what lives now: what has been read."""
    gc.collect()
    gc.freeze()
