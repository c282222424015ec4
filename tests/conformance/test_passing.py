"""Drivers that keep to the protocol pass, each with the rules that are about it."""

from datetime import timedelta
from typing import cast

import attrs
import msgspec
import pytest

from lbcf.conformance.bench import Bench, Rule
from lbcf.conformance.findings import Outcome
from lbcf.conformance.kit import CATALOGUE, Unreachable, examine
from lbcf.conformance.target import Target
from lbcf.core.model.operations import Operation
from lbcf.core.model.values import MemberKey
from lbcf.runtime.clock import SystemClock
from tests.conformance.plain import PlainLbcfDriver
from tests.conformance.stages import (
    LB,
    HastyClock,
    Json,
    Twist,
    a_target,
    complaints,
    decoded,
    ended,
    results_of,
    serving,
)
from webhooks.memory import MemoryDriver


EVERY_RULE = {rule.name for rule in CATALOGUE}


@pytest.mark.parametrize("member_key", MemberKey)
async def test_the_memory_driver_passes(member_key: MemberKey) -> None:
    """It serves all operations, and takes anything for an address."""
    async with a_target(
        lambda: MemoryDriver(member_key), member_key=member_key
    ) as target:
        results = await results_of(target)

    skipped = {"lock-key-is-steady"}
    if member_key is not MemberKey.RECORD:
        skipped |= {"records-share-an-address", "deregister-by-name-alone"}
    assert {"invalid-addresses"} == ended(results, Outcome.NOTED)
    assert skipped == ended(results, Outcome.NOT_APPLICABLE)
    assert EVERY_RULE - skipped - {"invalid-addresses"} == ended(
        results, Outcome.PASSED
    )


async def test_answers_in_other_letter_case_pass() -> None:
    """Field names are taken in any, as the controller takes them, in batches, too."""
    async with a_target(MemoryDriver, Twist(answer=in_capitals)) as target:
        results = await results_of(target)

    found = complaints(results)
    assert {"invalid-addresses"} == set(found)
    assert any(line.startswith("answer:") for line in found["invalid-addresses"])
    assert Outcome.PASSED is results["batch-items-have-results"].outcome


def in_capitals(_name: str, body: bytes) -> bytes:
    """Begin the protocol's field names with capital letters; whole objects keep theirs."""
    said = _capitalized(decoded(body))
    for name in {"Results", "Backends"} & said.keys():
        said[name] = [_capitalized(one) for one in cast("list[Json]", said[name])]
    return msgspec.json.encode(said)


def _capitalized(fields: Json) -> Json:
    return {name[0].upper() + name[1:]: value for name, value in fields.items()}


async def test_members_go_where_the_kit_itself_fails() -> None:
    """Nobody else would take them out of a real load balancer."""

    async def fail(bench: Bench) -> None:
        """Register a member, and be wrong."""
        await bench.ensure(bench.member())
        raise KeyError("results")

    driver = MemoryDriver()
    wrong = Rule("wrong", "It is wrong.", "docs/protocol.md", (), fail)
    async with a_target(lambda: driver) as target:
        with pytest.raises(KeyError, match="results"):
            await examine(target, HastyClock(), [wrong])

    assert [] == list(driver.members)


async def test_a_plain_lbcf_driver_passes() -> None:
    """It is asked for nothing that LBCF does not know; what it lacks is noted only."""
    driver = PlainLbcfDriver()
    async with serving(driver.application) as served:
        target = Target(url=served.url, lb_spec=LB, restart=served.restart)
        results = await results_of(target)

    noted = {"both-spellings", "invalid-addresses", "late-calls", "malformed-requests"}
    assert set() == ended(results, Outcome.FAILED)
    assert noted == ended(results, Outcome.NOTED)
    assert set() == driver.members
    assert {rule.name for rule in CATALOGUE if rule.needs} | {
        "records-share-an-address",
        "deregister-by-name-alone",
        "drain-waits-for-connections",
        "lock-key-is-steady",
    } == ended(results, Outcome.NOT_APPLICABLE)


async def test_what_is_declared_must_be_served() -> None:
    """A plain driver that is declared to drain fails."""
    async with serving(PlainLbcfDriver().application) as served:
        target = Target(
            url=served.url, lb_spec=LB, declared=frozenset({Operation.DRAIN_BACKEND})
        )
        results = await results_of(target)

    assert {"valid-answers"} == ended(results, Outcome.FAILED)
    assert "HTTP 404" in results["valid-answers"].text
    assert "presumes valid-answers" in results["drain-unknown"].text


async def test_nobody_there() -> None:
    """A URL at which nobody answers is told as such, not as broken rules."""
    async with serving(PlainLbcfDriver().application) as served:
        url = served.url

    with pytest.raises(Unreachable, match="no driver at"):
        await examine(Target(url=url), HastyClock())


async def test_few_addresses_are_enough_for_few_rules() -> None:
    """Rules that need more addresses than were given say so, and do not fail."""
    async with a_target(MemoryDriver) as target:
        few = attrs.evolve(target, addresses=("198.18.0.1:80",))
        results = await results_of(few)

    assert set() == ended(results, Outcome.FAILED)
    assert "--address" in results["others-stay"].text


async def test_a_driver_that_never_answers() -> None:
    """A call that takes too long is what the rule tells."""

    class Silent(MemoryDriver):
        """Never says how it is."""

        async def healthz(self) -> bool:
            """Take for ever."""
            await HastyClock().sleep(timedelta(hours=1))
            return True

    rules = [rule for rule in CATALOGUE if rule.name == "healthz"]
    async with a_target(Silent) as target:
        quick = attrs.evolve(target, timeout=timedelta(milliseconds=200))
        with pytest.raises(Unreachable, match="no whole answer within"):
            await examine(quick, HastyClock(), rules)


@pytest.mark.parametrize("slow", ["ensureBackends", "ensureBackend"])
async def test_calls_that_take_a_while_on_their_way(slow: str) -> None:
    """The kit does not send two calls so close together that the second may come first."""
    rules = [rule for rule in CATALOGUE if rule.name == "batch-in-order"]
    async with a_target(MemoryDriver, Twist(slow=slow, seconds=0.002)) as target:
        results = await examine(target, SystemClock(), rules)

    assert [(Outcome.PASSED, "")] == [(one.outcome, one.text) for one in results]
