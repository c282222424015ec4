"""Brings records back when their driver can be reached again.

Between a `queue` and the turns of a process. A record whose driver cannot be reached
comes back after a pause that grows to minutes; the first call that gets through, of
whichever record, ends that pause for all that wait for the same driver.
"""

from collections import defaultdict

from lbcf.core.model.values import ObjectKey
from lbcf.runtime.queue import WorkQueue


class Recall:
    """Remembers who could not reach which driver.

    Args:
        queue: where keys come back to.
    """

    def __init__(self, queue: WorkQueue[ObjectKey]) -> None:
        self._queue = queue
        self._waiting: defaultdict[ObjectKey, dict[ObjectKey, None]] = defaultdict(dict)

    def missed(self, driver: ObjectKey, record: ObjectKey) -> None:
        """Note that nothing reached the driver."""
        self._waiting[driver][record] = None

    def reached(self, driver: ObjectKey, record: ObjectKey) -> None:
        """Bring back all that wait for a driver, but the one that has just reached it."""
        waiting = self._waiting.pop(driver, {})
        waiting.pop(record, None)
        for key in waiting:
            self._queue.add(key)
