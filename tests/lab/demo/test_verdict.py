"""The verdict counts honestly: what excuses a failure, and what is missing."""

import attrs
import pytest

from tests.lab.demo import script
from tests.lab.demo.journal import API_SERVER, Journal, Span
from tests.lab.demo.lags import Lags
from tests.lab.demo.options import Minima, Options, minima
from tests.lab.demo.traffic import FailedRequest, Figures
from tests.lab.demo.verdict import Evidence, Share, Verdict, judge, render, shortfalls
from tests.lab.demo.writes import Writes
from tests.lab.model.facts import event_of
from tests.lab.model.witness import Refusal
from tests.lab.traced.judge import Verdict as Followed


KILLS = {"controller": 2, "deregistrar": 2}
STEPS = [
    (script.ROLLOUT, "0 rolling updates of 1"),
    (script.NODE_DRAIN, "0 node drains of 1"),
    (script.RELOAD, "0 reloads of HAProxy of 1"),
    (script.EVICTION, "0 evictions of 1"),
    (script.OUTAGE, "0 times without a deregistrar of 1"),
]
LEAST = Minima(
    requests=100,
    rollouts=1,
    node_drains=1,
    kills=KILLS,
    reloads=1,
    evictions=1,
    outages=1,
)
WRITES = Writes(2, {"create": 2, "patch": 7}, 0, {"leases": 3})


def busy_journal() -> Journal:
    """A journal of a run in which enough happened; HAProxy was reloaded at 20 s."""
    journal = Journal(begin=0.0)
    for kind, *_ in STEPS:
        journal.counts[kind] = 1
    journal.steps.append(Span("rolling update 1", 10.0, 15.0))
    journal.gaps.append(Span(script.RELOAD, 20.0, 21.5))
    journal.kills += [(8.0, "controller"), (9.0, "controller")]
    journal.kills += [(11.0, "deregistrar-2"), (12.0, "deregistrar-1")]
    return journal


def failed_at(moment: float) -> FailedRequest:
    """A request that was sent then and failed."""
    return FailedRequest(moment, 3.0, "/", "new", "status", 503, "m1")


def evidence(journal: Journal, *moments: float) -> Evidence:
    """What is known of a run in which requests failed at these moments."""
    return Evidence(
        seed=1,
        drain=True,
        gates=True,
        lags=Lags(),
        seconds=60.0,
        figures=Figures(requests=200, failed=len(moments)),
        failures=[failed_at(moment) for moment in moments],
        journal=journal,
        lifecycles=2,
        waited=1,
        followed=None,
        writes=WRITES,
        minima=LEAST,
    )


def verdict(journal: Journal, *moments: float) -> Verdict:
    """The verdict on it."""
    return judge(evidence(journal, *moments))


def test_succeeds_when_enough_happened_and_nothing_failed() -> None:
    """No failure and no shortfall is a success."""
    assert verdict(busy_journal()).succeeded


def test_step_that_the_model_refuses_is_a_failure() -> None:
    """It is told, though no request failed."""
    event = event_of(7, {"actor": "A", "step": "write", "began": 0.0, "ended": 0.0})
    followed = Followed(8, 1, 9, Refusal(event, "it may not"))
    found = judge(attrs.evolve(evidence(busy_journal()), followed=followed))

    assert not found.succeeded
    assert "step 7: A may not write" in found.missing[0]


def test_one_failed_request_is_a_failure() -> None:
    """A single failed request spoils the demo and is explained."""
    found = verdict(busy_journal(), 13.0)

    assert (1, False) == (found.failed, found.succeeded)
    assert "rolling update 1, 1.0 s after the kill of the deregistrar-1" in str(
        found.examples
    )


@pytest.mark.parametrize(
    ("moment", "failed", "excused"),
    [(19.9, 1, 0), (20.0, 0, 1), (21.5, 0, 1), (21.6, 1, 0)],
    ids=["before", "at the signal", "at the end", "after"],
)
def test_a_reload_excuses_what_was_sent_in_its_gap(
    moment: float, failed: int, excused: int
) -> None:
    """Only requests sent between the signal and the first member are excused."""
    found = verdict(busy_journal(), moment)

    assert (failed, excused) == (found.failed, found.reload_failed)
    assert 1500.0 == found.reload_gap_ms


@pytest.mark.parametrize(
    ("cuts", "took_ms", "kind", "excused"),
    [
        (True, 1100.0, "reset", 1),
        (True, 900.0, "reset", 0),
        (True, 3000.0, "reset", 1),
        (True, 3000.0, "truncated", 1),
        (True, 3000.0, "status", 0),
        (True, 5000.0, "reset", 0),
        (False, 1100.0, "reset", 0),
    ],
    ids=[
        *("cut", "before", "told late", "told late inside an answer", "answered after"),
        *("long after", "a reload cuts nothing"),
    ],
)
def test_a_restart_excuses_what_it_cut(
    cuts: bool, took_ms: float, kind: str, excused: int
) -> None:
    """What was under way when Envoy was killed failed by that, and no other request.

    A load generator that waits for its turn on the CPU sees that end after the gap's.
    """
    journal = busy_journal()
    journal.gaps = [attrs.evolve(journal.gaps[0], cuts=cuts)]
    failure = attrs.evolve(failed_at(19.0), took_ms=took_ms, kind=kind)
    found = judge(attrs.evolve(evidence(journal, 19.0), failures=[failure]))

    assert (1 - excused, excused) == (found.failed, found.reload_failed)


