"""Lags are counted from the audit log, and none is taken for less than it was."""

from tests.lab.cluster import AuditEvent
from tests.lab.demo.lags import gate_lags, percentile_ms, sigterm_lags


def event(second: int, resource: str, name: str, code: int = 200) -> AuditEvent:
    """A patch that came in at this second of a minute; writes of records take 0.25 s more."""
    came = f"2026-01-01T00:00:{second:02}"
    answered = (
        f"{came}.250000Z" if resource.startswith("backend") else f"{came}.000000Z"
    )
    return AuditEvent(
        *("u", "a", "patch", "g", resource, "n", name),
        code,
        f"{came}.000000Z",
        answered,
    )


START = 1767225600.0  # 2026-01-01 in seconds since 1970


def test_gate_counts_from_the_last_registered_before_it() -> None:
    """Writes that were refused, or that come after the gate, do not count."""
    events = [
        event(1, "backendrecords/status", "a-p1"),
        event(2, "backendrecords/status", "b-p1"),
        event(3, "pods/status", "p1", 409),
        event(5, "pods/status", "p1"),
        event(6, "backendrecords/status", "a-p1"),
        event(7, "pods/status", "p1"),
        event(8, "pods/status", "stranger"),
    ]

    assert {"p1": 2.75} == gate_lags(events, lambda record: record.partition("-")[2])


def test_sigterm_counts_from_the_end_of_the_last_record() -> None:
    """The last write of a record is its end; a pod without a record has no lag."""
    events = [
        event(1, "backendrecords", "a-p1"),
        event(2, "backendrecords/status", "b-p1"),
        event(3, "backendrecords", "b-p1"),
        event(9, "backendrecords", "b-p1", 409),
    ]
    told = {"p1": START + 3.5, "p2": START + 4.0}

    found = sigterm_lags(events, {"a-p1": "p1", "b-p1": "p1", "c-p2": "p2"}, [], told)

    assert {"p1": 0.5} == found


def test_sigterm_is_early_while_a_record_is_there() -> None:
    """Also where an older record of the pod has ended."""
    events = [event(1, "backendrecords", "a-p1")]
    owners = {"a-p1": "p1", "b-p1": "p1"}

    assert sigterm_lags(events, owners, ["b-p1"], {"p1": START + 9.0})["p1"] < 0


def test_percentile_is_the_worst_of_few() -> None:
    """Of a hundred the ninety-ninth, of fewer the last."""
    assert percentile_ms([]) is None
    assert 20.0 == percentile_ms([0.01, 0.02])
    assert 990.0 == percentile_ms([number / 100 for number in range(1, 101)])
