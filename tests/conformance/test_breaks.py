"""Drivers that do one thing wrong: the kit finds it, and names the rule."""

import pytest

from lbcf.conformance.findings import Outcome
from lbcf.conformance.kit import CATALOGUE, examine
from tests.conformance.breaks import BREAKS, Break
from tests.conformance.stages import HastyClock, a_target, ended, results_of


TIMES = 10
"""How often what depends on timing is tried."""
TIMED = [one for one in BREAKS if one.is_timed]


@pytest.mark.parametrize("broken", [pytest.param(one, id=one.name) for one in BREAKS])
async def test_breaks_are_found_and_named(broken: Break) -> None:
    """The rule that is about the break fails, and all rules that fail are expected."""
    async with a_target(broken.maker(), broken.twist, broken.member_key) as target:
        results = await results_of(target)

    failed = ended(results, Outcome.FAILED)
    assert set(broken.rules) == failed
    assert results[broken.rules[0]].exchange is not None


@pytest.mark.parametrize("time", range(TIMES))
@pytest.mark.parametrize("broken", [pytest.param(one, id=one.name) for one in TIMED])
async def test_breaks_that_depend_on_timing_are_found_each_time(
    broken: Break, time: int
) -> None:
    """No break of these hides behind a lucky order; asked by their own rules alone."""
    rules = [rule for rule in CATALOGUE if rule.name in broken.rules]
    async with a_target(broken.maker(), broken.twist, broken.member_key) as target:
        results = await examine(target, HastyClock(), rules)

    held = [one.rule.name for one in results if one.outcome is not Outcome.FAILED]
    assert [] == held, f"time {time} of {TIMES}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("takes anything", "answered Succ to text that is no JSON"),
        ("takes what names no record", "answered Succ to a request without recordID"),
    ],
)
async def test_what_is_malformed_is_told(name: str, said: str) -> None:
    """An author need not compare bodies."""
    (broken,) = [one for one in BREAKS if one.name == name]
    rules = [rule for rule in CATALOGUE if rule.name == "malformed-requests"]
    async with a_target(broken.maker(), broken.twist) as target:
        (result,) = await examine(target, HastyClock(), rules)

    assert said in result.text


@pytest.mark.parametrize("broken", [pytest.param(one, id=one.name) for one in BREAKS])
def test_nothing_of_a_load_balancer_outlives_its_test(broken: Break) -> None:
    """In whatever order tests run, one finds no members of another."""
    assert broken.maker()().members is not broken.maker()().members


def test_every_rule_has_its_break() -> None:
    """No rule is there that was never seen failing; one is advice only."""
    broken = {one.rules[0] for one in BREAKS} | {"valid-backend"}
    assert {"invalid-addresses"} == {rule.name for rule in CATALOGUE} - broken
