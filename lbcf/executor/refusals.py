"""Statuses that the API server refuses to store: not sent again at once, and told.

The same write would be refused again, and each change of an object brings its key: without
a pause every one of them would send it anew, and call a driver whose answer could not be
written down. Records need none: their own conditions tell of a refusal.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import attrs

from lbcf.core.backoff import delay_for
from lbcf.core.model.resources import Meta
from lbcf.core.model.values import Uid
from lbcf.kube.errors import Invalid
from lbcf.kube.kinds import HasMeta
from lbcf.runtime.clock import Clock


@attrs.frozen
class _Pause:
    """Until when the status of one version of a spec is not to be written."""

    generation: int
    until: float
    refused: int


class StatusRefusals:
    """Remembers whose status was refused; a change of the spec ends a pause.

    Args:
        clock: measures pauses.
        told: hears of each refusal: the kind, the object, the error, the pause.
    """

    def __init__(
        self, clock: Clock, told: Callable[[str, Meta, Invalid, timedelta], None]
    ) -> None:
        self._clock = clock
        self._told = told
        self._pauses: dict[Uid, _Pause] = {}

    def rest(self, meta: Meta) -> timedelta | None:
        """Return how long not to write the status yet; None: write."""
        pause = self._pauses.get(meta.uid)
        if pause is None or pause.generation != meta.generation:
            return None
        # A timedelta has whole microseconds: less would become a pause of zero.
        rest = timedelta(seconds=pause.until - self._clock.monotonic())
        return rest if rest > timedelta(0) else None

    @contextmanager
    def writing(self, kind: str, meta: Meta) -> Iterator[None]:
        """Write a status in the block, unless that was refused a moment ago.

        Raises:
            Invalid: it is refused, or was and is not sent again yet.
        """
        rest = self.rest(meta)
        if rest is not None:
            text = (
                f"status of {kind} {meta.key}: refused before, and not sent again yet"
            )
            raise Invalid(text, retry_after=rest)
        try:
            yield
        except Invalid as error:
            self._told(kind, meta, error, self._pause(meta))
            raise
        self._pauses.pop(meta.uid, None)

    def changed(self, old: HasMeta | None, new: HasMeta | None) -> None:
        """Forget what is gone."""
        if old is not None and new is None:
            self._pauses.pop(old.meta.uid, None)

    def _pause(self, meta: Meta) -> timedelta:
        """Begin a pause that is longer than the last one; say how long it is."""
        known = self._pauses.get(meta.uid)
        refused = 1 if known is None else known.refused + 1
        delay = delay_for(refused, self._clock.jitter())
        until = self._clock.monotonic() + delay.total_seconds()
        self._pauses[meta.uid] = _Pause(meta.generation, until, refused)
        return delay
