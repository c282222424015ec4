"""What a run of Services may cost, and which addresses count as given twice."""

import pytest

from tests.lab.services.verdict import Cost, bounds, cost_of, taken


ROLLED = {
    "create backendrecords": 100,
    "patch backendrecords/status": 100,
    "delete backendrecords": 100,
    "patch backendrecords": 100,
    "create events": 900,
}
MADE = {"create backendrecords": 100, "patch backendrecords/status": 200}
DELETED = {"patch backendrecords": 100, "patch services/status": 30}


def test_writes_are_counted_by_what_they_are_to() -> None:
    """Status is part of the object; Events are apart, and so is all that is derived."""
    writes = {
        **ROLLED,
        "create loadbalancers": 3,
        "patch backendgroups/status": 4,
        "patch services": 5,
    }

    assert Cost(records=400, derived=12, events=900) == cost_of(writes)


@pytest.mark.parametrize(
    ("more", "kills", "broken"),
    [
        pytest.param({}, 0, [], id="as it should be"),
        pytest.param({"patch backendrecords": 11}, 0, ["the roll"], id="one in ten"),
        pytest.param({"patch backendrecords": 11}, 1, [], id="after a kill"),
        pytest.param(
            {"patch backendrecords": 300},
            0,
            ["the roll", "record's life"],
            id="far too many",
        ),
        pytest.param({"patch services/status": 800}, 0, ["a Service's"], id="derived"),
        pytest.param({"create events": 9000}, 0, [], id="Events"),
    ],
)
def test_what_costs_too_much(
    more: dict[str, int], kills: int, broken: list[str]
) -> None:
    """100 pods of 25 Services, rolled; each bound is broken by what it is about."""
    rolled = {name: count + more.get(name, 0) for name, count in ROLLED.items()}
    rolled |= {name: more[name] for name in more.keys() - ROLLED.keys()}
    phases = {"made": MADE, "rolled": rolled, "deleted": DELETED}

    found = [one.what for one in bounds(phases, 25, 100, kills) if not one.holds]

    assert len(broken) == len(found)
    for word, told in zip(broken, found, strict=True):
        assert word in told


@pytest.mark.parametrize(
    ("lines", "twice"),
    [
        pytest.param(["ADDED a", "MODIFIED a 10.0.0.1"], [], id="one"),
        pytest.param(
            ["ADDED a 10.0.0.1", "ADDED b 10.0.0.1"], ["10.0.0.1 of a and b"], id="both"
        ),
        pytest.param(
            ["ADDED a 10.0.0.1", "ADDED b 10.0.0.1", "MODIFIED b 10.0.0.2"],
            ["10.0.0.1 of a and b"],
            id="for a moment",
        ),
        pytest.param(["ADDED a 10.0.0.1", "MODIFIED a 10.0.0.1"], [], id="told again"),
        pytest.param(
            ["ADDED a 10.0.0.1", "DELETED a 10.0.0.1", "ADDED b 10.0.0.1"],
            [],
            id="gone",
        ),
        pytest.param(
            ["ADDED a 10.0.0.1", "MODIFIED a", "ADDED b 10.0.0.1"], [], id="given back"
        ),
    ],
)
def test_an_address_of_two_at_any_moment(lines: list[str], twice: list[str]) -> None:
    """One that is given back may be another's afterwards."""
    assert twice == taken(lines).twice
