"""Runs the rules against a driver, one after the other, and returns how each ended."""

from collections.abc import Callable, Mapping, Sequence

import attrs

from lbcf.conformance import backends, batches, concurrency, load_balancers, messages
from lbcf.conformance.bench import Bench, Rule
from lbcf.conformance.client import RecordingClient
from lbcf.conformance.findings import Broken, Exchange, Finding, NotApplicable, Outcome
from lbcf.conformance.flags import WrongFlag
from lbcf.conformance.target import Target
from lbcf.core.errors import LbcfError
from lbcf.core.model.operations import Operation
from lbcf.runtime.clock import Clock
from lbcf.wire.driver_answers import CreateLoadBalancerAnswer


def _in_order(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules as they are written, each behind those that it presumes."""
    by_name = {rule.name: rule for rule in rules}
    placed: dict[str, Rule] = {}

    def place(rule: Rule) -> None:
        for name in rule.presumes:
            place(by_name[name])
        placed.setdefault(rule.name, rule)

    for rule in rules:
        place(rule)
    return tuple(placed.values())


CATALOGUE: Sequence[Rule] = _in_order(
    [
        found
        for module in (load_balancers, backends, messages, concurrency, batches)
        for found in vars(module).values()
        if isinstance(found, Rule)
    ]
)
"""All rules, in the order in which they are run: what a rule presumes comes before it."""


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
        exchanges: all of the rule.
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
    on_result: Callable[[Result], None] = lambda _result: None,
    causes: dict[str, str] | None = None,
) -> list[Result]:
    """Run the rules; `on_result` is called with each result at once.

    A rule that presumes one of these that failed is not run: one cause is one failure.
    `causes` has those rules and what failed, also of other runs on the same driver.

    Raises:
        Unreachable: the driver cannot be connected to at all.
        WrongFlag: what shall be a load balancer that is gone is the one that is used.
    """
    lb_info = await load_balancer_identity(target, clock)
    results: list[Result] = []
    causes = {} if causes is None else causes
    for rule in rules:
        cause = next((causes[name] for name in rule.presumes if name in causes), None)
        if cause is None:
            result = await _run_rule(target, clock, rule, lb_info)
        else:
            text = f"not looked at: it presumes {cause}, which failed"
            result = Result(rule, Outcome.NOT_APPLICABLE, text)
        if cause is not None or result.outcome is Outcome.FAILED:
            causes[rule.name] = cause or rule.name
        on_result(result)
        results.append(result)
    return results


async def load_balancer_identity(target: Target, clock: Clock) -> dict[str, str]:
    """Create the load balancer, or find it; return its lbInfo, else its lbSpec.

    Raises:
        Unreachable: the driver cannot be connected to at all.
        WrongFlag: as `examine` says.
    """
    spec = dict(target.lb_spec)
    async with RecordingClient(target, clock) as client:
        bench = Bench(target, client, clock, spec, "identity")
        first = await bench.send(Operation.HEALTHZ, {})
        if first.status is None:
            raise Unreachable(f"no driver at {target.url}: {first.trouble}")
        fields = {"recordID": bench.new_id(), "lbSpec": spec, "attributes": {}}
        try:
            answer = await bench.call_until_success(
                Operation.CREATE_LOAD_BALANCER, fields
            )
        except Finding:
            return spec  # a rule of its own reports it
    given = answer.lb_info if isinstance(answer, CreateLoadBalancerAnswer) else {}
    _check_gone(target.gone, given or spec)
    return given or spec


def _check_gone(gone: Mapping[str, str], lb_info: Mapping[str, str]) -> None:
    """Refuse what does not make another identity: the load balancer would be deleted.

    Raises:
        WrongFlag: a driver would skip the key, or the value is that of the load balancer.
    """
    if strange := sorted(gone.keys() - lb_info.keys()):
        known = ", ".join(sorted(lb_info)) or "no key"
        text = f"the lbInfo of this driver has {known:.200}, not this key"
        raise WrongFlag(f"--gone-lb {strange[0]!r:.60}: {text}")
    if gone and gone.items() <= lb_info.items():
        named = ", ".join(f"{key}={value!r:.60}" for key, value in gone.items())
        raise WrongFlag(f"--gone-lb: lbInfo {named} is the load balancer that is used")


async def _run_rule(
    target: Target, clock: Clock, rule: Rule, lb_info: dict[str, str]
) -> Result:
    """Run one rule on connections of its own, and clean up after it."""
    began = clock.monotonic()
    async with RecordingClient(target, clock) as client:
        bench = Bench(target, client, clock, lb_info, rule.name)
        try:
            finding = await _finding(bench, rule)
            exchanges = tuple(client.exchanges)
        finally:
            # Also where the kit itself is wrong, or ended: members are at a real load balancer.
            await bench.clean_up()
    seconds = clock.monotonic() - began
    if finding is None:
        return Result(rule, Outcome.PASSED, exchanges=exchanges, seconds=seconds)
    return Result(
        rule, finding.outcome, finding.text, finding.exchange, exchanges, seconds
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
