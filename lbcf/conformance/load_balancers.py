"""Rules on load balancers, on validation, and on the driver itself."""

import contextlib

from collections.abc import Iterator, Mapping

from lbcf.conformance.bench import (
    ANSWERED,
    BOTH_SIDES,
    LIST,
    LOCK_KEY,
    OPERATIONS,
    REGISTERED,
    Bench,
    rule,
)
from lbcf.conformance.concurrency import restart
from lbcf.conformance.findings import Broken, NotApplicable, Noted
from lbcf.core.model.operations import Operation
from lbcf.wire.driver_answers import (
    CreateLoadBalancerAnswer,
    EnsureLoadBalancerAnswer,
    HealthzAnswer,
    JudgePodDeregisterAnswer,
    ValidationAnswer,
)


@rule(OPERATIONS, presumes=ANSWERED)
async def healthz(bench: Bench) -> None:
    """Healthz answers whether the driver can serve; this one can."""
    answer = await bench.call(Operation.HEALTHZ, {})
    is_healthy = isinstance(answer, HealthzAnswer) and answer.healthy
    bench.expect(
        is_healthy, f"healthz says that it is not healthy: {answer.msg!r:.120}"
    )


@rule(BOTH_SIDES, presumes=ANSWERED)
async def create_twice(bench: Bench) -> None:
    """Creating a load balancer again is Succ and gives the same identity and ingress."""
    fields = {
        "recordID": bench.new_id(),
        "lbSpec": dict(bench.target.lb_spec),
        "attributes": {},
    }
    first = await bench.call_until_success(Operation.CREATE_LOAD_BALANCER, fields)
    second = await bench.call_until_success(Operation.CREATE_LOAD_BALANCER, fields)
    before, after = (
        one.lb_info if isinstance(one, CreateLoadBalancerAnswer) else {}
        for one in (first, second)
    )
    bench.expect(
        before == after, f"lbInfo was {before}, and is {after} the second time"
    )
    reached, again = (
        one.ingress if isinstance(one, CreateLoadBalancerAnswer) else None
        for one in (first, second)
    )
    bench.expect(
        reached == again, f"ingress was {reached}, and is {again} the second time"
    )


@rule(BOTH_SIDES, presumes=ANSWERED)
async def ensure_load_balancer_twice(bench: Bench) -> None:
    """Ensuring a load balancer that is ensured is Succ."""
    fields = {"recordID": bench.new_id(), "lbInfo": bench.lb_info, "attributes": {}}
    await bench.call_until_success(Operation.ENSURE_LOAD_BALANCER, fields)
    await bench.call_until_success(Operation.ENSURE_LOAD_BALANCER, fields)


@rule(OPERATIONS, presumes=ANSWERED)
async def valid_load_balancer(bench: Bench) -> None:
    """ValidateLoadBalancer takes the load balancer that the kit was given."""
    fields = {
        "lbSpec": dict(bench.target.lb_spec),
        "operation": "Create",
        "attributes": {},
    }
    answer = await bench.call(Operation.VALIDATE_LOAD_BALANCER, fields)
    _expect_valid(bench, Operation.VALIDATE_LOAD_BALANCER, answer)
    more = {"operation": "Update", "oldAttributes": {}}
    answer = await bench.call(Operation.VALIDATE_LOAD_BALANCER, fields | more)
    _expect_valid(bench, Operation.VALIDATE_LOAD_BALANCER, answer)


@rule(OPERATIONS, presumes=ANSWERED)
async def valid_backend(bench: Bench) -> None:
    """ValidateBackend takes the parameters that the kit was given."""
    parameters = dict(bench.target.parameters)
    fields = {
        "backendType": "Pod",
        "lbInfo": bench.lb_info,
        "operation": "Create",
        "parameters": parameters,
    }
    answer = await bench.call(Operation.VALIDATE_BACKEND, fields)
    _expect_valid(bench, Operation.VALIDATE_BACKEND, answer)
    # Both spellings of the old ones, as every caller sends them.
    more = {"OldParameters": parameters, "oldParameters": parameters}
    answer = await bench.call(
        Operation.VALIDATE_BACKEND, fields | more | {"operation": "Update"}
    )
    _expect_valid(bench, Operation.VALIDATE_BACKEND, answer)


def _expect_valid(bench: Bench, operation: Operation, answer: object) -> None:
    is_valid = isinstance(answer, ValidationAnswer) and answer.succ
    bench.expect(is_valid, f"{operation} refuses what the kit was told to use")


