"""From what an author's method returned or raised to the operation's answer.

`lbcf.sdk.server` has read the request; here the one method is called. Nothing that it
raises gets out.
"""

import math

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import cast

import attrs
import structlog

from lbcf.core.model.operations import SINGLE, Operation
from lbcf.runtime.clock import Clock
from lbcf.sdk.driver import Driver, Fail, NotThere, Refusal, RetryAfter, Running, Succ
from lbcf.sdk.mistakes import METHODS
from lbcf.wire.driver import ANSWERS, LONGEST_DELAY, LONGEST_MESSAGE, Answer, Request
from lbcf.wire.driver_answers import (
    HealthzAnswer,
    JudgePodDeregisterAnswer,
    ListBackendsAnswer,
    RetriedAnswer,
    Status,
    ValidationAnswer,
)


Method = Callable[[Request[Answer]], Awaitable[object]]

_REMOVALS = frozenset(
    {
        Operation.DRAIN_BACKEND,
        Operation.DEREGISTER_BACKEND,
        Operation.DELETE_LOAD_BALANCER,
    }
)
"""Operations for which what is not there is done."""

_log = structlog.get_logger(__name__)


def served_operations(driver: Driver) -> frozenset[Operation]:
    """Return the operations that the author has overridden, healthz, and all batches.

    A batch is served where the operation on one member is, whoever has written it.
    """
    own = {
        operation
        for operation, name in METHODS.items()
        if operation is Operation.HEALTHZ
        or getattr(type(driver), name) is not getattr(Driver, name)
    }
    return frozenset(
        operation for operation in Operation if SINGLE.get(operation, operation) in own
    )


class Undetermined(ValidationAnswer, frozen=True, kw_only=True):
    """The driver cannot tell now: sent with HTTP 503, which no caller takes for a refusal."""


async def reply(
    driver: Driver, operation: Operation, request: Request[Answer], clock: Clock
) -> Answer:
    """Perform the operation once; what it raises becomes an answer too."""
    try:
        result = await _result(driver, operation, request)
    except Exception as error:  # noqa: BLE001  (becomes an answer)
        return answer_of_error(operation, error, clock)
    return answer_of_result(operation, result, clock)


def answer_of_result(operation: Operation, result: object, clock: Clock) -> Answer:
    """Return the answer that an author's result stands for."""
    try:
        return _answer(operation, result)
    except Exception as error:  # noqa: BLE001  (a result that is none is a mistake, too)
        return answer_of_error(operation, error, clock)


def answer_of_error(operation: Operation, error: Exception, clock: Clock) -> Answer:
    """Return the answer to what an author's method raised."""
    if isinstance(error, Refusal):
        return refused(operation, error)
    if isinstance(error, NotThere):
        if operation in _REMOVALS:
            return _retried(operation, Status.SUCC, msg=str(error))
        return refused(operation, Fail(str(error) or "not there"))
    # An author's mistake must not leak, nor be lost.
    incident = clock.new_id()
    _log.error("driver.broken", operation=operation, incident=incident, exc_info=error)
    text = f"unexpected error in the driver; its log tells more under {incident}"
    return in_trouble(operation, text)


def in_trouble(operation: Operation, text: str) -> Answer:
    """Return the answer where the driver fails, whatever it was asked.

    A validation cannot be told then: nothing is called invalid for it.
    """
    if ANSWERS[operation] is ValidationAnswer:
        return Undetermined(succ=False, msg=text)
    return refused(operation, Fail(text))


def refused(operation: Operation, refusal: Refusal) -> Answer:
    """Return the answer that says no, in the form that the operation has for it."""
    kind = ANSWERS[operation]
    if issubclass(kind, HealthzAnswer):
        return kind(healthy=False, msg=refusal.msg)
    if kind is ValidationAnswer and isinstance(refusal, RetryAfter):
        return Undetermined(succ=False, msg=refusal.msg)
    if issubclass(kind, ValidationAnswer):
        return kind(succ=False, msg=refusal.msg)
    if issubclass(kind, ListBackendsAnswer):
        return kind(status=Status.FAIL, msg=refusal.msg)
    status = Status.RUNNING if isinstance(refusal, RetryAfter) else Status.FAIL
    return _retried(operation, status, msg=refusal.msg, retry_after=refusal.retry_after)


async def _result(
    driver: Driver, operation: Operation, request: Request[Answer]
) -> object:
    if operation is Operation.HEALTHZ:
        return await driver.healthz()
    method = cast("Method", getattr(driver, METHODS[operation]))
    return await method(request)


def _answer(operation: Operation, result: object) -> Answer:
    """Return the answer that the method's result stands for.

    Raises:
        TypeError: the method returned something that its operation has no answer for.
    """
    kind = ANSWERS[operation]
    match result:
        case Answer() if isinstance(result, kind):
            return result
        case bool() if kind is HealthzAnswer:
            return HealthzAnswer(healthy=result)
        case None if kind is ValidationAnswer:
            return ValidationAnswer(succ=True)
        case list() | tuple() if kind is JudgePodDeregisterAnswer:
            return JudgePodDeregisterAnswer(succ=True, do_not_deregister=result)
        case Succ() if issubclass(kind, RetriedAnswer):
            return _retried(operation, Status.SUCC, **_said(result))
        case Running() if issubclass(kind, RetriedAnswer):
            return _retried(operation, Status.RUNNING, **_said(result))
        case _:
            raise TypeError(f"{operation} cannot be answered with {result!r:.80}")


def _said(result: Succ | Running) -> dict[str, object]:
    return attrs.asdict(
        result, recurse=False, filter=lambda _attribute, value: value is not None
    )


def _retried(operation: Operation, status: Status, **fields: object) -> Answer:
    """Build the answer of a retried operation.

    Raises:
        TypeError: the operation's answer has no such field.
    """
    delay = fields.pop("retry_after", None)
    if isinstance(delay, timedelta):
        seconds = min(max(math.ceil(delay.total_seconds()), 0), LONGEST_DELAY)
        fields["min_retry_delay_in_seconds"] = seconds
    fields["msg"] = str(fields.get("msg", ""))[:LONGEST_MESSAGE]
    answer = cast("Callable[..., Answer]", ANSWERS[operation])
    return answer(status=status, **fields)
