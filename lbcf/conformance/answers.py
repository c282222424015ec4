"""Reads answers: as leniently as the controller does, or as the protocol has them.

`lbcf.conformance.bench` reads each answer; only the rule on answers is strict.
"""

import math

import msgspec

from lbcf.conformance.findings import Broken, Exchange
from lbcf.core.model.operations import Operation
from lbcf.drivers.client import largest_answer
from lbcf.wire.driver import LONGEST_DELAY, Answer, Malformed, parse_answer
from lbcf.wire.driver_answers import DrainBackendAnswer, Status


_DELAYS = frozenset({"minretrydelayinseconds"})


def read_answer(operation: Operation, exchange: Exchange) -> Answer:
    """Return the answer as the controller would read it.

    Raises:
        Broken: the controller would not take it.
    """
    if exchange.status is None:
        raise Broken(f"{operation} got no answer: {exchange.trouble}", exchange)
    if not exchange.is_answered:
        raise Broken(
            f"{operation} answered HTTP {exchange.status}: the protocol has only 200",
            exchange,
        )
    limit = largest_answer(operation)
    if len(exchange.answer) > limit:
        text = f"{operation}: the answer is over {limit} bytes"
        raise Broken(text, exchange)
    try:
        return parse_answer(operation, exchange.answer)
    except Malformed as error:
        raise Broken(f"{operation}: {error}", exchange) from error


def check_strictly(operation: Operation, exchange: Exchange) -> Answer:
    """Return the answer if nothing in it needs to be put right by its reader.

    Raises:
        Broken: something does; says what.
    """
    answer = read_answer(operation, exchange)
    said = msgspec.json.decode(exchange.answer)
    for name, content in said.items() if isinstance(said, dict) else ():
        if name.casefold() in _DELAYS and not _is_sane(content):
            text = f"{operation}: {name} is {content!r:.60}, not 0 to {LONGEST_DELAY}"
            raise Broken(f"{text} seconds", exchange)
    if (
        isinstance(answer, DrainBackendAnswer)
        and answer.status is Status.SUCC
        and answer.active_connections
    ):
        text = (
            f"{operation}: Succ, yet {answer.active_connections} connections are left"
        )
        raise Broken(text, exchange)
    return answer


def _is_sane(content: object) -> bool:
    """Tell whether it is a delay: seconds, as a number or as digits in a string."""
    if content is None or content == "":
        return True
    try:
        number = float(content) if isinstance(content, int | float | str) else math.nan
    except ValueError:
        return False
    return not isinstance(content, bool) and 0 <= number <= LONGEST_DELAY
