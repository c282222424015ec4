"""Runs the rules against a driver, one after the other, and says how each ended.

Before it: `lbcf.conformance.command` or the pytest plugin, with a target. After it:
`lbcf.conformance.report`.
"""

from collections.abc import Callable, Sequence

import attrs

from lbcf.conformance import (
    balancers,
    crashes,
    draining,
    members,
    messages,
    order,
    tasks,
)
from lbcf.conformance.bench import Bench
from lbcf.conformance.findings import (
    Broken,
    Exchange,
    Finding,
    NotApplicable,
    Outcome,
)
from lbcf.conformance.line import Line
from lbcf.conformance.rules import Rule
from lbcf.conformance.target import Target
from lbcf.core.errors import LbcfError
from lbcf.core.model.operations import Operation
from lbcf.runtime.clock import Clock
from lbcf.wire.driver_answers import CreateLoadBalancerAnswer


CATALOGUE: Sequence[Rule] = (
    *balancers.RULES,
    *members.RULES,
    *draining.RULES,
    *messages.RULES,
    *order.RULES,
    *tasks.RULES,
    *crashes.RULES,
)
"""All rules, in the order in which they are run; the crash comes last."""


class Unreachable(LbcfError):  # noqa: N818  (it says what happened)
    """Nobody answers at the URL."""


@attrs.frozen
class Result:
    """How one rule ended.

    Attributes:
        rule: which one.
        outcome: how.
        text: what was seen; empty where it passed.
        exchange: what showed it, if anything was sent.
        exchanges: all that was said for the rule.
        seconds: how long it took.
    """

    rule: Rule
    outcome: Outcome
    text: str = ""
    exchange: Exchange | None = None
    exchanges: Sequence[Exchange] = ()
    seconds: float = 0.0


async def examine(
    target: Target,
    clock: Clock,
    rules: Sequence[Rule] = CATALOGUE,
    told: Callable[[Result], None] = lambda _result: None,
) -> list[Result]:
    """Run the rules; `told` hears of each result at once.

    Raises:
        Unreachable: the driver cannot be connected to at all.
    """
    lb_info = await identity(target, clock)
    results = []
    for rule in rules:
        result = await _examined(target, clock, rule, lb_info)
        told(result)
        results.append(result)
    return results


async def identity(target: Target, clock: Clock) -> dict[str, str]:
    """Create the load balancer, or find it; a driver that cannot is told by its rule.

    Raises:
        Unreachable: the driver cannot be connected to at all.
    """
    spec = dict(target.lb_spec)
    async with Line(target, clock) as line:
        bench = Bench(target, line, clock, spec, "identity")
        first = await bench.exchange(Operation.HEALTHZ, {})
        if first.status is None:
            raise Unreachable(f"no driver at {target.url}: {first.trouble}")
        fields = {"recordID": bench.new_id(), "lbSpec": spec, "attributes": {}}
        try:
            answer = await bench.settle(Operation.CREATE_LOAD_BALANCER, fields)
        except Finding:
            return spec
    given = answer.lb_info if isinstance(answer, CreateLoadBalancerAnswer) else {}
    return given or spec


async def _examined(
    target: Target, clock: Clock, rule: Rule, lb_info: dict[str, str]
) -> Result:
    """Run one rule on connections of its own, and clear up after it."""
    began = clock.monotonic()
    async with Line(target, clock) as line:
        bench = Bench(target, line, clock, lb_info, rule.name)
        finding = await _finding(bench, rule)
        exchanges = tuple(line.exchanges)
        await bench.clear()
    return Result(
        rule,
        Outcome.PASSED if finding is None else finding.outcome,
        "" if finding is None else finding.text,
        None if finding is None else finding.exchange,
        exchanges,
        clock.monotonic() - began,
    )


async def _finding(bench: Bench, rule: Rule) -> Finding | None:
    """Return what the rule found; None: it is kept."""
    missing = [one for one in rule.needs if bench.target.lacks(one)]
    if missing:
        return NotApplicable(f"needs {' and '.join(missing)}, not declared")
    try:
        await rule.check(bench)
    except Finding as finding:
        return finding
    except OSError as error:
        return Broken(f"a command of the kit failed: {error}")
    return None