@rule(LOCK_KEY, presumes=ANSWERED)
async def lock_key_is_steady(bench: Bench) -> None:
    """A lockKey is the same each time, ensured or created, and no other's."""
    fields = {"recordID": bench.new_id(), "attributes": {}}
    create = {**fields, "lbSpec": dict(bench.target.lb_spec)}
    ensure = {**fields, "lbInfo": bench.lb_info}
    given = [
        await _lock_key(bench, Operation.CREATE_LOAD_BALANCER, create),
        await _lock_key(bench, Operation.CREATE_LOAD_BALANCER, create),
        await _lock_key(bench, Operation.ENSURE_LOAD_BALANCER, ensure),
    ]
    if not any(given):
        raise NotApplicable("no lockKey is answered")
    # ensureLoadBalancer may leave it to createLoadBalancer, and the other way round.
    keys = {key for key in given if key}
    bench.expect(
        len(keys) == 1, f"lockKey was {given[0]!r}, {given[1]!r}, {given[2]!r}"
    )
    if bench.target.gone:  # what is made up may be spelled differently and no other
        await _expect_other_key(bench, keys, ensure)
    if bench.target.restart is not None:
        await restart(bench)
        again = {
            await _lock_key(bench, Operation.CREATE_LOAD_BALANCER, create),
            await _lock_key(bench, Operation.ENSURE_LOAD_BALANCER, ensure),
        } - {""}
        text = f"lockKey was {keys}, and is {again} after a restart"
        bench.expect(again <= keys, text)


async def _expect_other_key(
    bench: Bench, keys: set[str], ensure: Mapping[str, object]
) -> None:
    """Check that another load balancer, if the driver tells its key, has another one."""
    key = ""
    with contextlib.suppress(Broken, NotApplicable):
        other = dict(ensure) | {"lbInfo": bench.other_lb_info, "dryRun": True}
        answer = await bench.attempt(Operation.ENSURE_LOAD_BALANCER, other)
        key = answer.lock_key if isinstance(answer, EnsureLoadBalancerAnswer) else ""
    text = f"lockKey {key!r} is that of another load balancer, too"
    bench.expect(key not in keys, text)


async def _lock_key(
    bench: Bench, operation: Operation, fields: Mapping[str, object]
) -> str:
    """Return the lockKey of an answer, empty where it has none."""
    try:
        answer = await bench.call_until_success(operation, fields)
    except Broken:
        return ""  # the rules on that operation report it
    return answer.lock_key if isinstance(answer, EnsureLoadBalancerAnswer) else ""


@rule(BOTH_SIDES, presumes=(*REGISTERED, "deregister-unknown", "drain-unknown"))
async def gone_load_balancer(bench: Bench) -> None:
    """Draining and deregistering on a load balancer that is gone is Succ."""
    member = bench.member()
    fields = {"lbInfo": bench.other_lb_info}
    with _noted_if_made_up(bench):
        if bench.can_drain:
            await bench.drain(member, **fields)
        await bench.deregister(member, **fields)


@rule(BOTH_SIDES, presumes=ANSWERED)
async def delete_gone_load_balancer(bench: Bench) -> None:
    """Deleting a load balancer that is gone is Succ."""
    gone = bench.other_lb_info
    fields = {"recordID": bench.new_id(), "lbInfo": gone, "lbSpec": gone}
    with _noted_if_made_up(bench):
        await bench.call_until_success(
            Operation.DELETE_LOAD_BALANCER, fields | {"attributes": {}}
        )


@contextlib.contextmanager
def _noted_if_made_up(bench: Bench) -> Iterator[None]:
    """Make what is broken a note where nobody has said what a gone load balancer is.

    Raises:
        Noted: in place of `Broken`.
    """
    try:
        yield
    except Broken as broken:
        if bench.target.gone:
            raise
        hint = "with an identity that was made up; give a good one with --gone-lb"
        raise Noted(f"{broken.text} ({hint})", broken.exchange) from broken


@rule(OPERATIONS, LIST)
async def epoch_is_steady(bench: Bench) -> None:
    """The epoch stays the same while no members are lost."""
    before = (await bench.listing()).epoch
    member = bench.member()
    for change in (bench.ensure, bench.deregister):
        await change(member)
        after = (await bench.listing()).epoch
        text = f"epoch was {before!r:.60}, now it is {after!r:.60}"
        bench.expect(before == after, text)


@rule(OPERATIONS, presumes=ANSWERED)
async def judged_pods_were_asked_for(bench: Bench) -> None:
    """JudgePodDeregister names only pods that it was shown."""
    pods = [
        {"metadata": {"namespace": "conformance", "name": f"pod-{number}"}}
        for number in range(2)
    ]
    answer = await bench.call(Operation.JUDGE_POD_DEREGISTER, {"notReadyPods": pods})
    kept = (
        list(answer.do_not_deregister)
        if isinstance(answer, JudgePodDeregisterAnswer)
        else []
    )
    shown = {_pod_name(pod) for pod in pods}
    strange = [pod for pod in kept if _pod_name(pod) not in shown]
    bench.expect(
        not strange, f"doNotDeregister has pods that were not asked for: {strange}"
    )


def _pod_name(pod: object) -> tuple[object, object]:
    match pod:
        case {"metadata": {"namespace": namespace, "name": name}}:
            return (namespace, name)
        case _:
            return (None, None)