def test_failures_that_were_not_kept_count_all_the_same() -> None:
    """The load generator's count stands, also for failures without details."""
    found = attrs.evolve(evidence(busy_journal(), 20.5), figures=Figures(200, failed=7))

    assert 6 == judge(found).failed


@pytest.mark.parametrize(("count", "expected"), STEPS)
def test_each_minimum_is_asked_for(count: str, expected: str) -> None:
    """A run in which one thing did not happen proves nothing, and says which."""
    journal = busy_journal()
    del journal.counts[count]

    found = verdict(journal)

    assert ([expected], False) == (found.missing, found.succeeded)


def test_what_is_missing_is_named_by_driver() -> None:
    """Envoy is restarted, not reloaded."""
    envoy = attrs.evolve(LEAST, driver="envoy", reloads=2)

    assert ["1 restarts of Envoy of 2"] == shortfalls(
        envoy, Figures(200), busy_journal()
    )


@pytest.mark.parametrize("name", ["controller", "deregistrar"])
def test_kills_of_each_process_are_asked_for(name: str) -> None:
    """Replicas of a process count together, and not for another one."""
    journal = busy_journal()
    journal.kills = [kill for kill in journal.kills if not kill[1].startswith(name)]

    assert [f"0 kills of the {name} of 2"] == verdict(journal).missing


def test_pod_that_ends_too_early_spoils_the_demo() -> None:
    """With gates SIGTERM must not come before the record is gone; without, it does."""
    found = attrs.evolve(evidence(busy_journal()), lags=Lags(early=("p1",)))

    assert ["SIGTERM while a record names the pod: p1"] == judge(found).missing
    assert judge(attrs.evolve(found, gates=False)).succeeded


def test_too_few_requests_are_a_shortfall() -> None:
    """Few requests cannot fail."""
    assert ["99 requests of 100"] == shortfalls(LEAST, Figures(99), busy_journal())


def test_protocols_are_told_apart() -> None:
    """Each with its requests, what failed of them, and what a restart excuses."""
    stream = attrs.evolve(failed_at(13.0), protocol="grpc")
    failures = [stream, attrs.evolve(stream, sent=20.5), failed_at(20.5)]
    sent = Figures(200, failed=3, protocols={"http1": 150, "grpc": 50})
    whole = attrs.evolve(evidence(busy_journal()), figures=sent, failures=failures)

    assert {"http1": Share(150, 0, 1), "grpc": Share(50, 1, 1)} == judge(
        whole
    ).protocols


def test_too_little_of_a_protocol_is_a_shortfall() -> None:
    """Where the load balancer speaks it; else nobody asks for it."""
    least = attrs.evolve(LEAST, protocols={"grpc": 2})

    assert ["1 requests over grpc of 2"] == shortfalls(
        least, Figures(200, protocols={"grpc": 1}), busy_journal()
    )
    assert {} == minima(Options()).protocols
    assert {"http2", "grpc"} == set(minima(Options(driver="envoy")).protocols)


def test_a_trouble_spoils_the_demo() -> None:
    """What must not happen is in the verdict though no request failed."""
    journal = busy_journal()
    journal.trouble("members stay")

    assert (["members stay"], False) == (
        verdict(journal).missing,
        verdict(journal).succeeded,
    )


def test_leader_may_end_after_the_kill_of_the_api_server() -> None:
    """It cannot renew its Lease; whoever else ends by itself is a trouble."""
    journal = busy_journal()
    journal.killed(API_SERVER)
    journal.ended("deregistrar-1 ended")
    before = list(journal.troubles)
    journal.kills.clear()
    journal.ended("controller ended")

    assert ([], ["controller ended"]) == (before, journal.troubles)


def test_a_foreign_cluster_without_a_named_node_needs_no_node_drain() -> None:
    """Nodes of other people are drained only where they are named."""
    assert 0 == minima(Options(foreign=True)).node_drains
    assert 1 == minima(Options(foreign=True, drain_nodes=("n1",))).node_drains
    assert 1 == minima(Options()).node_drains


def test_campaign_needs_what_it_is_for() -> None:
    """Without it nobody's eviction, outage or API server is asked for."""
    plain, found = minima(Options()), minima(Options(campaign=True))

    assert (0, 0, 0) == (plain.evictions, plain.outages, plain.kills[API_SERVER])
    assert (1, 1, 1) == (found.evictions, found.outages, found.kills[API_SERVER])


def test_renders_what_was_promised() -> None:
    """The JSON object has the fields that scripts read."""
    fields = render(verdict(busy_journal(), 20.5))

    assert {
        "requests": 200,
        "failed": 0,
        "rollouts": 1,
        "kills": 4,
        "reload_gap_ms": 1500.0,
        "lifecycles": 2,
        "api_writes_per_lifecycle": 4.5,
        "drains_waited": 1,
        "p99_ms": 0.0,
        "ok": True,
    }.items() <= fields.items()


def test_a_step_that_fails_does_not_count() -> None:
    """Only steps that came to their end are counted."""
    journal = Journal()

    with pytest.raises(ValueError, match="no"), journal.step("rollout", "roll"):
        raise ValueError("no")

    assert 0 == journal.counts["rollout"]
    assert ["roll"] == [span.name for span in journal.steps]
