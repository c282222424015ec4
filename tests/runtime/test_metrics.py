"""The registry: names that dashboards know, and nothing that doubles the series."""

from lbcf.runtime.metrics import Metrics
from lbcf.runtime.queue import WorkQueue
from tests.fakes.clock import VirtualClock


def families(metrics: Metrics) -> dict[str, str]:
    """Read name and type of each family from the page."""
    words = [line.split() for line in metrics.render().decode().splitlines()]
    return {word[2]: word[3] for word in words if word[:2] == ["#", "TYPE"]}


def test_queue_has_the_names_of_client_go() -> None:
    """Names and types are those of k8s.io/component-base."""
    found = families(Metrics())

    assert {
        "workqueue_depth": "gauge",
        "workqueue_adds_total": "counter",
        "workqueue_queue_duration_seconds": "histogram",
        "workqueue_work_duration_seconds": "histogram",
        "workqueue_retries_total": "counter",
        "workqueue_unfinished_work_seconds": "gauge",
        "workqueue_longest_running_processor_seconds": "gauge",
    } == {name: kind for name, kind in found.items() if name.startswith("workqueue")}


def test_every_series_of_a_queue_exists_from_the_start() -> None:
    """A queue that did nothing yet shows zeros: a rate needs a first sample."""
    metrics = Metrics()
    WorkQueue[str]("records", VirtualClock(), metrics)
    page = metrics.render().decode()

    assert 7 == sum(
        f'{name}{{name="records"}} 0.0' in page
        for name in (
            "workqueue_depth",
            "workqueue_adds_total",
            "workqueue_queue_duration_seconds_count",
            "workqueue_work_duration_seconds_count",
            "workqueue_retries_total",
            "workqueue_unfinished_work_seconds",
            "workqueue_longest_running_processor_seconds",
        )
    )


def test_no_series_tells_when_it_was_made() -> None:
    """The library's `_created` twins are off."""
    metrics = Metrics()
    WorkQueue[str]("records", VirtualClock(), metrics)

    assert "_created" not in metrics.render().decode()


def test_leader_status_follows_the_lease() -> None:
    """1 while leading, 0 after."""
    metrics = Metrics()
    seen = []
    for leading in (True, False):
        metrics.set_leader("lbcf", leading=leading)
        seen.append(
            metrics.registry.get_sample_value(
                "leader_election_master_status", {"name": "lbcf"}
            )
        )

    assert [1, 0] == seen


def test_process_has_its_usual_series() -> None:
    """Memory and CPU of the process are in the same page."""
    assert "process_resident_memory_bytes" in families(Metrics())


def test_two_registries_do_not_meet() -> None:
    """Two processes' parts in one test run may have queues of the same name."""
    for _ in range(2):
        metrics = Metrics()
        WorkQueue[str]("records", VirtualClock(), metrics).add("a")

        assert 1 == metrics.registry.get_sample_value(
            "workqueue_adds_total", {"name": "records"}
        )
