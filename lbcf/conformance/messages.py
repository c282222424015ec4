"""Rules on messages: which requests a driver takes, and what its answers look like."""

import contextlib

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from lbcf.conformance.bench import (
    ADDITIONS,
    ANSWERED,
    BOTH_SIDES,
    COMMON,
    DEREGISTER,
    DRAIN,
    ENSURE,
    LIST,
    NO_ADDRESSES,
    OPERATIONS,
    Bench,
    Member,
    rule,
)
from lbcf.conformance.client import check_answer
from lbcf.conformance.findings import Broken, Exchange, NotApplicable, Noted
from lbcf.core.model.operations import Operation
from lbcf.wire.driver_answers import GenerateBackendAddrAnswer, Status
from lbcf.wire.driver_requests import MOST_ITEMS


_LONG_AGO = "2001-01-01T00:00:00Z"
_PORT = 8080
_PORTS: Mapping[str, Mapping[str, object]] = {
    "port and portNumber": {"port": _PORT, "portNumber": _PORT, "protocol": "TCP"},
    "port alone": {"port": _PORT, "protocol": "TCP"},
    "portNumber alone": {"portNumber": _PORT, "protocol": "TCP"},
}
_WHOLE_REFUSED = frozenset({400, 413})
"""HTTP statuses for a batch that is none; 413 is for one that is too large."""


@rule(OPERATIONS, presumes=ANSWERED)
async def both_spellings(bench: Bench) -> None:
    """A port is understood by its new name, its old name, and by both."""
    seen: dict[str, str] = {}
    for spelling, port in _PORTS.items():
        answer = await bench.attempt(
            Operation.GENERATE_BACKEND_ADDR, _pod_request(bench, port)
        )
        if answer.status is not Status.SUCC and not seen:
            raise NotApplicable(f"takes no made-up pod: {answer.msg!r:.120}")
        address = (
            answer.backend_addr if isinstance(answer, GenerateBackendAddrAnswer) else ""
        )
        seen[spelling] = address or str(answer.status)
    if len(set(seen.values())) != 1:
        text = f"the answers differ: {seen}"
        if not bench.target.is_plain:
            bench.fail(text)
        raise Noted(f"{text}; callers send both names", bench.client.exchanges[-1])


def _pod_request(bench: Bench, port: Mapping[str, object]) -> dict[str, object]:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "conformance", "name": "pod", "uid": bench.name},
        "spec": {"nodeName": "node", "containers": []},
        "status": {"phase": "Running", "podIP": "198.18.0.1", "hostIP": "198.18.0.254"},
    }
    return {
        "recordID": bench.new_id(),
        "lbInfo": bench.lb_info,
        "lbAttributes": {},
        "parameters": dict(bench.target.parameters),
        "podBackend": {"pod": pod, "port": port},
    }


@rule(BOTH_SIDES)
async def unknown_fields(bench: Bench) -> None:
    """Fields that the driver does not know are skipped."""
    member = bench.member()
    more = {"fromTheFuture": {"deeply": [1, None, "x"]}, "x": 1.5, "": True}
    await bench.ensure(member, **more)
    await bench.expect_present(member, "after ensureBackend with unknown fields")
    await bench.deregister(member, **more)
    await bench.expect_absent(member, "after deregisterBackend with unknown fields")


@rule(BOTH_SIDES)
async def null_is_missing(bench: Bench) -> None:
    """A field that is null, and one that is missing, count as empty."""
    optional = ["injectedInfo", "dryRun", "notAfter", "drained"]
    if not bench.target.parameters:
        optional.append("parameters")
    for form in ("null", "missing"):
        member = bench.member()
        for operation in (ENSURE, DEREGISTER):
            fields = bench.fields(member, retryID=bench.new_id())
            request = {key: fields[key] for key in fields if key not in optional}
            if form == "null":
                request |= dict.fromkeys(optional)
            await _expect_accepted(bench, operation, request, form)


async def _expect_accepted(
    bench: Bench, operation: Operation, request: dict[str, object], form: str
) -> None:
    # Sent as it is: an attempt would fill in some of the optional fields.
    exchange = await bench.send(operation, request)
    if not exchange.is_answered or _status(exchange) == Status.FAIL:
        text = f"{operation} with optional fields that are {form} was not accepted"
        raise Broken(text, exchange)
    if _status(exchange) != Status.SUCC:
        await bench.call_until_success(operation, request)


@rule(ADDITIONS)
async def late_calls(bench: Bench) -> None:
    """A call that arrives after its notAfter is answered Fail and has no effect."""
    member = bench.member()
    fields = bench.fields(member, notAfter=_LONG_AGO)
    answer = await bench.attempt(ENSURE, fields)
    await bench.expect_absent(member, "after an ensureBackend that came too late")
    if answer.status is not Status.FAIL:
        text = f"ensureBackend after its notAfter is {answer.status}, not Fail"
        if bench.can_list:
            bench.fail(text)
        raise Noted(text, bench.client.exchanges[-1])
    await bench.ensure(member)
    await bench.attempt(DEREGISTER, fields | {"drained": False})
    await bench.expect_present(member, "after a deregisterBackend that came too late")
    if bench.can_drain:
        drain = await bench.attempt(DRAIN, fields | {"drain": bench.drain_times()})
        is_refused = drain.status is Status.FAIL
        bench.expect(is_refused, f"drainBackend after its notAfter is {drain.status}")
        await bench.expect_in_service(member, "after a drainBackend that came too late")
    await _expect_late_load_balancers_refused(bench)


