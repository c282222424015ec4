"""The result: figures, what is missing, and whether the demo succeeded.

All that was gathered (`traffic`, `journal`, `census`, `writes`) comes together here as
one frozen value, which `screen` shows and `--json` prints.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tests.lab.demo import script
from tests.lab.demo.journal import Journal
from tests.lab.demo.lags import Lags
from tests.lab.demo.options import KILLS, RESTARTS, Minima
from tests.lab.demo.traffic import FailedRequest, Figures, outside_gaps
from tests.lab.demo.writes import Writes
from tests.lab.traced.judge import Verdict as Followed
from tests.lab.traced.judge import told


SHOWN = 10


@attrs.frozen
class Evidence:
    """What is judged.

    Attributes:
        seed: of the kills.
        drain: the drain was on.
        gates: pods were Ready when they were registered, and got SIGTERM when they were
            drained.
        lags: of readiness gates, and of SIGTERM.
        seconds: length of the script in seconds.
        figures: the load generator's last ones.
        failures: the failed requests, or as many of them as were kept.
        journal: what was done.
        lifecycles: records that were created and are gone.
        waited: records whose drain had to wait.
        writes: writes to the API, if the audit log could be read.
        followed: what the model says of all that was done, in the same case.
        minima: what had to be reached.
    """

    seed: int
    drain: bool
    gates: bool
    lags: Lags
    seconds: float
    figures: Figures
    failures: Sequence[FailedRequest]
    journal: Journal
    lifecycles: int
    waited: int
    writes: Writes | None
    followed: Followed | None
    minima: Minima


@attrs.frozen
class Share:
    """The part of the requests that was sent in one protocol.

    Attributes:
        requests: how many.
        failed: of them, what no reload or restart excuses.
        reload_failed: of them, what one does.
    """

    requests: int
    failed: int
    reload_failed: int


@attrs.frozen
class Verdict:
    """What came out.

    Attributes:
        driver: of which load balancer.
        seed: of the kills.
        drain: the drain was on.
        gates: pods were Ready when they were registered, and got SIGTERM when they were
            drained.
        lags: of readiness gates, and of SIGTERM.
        seconds: length of the script in seconds.
        figures: the load generator's, all failures included.
        failed: failed requests that no reload or restart excuses.
        reload_failed: requests that failed since the load balancer was restarted just then.
        protocols: the same by what requests were sent in, of the failures that were kept.
        reload_gap_ms: the longest such time in milliseconds.
        counts: how often each step of the script was completed.
        kills: kills of each process.
        lifecycles: records that were created and are gone.
        drains_waited: records whose drain had to wait.
        writes: writes to the API, if the audit log could be read.
        followed: what the model says of all that was done, in the same case.
        missing: what did not happen often enough, or went wrong; empty is good.
        examples: some of the failed requests, told to people.
    """

    driver: str
    seed: int
    drain: bool
    gates: bool
    lags: Lags
    seconds: float
    figures: Figures
    failed: int
    reload_failed: int
    protocols: Mapping[str, Share]
    reload_gap_ms: float
    counts: Mapping[str, int]
    kills: Mapping[str, int]
    lifecycles: int
    drains_waited: int
    writes: Writes | None
    followed: Followed | None
    missing: Sequence[str]
    examples: Sequence[str]

    @property
    def succeeded(self) -> bool:
        """No request failed and nothing is missing."""
        return not self.failed and not self.missing


def judge(evidence: Evidence) -> Verdict:
    """Put everything together."""
    journal, figures, failures = evidence.journal, evidence.figures, evidence.failures
    real = outside_gaps(failures, journal)
    excused = len(failures) - len(real)
    gaps = [gap.end - gap.begin for gap in journal.gaps]
    short = shortfalls(evidence.minima, figures, journal)
    return Verdict(
        driver=evidence.minima.driver,
        seed=evidence.seed,
        drain=evidence.drain,
        gates=evidence.gates,
        lags=evidence.lags,
        seconds=evidence.seconds,
        figures=figures,
        failed=figures.failed - excused,
        reload_failed=excused,
        protocols=shares(figures, failures, real),
        reload_gap_ms=round(max(gaps, default=0.0) * 1000, 1),
        counts=journal.counts,
        kills=kills_by_name(journal),
        lifecycles=evidence.lifecycles,
        drains_waited=evidence.waited,
        writes=evidence.writes,
        followed=evidence.followed,
        missing=[*short, *journal.troubles, *_early(evidence), *_refused(evidence)],
        examples=[explain(failure, journal) for failure in real[:SHOWN]],
    )


def _early(evidence: Evidence) -> list[str]:
    """Tell of pods that were told to end though their gate should have held them."""
    early = evidence.lags.early
    if not evidence.gates or not early:
        return []
    return [f"SIGTERM while a record names the pod: {' '.join(early)}"]


def _refused(evidence: Evidence) -> list[str]:
    """Tell of the step that the model does not allow."""
    found = evidence.followed
    return [] if found is None or found.refusal is None else [told(found)]


def kills_by_name(journal: Journal) -> dict[str, int]:
    """How often each process was killed, all replicas of it together."""
    killed = Counter(name.partition("-")[0] for _, name in journal.kills)
    return {name: killed[name] for name in KILLS}


def shares(
    figures: Figures, failures: Sequence[FailedRequest], real: Sequence[FailedRequest]
) -> dict[str, Share]:
    """Tell protocols apart."""
    failed = Counter(failure.protocol for failure in real)
    excused = Counter(failure.protocol for failure in failures) - failed
    return {
        name: Share(count, failed[name], excused[name])
        for name, count in sorted(figures.protocols.items())
    }


def shortfalls(minima: Minima, sent: Figures, journal: Journal) -> list[str]:
    """What has not happened often enough, in words; empty if everything has."""
    counts = journal.counts
    figures = [
        ("requests", sent.requests, minima.requests),
        *(
            (f"requests over {name}", sent.protocols.get(name, 0), need)
            for name, need in minima.protocols.items()
        ),
        ("rolling updates", counts[script.ROLLOUT], minima.rollouts),
        ("node drains", counts[script.NODE_DRAIN], minima.node_drains),
        (RESTARTS[minima.driver], counts[script.RELOAD], minima.reloads),
        ("evictions", counts[script.EVICTION], minima.evictions),
        ("times without a deregistrar", counts[script.OUTAGE], minima.outages),
        *(
            (f"kills of the {name}", kills_by_name(journal)[name], need)
            for name, need in minima.kills.items()
        ),
    ]
    return [f"{have} {what} of {need}" for what, have, need in figures if have < need]


def explain(failure: FailedRequest, journal: Journal) -> str:
    """Tell people about one failed request."""
    status = f" {failure.status}" if failure.status else ""
    member = f" of member {failure.pod}" if failure.pod else " of no member"
    return (
        f"{failure.sent - journal.begin:7.2f} s  {failure.kind}{status}{member} after "
        f"{failure.took_ms} ms on a {failure.connection} connection, {failure.path} "
        f"({journal.around(failure.sent)})"
    )


def render(verdict: Verdict) -> dict[str, Any]:
    """The verdict as one JSON object."""
    writes = verdict.writes
    return {
        "ok": verdict.succeeded,
        "driver": verdict.driver,
        "drain": verdict.drain,
        "gates": verdict.gates,
        "sigterm_lag_p99_ms": verdict.lags.sigterm_p99_ms,
        "gate_true_p99_ms": verdict.lags.gate_p99_ms,
        "seconds": round(verdict.seconds, 1),
        "requests": verdict.figures.requests,
        "failed": verdict.failed,
        "protocols": {
            name: attrs.asdict(share) for name, share in verdict.protocols.items()
        },
        "seed": verdict.seed,
        "rollouts": verdict.counts[script.ROLLOUT],
        "scalings": verdict.counts[script.SCALING],
        "deletions": verdict.counts[script.DELETION],
        "node_drains": verdict.counts[script.NODE_DRAIN],
        "evictions": verdict.counts[script.EVICTION],
        "outages": verdict.counts[script.OUTAGE],
        "kills": sum(verdict.kills.values()),
        "kills_by_process": dict(verdict.kills),
        "reloads": verdict.counts[script.RELOAD],
        "reload_gap_ms": verdict.reload_gap_ms,
        "reload_failed": verdict.reload_failed,
        "lifecycles": verdict.lifecycles,
        "api_writes_per_lifecycle": round(writes.per_lifecycle, 2) if writes else None,
        "api_writes": attrs.asdict(writes) if writes else None,
        "steps_followed": verdict.followed.steps if verdict.followed else None,
        "drains_waited": verdict.drains_waited,
        "p50_ms": verdict.figures.p50_ms,
        "p99_ms": verdict.figures.p99_ms,
        "idle_closed": verdict.figures.idle_closed,
        "held_back": verdict.figures.held_back,
        "missing": list(verdict.missing),
    }
