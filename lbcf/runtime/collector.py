"""Sets up Python's garbage collector for a process that holds much and changes little.

`lbcf.process` calls it once, when everything has been read. What is cached lives until
it is replaced, and is then freed by its reference count; to look through all of it for
cycles again and again would only cost.
"""

import gc

from typing import Final


YOUNG: Final = 10_000
"""Allocations between two collections of the youngest; Python's own 700 are a handful
of API calls."""
MIDDLE: Final = 20
OLD: Final = 20


def relax() -> None:
    """Leave alone what lives now, and look through the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
