"""A plugin of pytest, by which each of its processes stands still again and again.

On a loaded machine a process may stand still at any point, for as long as others run. Busy
loops show that seldom where a test is over in a moment; this shows it in most tests.
"""

import ctypes
import random
import threading
import time

import pytest


STALL = (0.03, 0.6)
"""Seconds that all threads of a process stand still, at least and at most."""

BETWEEN = (0.0, 0.3)
"""Seconds that they run until then."""


def pytest_configure(config: pytest.Config) -> None:
    """Let a worker, or who works alone, stand still from now on."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        threading.Thread(target=_stall, daemon=True).start()


def _stall() -> None:
    """Run for a while, then hold the interpreter's lock for a while, and again."""
    libc = ctypes.PyDLL(None)  # which, unlike CDLL, keeps the lock during a call
    drawn = random.Random()  # noqa: S311
    while True:
        time.sleep(drawn.uniform(*BETWEEN))
        libc.usleep(int(drawn.uniform(*STALL) * 1e6))
