"""What the demo did and when: steps, kills, reloads, troubles.

`script` and `kills` write it, `screen` shows its last lines, `verdict` counts from it,
and a failed request is explained with it. Moments are seconds of the monotonic clock.
"""

import time

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import attrs


API_SERVER = "API server"
LEASE_SHADOW = 30.0  # seconds after the API server's kill within which leaders may end
LATENESS = 2.0
"""Seconds after which a load generator on a busy machine has seen that it was cut off."""
KILL_SHADOW = (
    5.0  # seconds after a kill within which a failure is told together with it
)


@attrs.frozen
class Span:
    """Something that lasted: its name, its begin and its end (moments).

    Attributes:
        cuts: it began with the end of all requests that were under way.
    """

    name: str
    begin: float
    end: float
    cuts: bool = False

    def covers(self, moment: float) -> bool:
        """Tell whether the moment is inside."""
        return self.begin <= moment <= self.end


@attrs.define
class Journal:
    """All that happened.

    Attributes:
        begin: moment of the start; lines are told relative to it.
        lines: moment and text, for people.
        steps: steps of the script that ended.
        counts: how often each kind of thing was completed.
        kills: moment and name of each kill.
        gaps: for each reload or restart of the load balancer, from its signal until
            traffic was served again.
        troubles: what must not happen in a demo; each makes it fail.
    """

    begin: float = attrs.field(factory=time.monotonic)
    lines: list[tuple[float, str]] = attrs.field(factory=list)
    steps: list[Span] = attrs.field(factory=list)
    counts: Counter[str] = attrs.field(factory=Counter)
    kills: list[tuple[float, str]] = attrs.field(factory=list)
    gaps: list[Span] = attrs.field(factory=list)
    troubles: list[str] = attrs.field(factory=list)
    current: str = ""

    def tell(self, text: str) -> None:
        """Note a line."""
        self.lines.append((time.monotonic(), text))

    def trouble(self, text: str) -> None:
        """Note a line that makes the demo fail."""
        self.troubles.append(text)
        self.tell(f"TROUBLE: {text}")

    def ended(self, text: str) -> None:
        """Note the end of a program that nobody killed.

        That is a trouble, unless the API server was killed shortly before: a leader that
        cannot renew its Lease has to end.
        """
        now = time.monotonic()
        last = max((at for at, name in self.kills if name == API_SERVER), default=None)
        if last is not None and now < last + LEASE_SHADOW:
            self.tell(text)
        else:
            self.trouble(text)

    def killed(self, name: str) -> None:
        """Note that a process was killed."""
        self.kills.append((time.monotonic(), name))
        self.counts[f"kill {name}"] += 1

    @contextmanager
    def step(self, kind: str, text: str) -> Iterator[None]:
        """Note a step of the script; it counts if it ends without an exception."""
        begin = time.monotonic()
        self.current = text
        self.tell(text)
        try:
            yield
            self.counts[kind] += 1
        finally:
            self.steps.append(Span(text, begin, time.monotonic()))
            self.current = ""

    def around(self, moment: float) -> str:
        """What was going on then, for the explanation of a failed request."""
        running = [span.name for span in self.steps if span.covers(moment)]
        words = running or [self.current or "between two steps"]
        for at, name in reversed(self.kills):
            if 0 <= moment - at <= KILL_SHADOW:
                words.append(f"{moment - at:.1f} s after the kill of the {name}")
                break
        return ", ".join(words)

    def in_gap(self, sent: float, ended: float, *, cut: bool = False) -> bool:
        """Tell whether a request met a load balancer that was being restarted.

        It was sent then, or was under way when all such were cut and failed by that.

        Args:
            sent: when it was sent.
            ended: when it was seen to fail.
            cut: its connection ended. Nobody could serve it after the kill, but on a
                busy machine its end may be seen after that of the gap.
        """
        late = LATENESS if cut else 0.0
        return any(
            gap.covers(sent)
            or (gap.cuts and sent < gap.begin <= ended <= gap.end + late)
            for gap in self.gaps
        )
