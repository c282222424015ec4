"""Remembers which nodes of a group could not be judged, for the group's status.

A turn looks at the nodes that changed alone: what it says of those must not make the
status forget the others.
"""

from collections.abc import Collection, Mapping

from lbcf.core.model.values import ObjectKey
from lbcf.core.model.verdicts import Undecided
from lbcf.core.reasons import Explanation, Reason


_NAMED = 3


class NodeDoubts:
    """By group, the nodes that wait, and why."""

    def __init__(self) -> None:
        self._waiting: dict[ObjectKey, dict[str, Undecided]] = {}

    def learn(
        self,
        group: ObjectKey,
        scope: Collection[str] | None,
        waiting: Mapping[str, Undecided],
    ) -> tuple[Explanation, ...]:
        """Take in what a turn found, and return all doubts that there are.

        Args:
            group: that was looked at.
            scope: names of the only nodes that were looked at, None for all.
            waiting: those that could not be judged. Those that are merely kept are
                told as removals that are held.
        """
        known = self._waiting.pop(group, {})
        if scope is None:
            known = {}
        for name in scope or ():
            known.pop(name, None)
        known.update(
            {n: w for n, w in waiting.items() if w.reason != Reason.LAST_SERVING_NODE}
        )
        if known:
            self._waiting[group] = known
        return _told(known)

    def forget(self, group: ObjectKey) -> None:
        """Forget a group that is gone."""
        self._waiting.pop(group, None)


def _told(waiting: Mapping[str, Undecided]) -> tuple[Explanation, ...]:
    """Say it in a sentence for each reason, with the first few nodes."""
    found: dict[Reason, list[str]] = {}
    for _, doubt in sorted(waiting.items()):
        found.setdefault(doubt.reason, []).append(doubt.message)
    return tuple(
        Explanation(reason, _shortened(messages)) for reason, messages in found.items()
    )


def _shortened(messages: list[str]) -> str:
    """Put the first few sentences into one."""
    shown = "; ".join(messages[:_NAMED])
    rest = len(messages) - _NAMED
    return shown if rest <= 0 else f"{shown}; and {rest} nodes more"