async def _expect_late_load_balancers_refused(bench: Bench) -> None:
    """Check the operations on load balancers, as far as they are served.

    Deleted is only one that is not there: a driver that is wrong in this would do it.
    """
    late = {"recordID": bench.new_id(), "attributes": {}, "notAfter": _LONG_AGO}
    calls: list[tuple[Operation, Mapping[str, object]]] = [
        (Operation.CREATE_LOAD_BALANCER, {"lbSpec": dict(bench.target.lb_spec)}),
        (Operation.ENSURE_LOAD_BALANCER, {"lbInfo": bench.lb_info}),
    ]
    with contextlib.suppress(NotApplicable):
        gone = {"lbInfo": bench.other_lb_info, "lbSpec": bench.other_lb_info}
        calls.append((Operation.DELETE_LOAD_BALANCER, gone))
    for operation, fields in calls:
        with contextlib.suppress(NotApplicable):
            answer = await bench.attempt(operation, {**late, **fields})
            is_refused = answer.status is Status.FAIL
            text = f"{operation} after its notAfter is {answer.status}, not Fail"
            bench.expect(is_refused, text)


@rule(BOTH_SIDES)
async def malformed_requests(bench: Bench) -> None:
    """A body that is no request of the operation is not answered with Succ."""
    member = bench.member()
    whole = msgspec.json.encode(bench.fields(member, retryID=bench.new_id()))
    wrong_map = msgspec.json.encode(bench.fields(member, lbInfo="none"))
    wrong_address = msgspec.json.encode(bench.fields(member, backendAddr=8080))
    for what, body in (
        ("text that is no JSON", b"<html>"),
        ("an array", b"[]"),
        ("a string", b'"text"'),
        ("a request that is cut off", whole[:-1]),
        ("a request whose lbInfo is a string", wrong_map),
        ("a request whose backendAddr is a number", wrong_address),
    ):
        for operation in (ENSURE, DEREGISTER):
            await _expect_refused(bench, operation, body, what)
    await bench.expect_absent(member, "after malformed requests")
    for operation in (Operation.ENSURE_BACKENDS, Operation.DEREGISTER_BACKENDS):
        if not bench.target.lacks(operation):
            await _expect_batches_refused(bench, operation, member)
    fields = bench.fields(member, retryID=bench.new_id())
    del fields["recordID"]
    try:
        for operation in (ENSURE, DEREGISTER):
            body = msgspec.json.encode(fields)
            await _expect_refused(bench, operation, body, "a request without recordID")
    except Broken as broken:
        if bench.can_list:
            raise
        # Drivers that were written for LBCF read nothing in it.
        raise Noted(broken.text, broken.exchange) from broken


async def _expect_batches_refused(
    bench: Bench, operation: Operation, member: Member
) -> None:
    """Send batches that are refused as a whole, with HTTP 400.

    Raises:
        Broken: one is not.
    """
    # All are late: what is performed in spite of all has no effect.
    item = bench.fields(member, retryID=bench.new_id(), notAfter=_LONG_AGO)
    many = [item | {"recordID": bench.new_id()} for _ in range(MOST_ITEMS + 1)]
    for what, items in (
        ("a batch of no items", []),
        ("a batch with two items of one recordID", [item, item]),
        (f"a batch of {len(many)} items", many),
    ):
        exchange = await bench.send(operation, {"items": items})
        if exchange.status not in _WHOLE_REFUSED:
            raise Broken(f"{operation} does not answer HTTP 400 to {what}", exchange)


async def _expect_refused(
    bench: Bench, operation: Operation, body: bytes, what: str
) -> None:
    """Send what is no request; anything but Succ is right.

    Raises:
        Broken: the answer is Succ, or there is none.
    """
    exchange = await bench.client.send(operation, body)
    if exchange.status is None:
        raise Broken(f"{operation} did not answer {what}", exchange)
    if exchange.is_answered and _status(exchange) == Status.SUCC:
        raise Broken(f"{operation} answered Succ to {what}", exchange)


@rule(OPERATIONS)
async def invalid_addresses(bench: Bench) -> None:
    """EnsureBackend does not answer Succ for what is no address (advice only)."""
    taken: list[str] = []
    shown: Exchange | None = None
    for address in ("", *NO_ADDRESSES):
        member = bench.member(address)
        fields = bench.fields(member, retryID=bench.new_id())
        exchange = await bench.send(ENSURE, fields)
        if exchange.is_answered and _status(exchange) == Status.SUCC:
            taken.append(address)
            shown = exchange
    if taken:
        raise Noted(f"ensureBackend answered Succ for {taken}", shown)


@rule(COMMON, presumes=())
async def valid_answers(bench: Bench) -> None:
    """Answers are 200 with JSON: status spelled exactly, delays 0 to 3600 seconds."""
    member = bench.member()
    life = [(ENSURE, bench.fields(member)), (ENSURE, bench.fields(member))]
    if bench.can_drain:
        more = {"drain": bench.drain_times()}
        life.append((DRAIN, bench.fields(member, **more)))
    life.append((DEREGISTER, bench.fields(member, drained=False)))
    for operation, fields in life:
        fields |= {
            "retryID": bench.new_id(),
            "dryRun": False,
            "notAfter": bench.timestamp(timedelta(minutes=1)),
        }
        check_answer(operation, await bench.send(operation, fields))
    check_answer(Operation.HEALTHZ, await bench.send(Operation.HEALTHZ, {}))
    if bench.can_list:
        fields = {"lbInfo": bench.lb_info, "attributes": {}}
        exchange = await bench.send(LIST, fields)
        check_answer(LIST, exchange)


def _status(exchange: Exchange) -> object:
    """Return the status in an answer's body, its name in any case; None: there is none."""
    try:
        content = msgspec.json.decode(exchange.answer)
    except msgspec.MsgspecError:
        return None
    if not isinstance(content, dict):
        return None
    return {str(key).casefold(): value for key, value in content.items()}.get("status")
