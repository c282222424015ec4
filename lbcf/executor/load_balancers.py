"""Calls about a load balancer itself: create, ensure, delete, list its members.

No record is at stake, so no permission is needed: whoever calls has just read or
written the LoadBalancer, and all of these are idempotent. One call is about a member, of a
record that does not exist and never will again (`lbcf.core.lifecycle.orphans`).
"""

from collections.abc import Callable
from typing import TypeVar

from lbcf.core.lifecycle.load_balancer_steps import CallForLoadBalancer, DriverSucceeded
from lbcf.core.lifecycle.steps import CallFailure, CallRefused, NoAnswer, Succeeded
from lbcf.core.model.cluster import Attachment
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import Ingress, Listed, Port, Protocol
from lbcf.core.selection.validation import ParameterQuestion
from lbcf.drivers.errors import BadStatus, DriverError
from lbcf.drivers.pool import DriverPool, Reader
from lbcf.executor.backend_requests import reply_of
from lbcf.executor.listings import Listing, ListingReader
from lbcf.runtime.clock import Clock
from lbcf.wire import driver_requests as requests
from lbcf.wire.driver import Answer, parse_answer
from lbcf.wire.driver_answers import (
    CreateLoadBalancerAnswer,
    EnsureLoadBalancerAnswer,
    RetriedAnswer,
    Status,
    ValidationAnswer,
)
from lbcf.wire.driver_requests import Request


A = TypeVar("A", bound=RetriedAnswer)
V = TypeVar("V", bound=Answer)
_CREATE = requests.ValidationOperation.CREATE
_UPDATE = requests.ValidationOperation.UPDATE


Answered = Succeeded | CallFailure


