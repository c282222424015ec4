"""Core values to driver requests, and driver answers to replies of the core."""

from datetime import datetime
from typing import TypeVar

import msgspec

from lbcf.core.lifecycle import steps
from lbcf.core.lifecycle.steps import CallDriver
from lbcf.core.model.operations import Operation
from lbcf.wire import driver_answers as answers
from lbcf.wire import driver_requests as requests
from lbcf.wire.driver_answers import RetriedAnswer, StringMap


_R = TypeVar("_R", bound="requests.BackendRequest[answers.BackendAnswer]")


def backend_request(
    step: CallDriver, retry_id: str, not_after: datetime
) -> requests.Request[RetriedAnswer]:
    """Write the request of an operation on a member.

    Raises:
        ValueError: the operation is not one on a member.
    """
    if step.operation is Operation.ENSURE_BACKEND:
        ensuring = _member(requests.EnsureBackendRequest, step, retry_id, not_after)
        where = step.permission.record.load_balancer_key.namespace
        return msgspec.structs.replace(ensuring, namespace=where)
    if step.operation is Operation.DEREGISTER_BACKEND:
        request = _member(requests.DeregisterBackendRequest, step, retry_id, not_after)
        return msgspec.structs.replace(request, drained=step.drained)
    if step.drain is None:
        raise ValueError(f"{step.operation} on a member without a drain's clock")
    drain = requests.Drain(
        started_at=step.drain.started_at, deadline=step.drain.deadline
    )
    draining = _member(requests.DrainBackendRequest, step, retry_id, not_after)
    return msgspec.structs.replace(draining, drain=drain)


def _member(kind: type[_R], step: CallDriver, retry_id: str, not_after: datetime) -> _R:
    """Write what every operation on a member says."""
    record = step.permission.record
    return kind(
        record_id=record.meta.uid,
        retry_id=retry_id,
        not_after=not_after,
        lb_info=dict(record.spec.lb_info),
        backend_addr=step.address,
        parameters=dict(record.spec.parameters),
        injected_info=dict(record.status.injected_info),
    )


def reply_of(
    answer: RetriedAnswer,
) -> steps.Succeeded | steps.StillRunning | steps.CallRefused:
    """Read how an attempt ended."""
    delay = answer.min_retry_delay
    match answer.status:
        case answers.Status.SUCC:
            return steps.Succeeded(_injected(answer), _address(answer))
        case answers.Status.RUNNING:
            connections = getattr(answer, "active_connections", None)
            return steps.StillRunning(answer.msg, delay, connections)
        case answers.Status.FAIL:
            return steps.CallRefused(answer.msg, delay)


def _injected(answer: RetriedAnswer) -> StringMap | None:
    """Read what the driver wants back at every later call."""
    return answer.injected_info if isinstance(answer, answers.BackendAnswer) else None


def _address(answer: RetriedAnswer) -> str:
    """Read the address that a driver found."""
    if isinstance(answer, answers.GenerateBackendAddrAnswer):
        return answer.backend_addr
    return ""
