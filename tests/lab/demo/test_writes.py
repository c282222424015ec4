"""Writes per lifecycle are counted from the audit log, for finished records alone."""

from tests.lab.cluster import AuditEvent
from tests.lab.demo.writes import count_writes


USERS = ("controller", "deregistrar")


def event(
    verb: str,
    resource: str = "backendrecords",
    *,
    user: str = "controller",
    name: str = "r1",
    code: int = 200,
) -> AuditEvent:
    """One line of the audit log."""
    return AuditEvent(
        user=user,
        agent="test",
        verb=verb,
        group="lbcf.tkestack.io",
        resource=resource,
        namespace="demo",
        name=name,
        code=code,
        time="2026-01-01T00:00:00Z",
    )


def life(name: str = "r1") -> list[AuditEvent]:
    """A whole life: four writes by two processes."""
    return [
        event("create", name=name, code=201),
        event("patch", "backendrecords/status", name=name),
        event("delete", name=name),
        event("patch", name=name, user="deregistrar"),
    ]


def test_a_plain_life_has_four_writes() -> None:
    """Create, Registered, delete and finalizer are told apart."""
    writes = count_writes(life(), USERS, ["r1"])

    assert 4.0 == writes.per_lifecycle
    expected = {
        "controller create": 1,
        "controller patch status": 1,
        "controller delete": 1,
        "deregistrar patch": 1,
    }
    assert expected == writes.records


def test_half_lives_do_not_count() -> None:
    """Writes to records that still exist are in neither part of the division."""
    writes = count_writes([*life(), *life("r2")[:2]], USERS, ["r1"])

    assert (1, 4.0) == (writes.lifecycles, writes.per_lifecycle)


def test_two_lives_under_one_name_are_two() -> None:
    """A name that was used twice is two lifecycles."""
    writes = count_writes([*life(), *life()], USERS, ["r1", "r1"])

    assert (2, 4.0) == (writes.lifecycles, writes.per_lifecycle)


def test_refused_writes_are_counted_apart() -> None:
    """A conflict costs a request, but it is no write."""
    conflict = event("patch", "backendrecords/status", code=409)

    writes = count_writes([*life(), conflict], USERS, ["r1"])

    assert (1, 4.0) == (writes.refused, writes.per_lifecycle)


def test_other_objects_are_counted_apart() -> None:
    """Leases, events and the status of other kinds have figures of their own."""
    others = [
        event("update", "leases"),
        event("create", "events"),
        event("patch", "backendgroups/status"),
    ]

    writes = count_writes([*life(), *others], USERS, ["r1"])

    assert {"leases": 1, "events": 1, "other": 1} == writes.elsewhere
    assert 4.0 == writes.per_lifecycle


def test_strangers_and_reads_do_not_count() -> None:
    """Only writes of the named users are counted."""
    noise = [event("delete", user="garbage-collector"), event("get"), event("watch")]

    writes = count_writes([*life(), *noise], USERS, ["r1"])

    assert 4.0 == writes.per_lifecycle


def test_no_life_is_no_division() -> None:
    """Without a finished record the figure is 0."""
    assert 0.0 == count_writes(life(), USERS, []).per_lifecycle
