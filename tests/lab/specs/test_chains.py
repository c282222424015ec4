"""What is drawn covers the schemas, is drawn alike again, and is written down whole."""

import json

import pytest

from tests.lab.specs.chains import (
    SCENARIOS,
    Chain,
    Deed,
    Step,
    after,
    chains,
    first,
    meets_others,
    merge,
    of_json,
    to_json,
)
from tests.lab.specs.schemas import KINDS, fields
from tests.manifests.documents import samples
from tests.manifests.paths import has


def test_every_writable_field_is_among_those_drawn() -> None:
    """The samples hold every field of the schemas."""
    for kind in KINDS:
        known = {".".join(field.path).replace(".[]", "[]") for field in fields(kind)}
        found = [s for key, s in samples().items() if key.startswith(f"{kind} ")]
        whole = {p for p in known if "{}" not in p and any(has(s, p) for s in found)}
        assert whole == {path for path in known if "{}" not in path}, kind


def test_every_kind_is_in_a_scenario() -> None:
    """Else none of its fields would be changed."""
    played = {t.partition("/")[0] for targets in SCENARIOS.values() for t in targets}

    assert set(KINDS) <= played


def test_one_seed_draws_one_campaign() -> None:
    """A run that failed can be had again."""
    drawn = list(chains(7, 96))

    assert drawn == list(chains(7, 96))
    assert drawn != list(chains(8, 96))
    assert drawn == [of_json(json.loads(json.dumps(to_json(one)))) for one in drawn]


def test_step_makes_what_it_needs_and_changes_one_object() -> None:
    """A value goes where its path leads; None takes the field out."""
    state = first("groups")
    target = "BackendGroup/web"
    path = ("spec", "pods", "ports", 1, "port")
    new = after(state, Step(Deed.SET, target, path, 81), "groups")

    assert [{"port": 80}, {"port": 81}] == new[target]["spec"]["pods"]["ports"]
    assert {target} == {key for key in new if new[key] != state[key]}
    assert state == first("groups")
    out = after(
        new, Step(Deed.SET, target, ("spec", "pods", "byLabel"), None), "groups"
    )
    assert {"ports"} == set(out[target]["spec"]["pods"])
    gone = after(state, Step(Deed.DELETE, target), "groups")
    assert target not in gone
    assert state == after(gone, Step(Deed.CREATE, target), "groups")


def test_patch_takes_out_what_is_not_meant_any_more() -> None:
    """RFC 7386: null takes a field out, lists are replaced whole."""
    old = {"a": {"b": 1, "c": 2}, "d": [1], "e": 0}

    assert {"a": {"c": None}, "d": [2], "f": 3, "e": None} == merge(
        old, {"a": {"b": 1}, "d": [2], "f": 3}
    )


@pytest.mark.parametrize(
    ("target", "path", "value", "expected"),
    [
        ("LoadBalancerClass/edge", ("spec", "default"), True, True),
        ("LoadBalancerClass/edge", ("spec", "default"), False, False),
        ("Service/np", ("spec", "type"), "LoadBalancer", True),
        ("Service/np", ("spec", "type"), "ClusterIP", False),
        ("BackendGroup/web", ("spec", "default"), True, False),
    ],
)
def test_chain_that_meets_others(
    target: str, path: tuple[str, ...], value: object, *, expected: bool
) -> None:
    """A default class takes Services of all namespaces."""
    chain = Chain("service", (Step(Deed.BACK), Step(Deed.SET, target, path, value)))

    assert expected is meets_others(chain)
