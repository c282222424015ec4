"""What people see: a live table on a terminal, plain lines elsewhere, and a summary.

`run` calls `show` twice a second with everything there is to see; nothing is decided
here.
"""

import time

from collections import Counter
from types import TracebackType
from typing import Self

import attrs

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from tests.lab.demo.census import Census
from tests.lab.demo.journal import Journal
from tests.lab.demo.options import RESTARTS
from tests.lab.demo.proxy import Member
from tests.lab.demo.traffic import Figures
from tests.lab.demo.verdict import Verdict, kills_by_name
from tests.lab.traced.judge import in_short


LAST_LINES = 8
PLAIN_INTERVAL = 5.0


@attrs.frozen
class View:
    """All there is to see at one moment."""

    figures: Figures
    excused: int
    census: Census
    members: tuple[Member, ...]
    journal: Journal


class Screen:
    """A live table where standard output is a terminal, else plain lines.

    Plain are each line of the journal once, and the figures every few seconds.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        live = console.is_terminal
        self._live = Live(console=console, refresh_per_second=2) if live else None
        self._told = 0
        self._last = 0.0

    def __enter__(self) -> Self:
        """Begin."""
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End; what was shown last stays."""
        if self._live:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print one line, above the table."""
        self._console.print(text, highlight=False, markup=False)

    def show(self, view: View) -> None:
        """Show how things are."""
        if self._live:
            self._live.update(_picture(view))
            return
        for at, text in view.journal.lines[self._told :]:
            self.say(f"{at - view.journal.begin:7.1f} s  {text}")
        self._told = len(view.journal.lines)
        if (now := time.monotonic()) >= self._last + PLAIN_INTERVAL:
            self._last = now
            self.say(f"{now - view.journal.begin:7.1f} s  {plain(view)}")


def plain(view: View) -> str:
    """The figures in one line."""
    states = ", ".join(f"{n} {state}" for state, n in view.census.states.items())
    members = Counter(member.status.split()[0] for member in view.members)
    servers = ", ".join(f"{n} {status}" for status, n in members.items())
    return (
        f"{_requests(view)}; pods {_pods(view)}; records {states or 'none'}; "
        f"members {servers or 'none'}; kills {_kills(view.journal)}"
    )


def _requests(view: View) -> str:
    """Requests so far."""
    figures = view.figures
    apart = f" (+{view.excused} by reloads)" if view.excused else ""
    return (
        f"{figures.requests} requests, {max(figures.failed - view.excused, 0)} failed{apart}, "
        f"p99 {figures.p99_ms} ms"
    )


def _pods(view: View) -> str:
    """How many pods serve and how many leave."""
    leaving = sum(pod.terminating for pod in view.census.pods)
    return f"{len(view.census.serving)} ready, {leaving} terminating"


def _kills(journal: Journal) -> str:
    """How often each process was killed."""
    return ", ".join(f"{n} {name}" for name, n in kills_by_name(journal).items())


def _picture(view: View) -> Group:
    """The live table."""
    head = Table.grid(padding=(0, 2))
    states = ", ".join(f"{n} {state}" for state, n in view.census.states.items())
    now = time.monotonic() - view.journal.begin
    for name, text in (
        ("time", f"{now:.0f} s  {view.journal.current}"),
        ("requests", _requests(view)),
        ("pods", _pods(view)),
        ("records", f"{states}; {len(view.census.finished)} done"),
        ("killed", _kills(view.journal)),
    ):
        head.add_row(name, text)
    return Group(head, _members(view), _events(view.journal))


def _members(view: View) -> Table:
    """The load balancer's members."""
    table = Table("member", "address", "state", "sessions", box=None)
    for member in view.members:
        style = "" if member.serving else "yellow"
        sessions = str(member.sessions)
        table.add_row(member.name, member.address, member.status, sessions, style=style)
    return table


def _events(journal: Journal) -> Table:
    """The last lines of the journal."""
    table = Table.grid(padding=(0, 2))
    for at, text in journal.lines[-LAST_LINES:]:
        table.add_row(f"{at - journal.begin:6.1f} s", text.partition("\n")[0])
    return table


def summary(verdict: Verdict) -> list[str]:
    """The result in lines."""
    figures, counts = verdict.figures, verdict.counts
    steps = ", ".join(
        f"{counts[kind]} {kind}s"
        for kind in (
            "rollout",
            "scaling",
            "deletion",
            "node drain",
            "eviction",
            "reload",
        )
    )
    kills = ", ".join(f"{n} {name}" for name, n in verdict.kills.items())
    drain = "on" if verdict.drain else "off"
    gates = "on" if verdict.gates else "off"
    lines = [
        f"seed {verdict.seed}, drain {drain}, gates {gates}, {verdict.seconds:.0f} s: {steps}, kills: {kills}",
        f"requests: {figures.requests}, failed: {verdict.failed}",
        *(
            f"  over {name}: {share.requests}, failed: {share.failed} "
            f"(and {share.reload_failed} in a gap)"
            for name, share in verdict.protocols.items()
        ),
        f"latency: p50 {figures.p50_ms} ms, p99 {figures.p99_ms} ms",
        f"{RESTARTS[verdict.driver]}: no members for {verdict.reload_gap_ms:.0f} ms at most",
        f"failed in such a gap (counted apart): {verdict.reload_failed}",
        f"lifecycles of records: {verdict.lifecycles}",
        f"of them with a drain that had to wait: {verdict.drains_waited}",
    ]
    if verdict.gates:
        lags = verdict.lags
        lines += [
            f"SIGTERM after the end of the pod's record: p99 {lags.sigterm_p99_ms} ms",
            f"readiness gate after Registered and first checks: p99 {lags.gate_p99_ms} ms",
        ]
    if verdict.writes:
        per = verdict.writes.per_lifecycle
        lines.append(
            f"API writes per lifecycle: {per:.2f} (4, 1 more where a drain waited, 2 more "
            "for each reload lived through)"
        )
    if verdict.followed:
        lines.append(f"traces: {in_short(verdict.followed)}")
    lines += [f"failed: {example}" for example in verdict.examples]
    lines += [f"missing: {line}" for line in verdict.missing]
    return lines
