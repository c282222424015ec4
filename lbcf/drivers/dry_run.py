"""Drivers in a dry run: those that take dryRun are called with it, others not at all.

In the place of `DriverPool`. Where a driver is not called its success is assumed, so
that what would come after it is shown, too; what only a driver can know is left open.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TypeVar, cast

import msgspec

from prometheus_client import CollectorRegistry

from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import Port, host_port
from lbcf.drivers.access import DriverAllowlist, FindSecret
from lbcf.drivers.errors import NotCalled
from lbcf.drivers.pool import DriverPool, Reader
from lbcf.runtime.clock import Clock
from lbcf.runtime.metrics import DrySteps
from lbcf.runtime.spans import Span
from lbcf.wire.driver import Answer, Request, parse_answer
from lbcf.wire.driver_answers import (
    BackendAnswer,
    CreateLoadBalancerAnswer,
    EnsureLoadBalancerAnswer,
    GenerateBackendAddrAnswer,
    HealthzAnswer,
    RetriedAnswer,
    Status,
    ValidationAnswer,
)
from lbcf.wire.driver_requests import GenerateBackendAddrRequest


_A = TypeVar("_A", bound=Answer)

_ASSUMED: Mapping[Operation, Answer] = {
    Operation.HEALTHZ: HealthzAnswer(healthy=True),
    Operation.VALIDATE_LOAD_BALANCER: ValidationAnswer(succ=True),
    Operation.VALIDATE_BACKEND: ValidationAnswer(succ=True),
    Operation.CREATE_LOAD_BALANCER: CreateLoadBalancerAnswer(status=Status.SUCC),
    Operation.ENSURE_LOAD_BALANCER: EnsureLoadBalancerAnswer(status=Status.SUCC),
    Operation.DELETE_LOAD_BALANCER: RetriedAnswer(status=Status.SUCC),
    Operation.ENSURE_BACKEND: BackendAnswer(status=Status.SUCC),
    Operation.DEREGISTER_BACKEND: BackendAnswer(status=Status.SUCC),
}
_CHANGES_NOTHING = frozenset(
    {
        Operation.HEALTHZ,
        Operation.LIST_BACKENDS,
        Operation.VALIDATE_LOAD_BALANCER,
        Operation.VALIDATE_BACKEND,
    }
)


class DryDriverPool(DriverPool):
    """Calls drivers for show, each member by itself."""

    sends_batches = False

    def __init__(
        self,
        clock: Clock,
        registry: CollectorRegistry,
        steps: DrySteps,
        *,
        find: FindSecret,
        allowlist: DriverAllowlist,
        agent: str,
    ) -> None:
        super().__init__(clock, registry, find=find, allowlist=allowlist, agent=agent)
        self._steps = steps

    async def call(
        self,
        driver: LoadBalancerDriver,
        operation: Operation,
        request: Request[_A],
        *,
        timeout: timedelta,  # noqa: ASYNC109 - the driver's own, by operation
        until: float | None = None,
        read: Reader = parse_answer,
        links: Sequence[Span] = (),
    ) -> _A:
        """Call a driver that takes dryRun; assume the success of any other.

        Raises:
            DriverError: there was no valid answer, or none can be assumed.
        """
        facts = {"driver": str(driver.meta.key), "request": _said(request)}
        if driver.accept_dry_run:
            if hasattr(request, "dry_run"):
                request = msgspec.structs.replace(request, dry_run=True)
            answer = await super().call(
                driver,
                operation,
                request,
                timeout=timeout,
                until=until,
                read=read,
                links=links,
            )
            if operation not in _CHANGES_NOTHING:
                said = msgspec.to_builtins(answer)
                self._steps.tell("called", operation, answer=said, **facts)
            return answer
        if operation not in _CHANGES_NOTHING:
            self._steps.tell("would_call", operation, **facts)
        assumed = _assumed(operation, request)
        if assumed is None:
            text = f"{operation} of driver {driver.meta.key}: not called in a dry run"
            raise NotCalled(text)
        return cast("_A", assumed)


def _assumed(operation: Operation, request: Request[Answer]) -> Answer | None:
    """Return the assumed answer of a driver that is not called; None: none can be assumed."""
    if not isinstance(request, GenerateBackendAddrRequest):
        return _ASSUMED.get(operation)
    if request.pod_backend is None:
        return None
    status = request.pod_backend.pod.get("status")
    host = status.get("podIP", "") if isinstance(status, dict) else ""
    address = host_port(host, Port(request.pod_backend.port.port))
    return GenerateBackendAddrAnswer(status=Status.SUCC, backend_addr=address)


def _said(request: Request[Answer]) -> object:
    said = msgspec.to_builtins(request)
    # Whole objects may hold secrets.
    whole = ("podBackend", "serviceBackend", "nodeBackend", "notReadyPods")
    return {k: v for k, v in said.items() if k not in whole and v is not None}