class LoadBalancerCalls:
    """The driver operations that are about load balancers.

    Args:
        drivers: the webhook services.
        clock: names attempts and ends their time.
        told: told what a driver answered to create, ensure and delete.
    """

    def __init__(
        self,
        drivers: DriverPool,
        clock: Clock,
        told: Callable[[LoadBalancer, Operation, Answered], None] = (
            lambda _load_balancer, _operation, _reply: None
        ),
    ) -> None:
        self._drivers = drivers
        self._clock = clock
        self._told = told

    async def ask(self, step: CallForLoadBalancer) -> DriverSucceeded | CallFailure:
        """Ask a driver what the life of a load balancer asks.

        Raises:
            ValueError: the operation is not one on a load balancer.
        """
        match step.operation:
            case Operation.VALIDATE_LOAD_BALANCER:
                return await self._validate(step)
            case Operation.CREATE_LOAD_BALANCER:
                return await self._create(step)
            case Operation.ENSURE_LOAD_BALANCER:
                return await self._ensure(step)
            case Operation.DELETE_LOAD_BALANCER:
                return await self._delete(step)
            case operation:
                raise ValueError(f"{operation} is not about a load balancer itself")

    async def validate_backends(
        self, namespace: str, attachment: Attachment, question: ParameterQuestion
    ) -> CallFailure | None:
        """Let the driver look at parameters of backends; None: it has no objection.

        Args:
            namespace: of the group.
            attachment: the load balancer and its driver.
            question: what is asked.
        """
        balancer, before = attachment.load_balancer, question.before
        request = requests.ValidateBackendRequest(
            namespace=balancer.meta.key.namespace,
            backend_type=requests.BackendType(question.backend_type),
            lb_info=dict(balancer.info or {}),
            operation=_CREATE if before is None else _UPDATE,
            parameters=dict(question.parameters),
            old_parameters=None if before is None else dict(before),
        )
        operation = Operation.VALIDATE_BACKEND
        driver = attachment.driver
        answer = await self._call(
            balancer, driver, operation, request, namespace=namespace
        )
        return _objection(answer)

    async def list(
        self, load_balancer: LoadBalancer, driver: LoadBalancerDriver, known: bytes
    ) -> Listing | CallFailure | None:
        """Read which members the driver has put there, and their epoch.

        None: the list has the digest `known`, which is empty where none is known.
        """
        operation = Operation.LIST_BACKENDS
        request = requests.ListBackendsRequest(
            lb_info=dict(load_balancer.info or {}),
            attributes=dict(load_balancer.attributes),
        )
        read = ListingReader(known)
        answer = await self._call(load_balancer, driver, operation, request, read)
        if isinstance(answer, DriverError):
            return NoAnswer(answer.reason, str(answer), may_land=False)
        if answer.status is not Status.SUCC:
            return CallRefused(answer.msg)
        if read.is_known:
            return None
        return Listing(answer.epoch, answer.backends, read.digest)

    async def deregister(
        self, load_balancer: LoadBalancer, driver: LoadBalancerDriver, orphan: Listed
    ) -> Answered:
        """Take out a member whose record does not exist.

        What its record said of it (parameters, injectedInfo) is lost: a driver has to do
        without after an ensure whose answer was lost, too.
        """
        operation, (address, record_id) = Operation.DEREGISTER_BACKEND, orphan
        request = requests.DeregisterBackendRequest(
            record_id=record_id,
            retry_id=self._clock.new_id(),
            not_after=self._clock.now() + driver.timeout(operation),
            lb_info=dict(load_balancer.info or {}),
            backend_addr=address,
            member_key=driver.member_key,
        )
        answer = await self._ask(load_balancer, driver, operation, request)
        return Succeeded() if isinstance(answer, RetriedAnswer) else answer

    async def _validate(
        self, step: CallForLoadBalancer
    ) -> DriverSucceeded | CallFailure:
        """Let the driver look at what is about to be asked of it.

        `lbcf admission` has asked already where it is installed, and could reach the
        driver; to ask again changes nothing.
        """
        balancer, before = step.balancer, step.before
        request = requests.ValidateLoadBalancerRequest(
            namespace=balancer.meta.key.namespace,
            lb_spec=dict(balancer.spec),
            operation=_CREATE if before is None else _UPDATE,
            attributes=dict(balancer.attributes),
            old_attributes=None if before is None else dict(before),
            member_key=step.driver.member_key,
        )
        answer = await self._call(balancer, step.driver, step.operation, request)
        return _objection(answer) or DriverSucceeded()

    async def _create(self, step: CallForLoadBalancer) -> DriverSucceeded | CallFailure:
        """Create it or find it; its identity is its spec where the driver names none."""
        balancer = step.balancer
        request = requests.CreateLoadBalancerRequest(
            namespace=balancer.meta.key.namespace,
            record_id=balancer.meta.uid,
            retry_id=self._clock.new_id(),
            not_after=self._clock.now() + step.driver.timeout(step.operation),
            lb_spec=dict(balancer.spec),
            attributes=dict(balancer.attributes),
            member_key=step.driver.member_key,
        )
        answer = await self._ask(balancer, step.driver, step.operation, request)
        if isinstance(answer, CreateLoadBalancerAnswer):
            info = answer.lb_info or dict(balancer.spec)
            return DriverSucceeded(info, answer.lock_key, _ingress(answer))
        return answer

    async def _ensure(self, step: CallForLoadBalancer) -> DriverSucceeded | CallFailure:
        """Give it its attributes."""
        balancer = step.balancer
        request = requests.EnsureLoadBalancerRequest(
            namespace=balancer.meta.key.namespace,
            record_id=balancer.meta.uid,
            retry_id=self._clock.new_id(),
            not_after=self._clock.now() + step.driver.timeout(step.operation),
            lb_info=dict(balancer.info or {}),
            attributes=dict(balancer.attributes),
            member_key=step.driver.member_key,
        )
        answer = await self._ask(balancer, step.driver, step.operation, request)
        if isinstance(answer, EnsureLoadBalancerAnswer):
            return DriverSucceeded({}, answer.lock_key, _ingress(answer))
        return answer

    async def _delete(self, step: CallForLoadBalancer) -> DriverSucceeded | CallFailure:
        """Delete it, or what may have come of creating it."""
        balancer = step.balancer
        request = requests.DeleteLoadBalancerRequest(
            record_id=balancer.meta.uid,
            lb_spec=dict(balancer.spec),
            retry_id=self._clock.new_id(),
            not_after=self._clock.now() + step.driver.timeout(step.operation),
            lb_info=dict(balancer.info or {}),
            attributes=dict(balancer.attributes),
        )
        answer = await self._ask(balancer, step.driver, step.operation, request)
        return DriverSucceeded() if isinstance(answer, RetriedAnswer) else answer

    async def _ask(
        self,
        load_balancer: LoadBalancer,
        driver: LoadBalancerDriver,
        operation: Operation,
        request: Request[A],
    ) -> A | CallFailure:
        """Send a request; an answer comes back only if it is a success."""
        answer = await self._call(load_balancer, driver, operation, request)
        if isinstance(answer, DriverError):
            lost = NoAnswer(answer.reason, str(answer), may_land=not answer.definite)
            self._told(load_balancer, operation, lost)
            return lost
        reply = reply_of(answer)
        self._told(load_balancer, operation, reply)
        return answer if isinstance(reply, Succeeded) else reply

    async def _call(
        self,
        load_balancer: LoadBalancer,
        driver: LoadBalancerDriver,
        operation: Operation,
        request: Request[V],
        read: Reader = parse_answer,
        *,
        namespace: str | None = None,
    ) -> V | DriverError:
        """Send a request when the load balancer's turn has come.

        An error is returned, not raised: each caller has an answer to it.
        """
        limit = load_balancer.max_concurrent_calls
        key = load_balancer.meta.key
        async with self._drivers.slot(driver, key, namespace=namespace, limit=limit):
            try:
                return await self._drivers.call(
                    driver,
                    operation,
                    request,
                    timeout=driver.timeout(operation),
                    read=read,
                )
            except DriverError as error:
                return error


def _ingress(answer: EnsureLoadBalancerAnswer) -> tuple[Ingress, ...] | None:
    """Read where clients reach it; None: nothing is said of that."""
    if answer.ingress is None:
        return None
    return tuple(
        Ingress(
            one.ip,
            one.hostname,
            tuple(Port(p.port, Protocol(p.protocol)) for p in one.ports),
        )
        for one in answer.ingress
    )


def _objection(answer: ValidationAnswer | DriverError) -> CallFailure | None:
    """Read a validation's answer; a driver without the operation has no objection."""
    if isinstance(answer, DriverError):
        if isinstance(answer, BadStatus) and answer.is_unserved:
            return None
        return NoAnswer(answer.reason, str(answer), may_land=False)
    return None if answer.succ else CallRefused(answer.msg)
