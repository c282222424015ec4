"""How many nodes may run at once, whichever process of this user starts them.

Linux gives a user 128 inotify instances (`fs.inotify.max_user_instances`), and who gets none does
not start. A control plane has 11 of them, each of its nodes 8 more; workers of the tests have a
control plane each.
"""

import fcntl
import time

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


MOST = 3
"""Nodes: with them, and control planes of five workers, at most 112 instances are in use."""

PERIOD = 0.5
"""Seconds between two looks."""


@contextmanager
def places(folder: Path, nodes: int) -> Iterator[None]:
    """Wait until there are places for so many nodes, and keep them for a block.

    Args:
        folder: where those who share them have their files.
        nodes: more than there are places take all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as kept:
        if not _have_taken(kept, folder, min(nodes, MOST)):
            print("waiting for the nodes of other runs of this user to end", flush=True)
            while not _have_taken(kept, folder, min(nodes, MOST)):
                time.sleep(PERIOD)
        yield


def _have_taken(kept: ExitStack, folder: Path, number: int) -> bool:
    """Take so many places, or none."""
    with ExitStack() as taken:
        for place in range(MOST):
            if number == 0:
                break
            file = taken.enter_context((folder / f"node-{place}.lock").open("w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            number -= 1
        if number == 0:
            kept.enter_context(taken.pop_all())
        return number == 0
