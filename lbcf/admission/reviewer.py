"""Finds out whether an object may be stored, by asking the drivers that it concerns.

Between `server`, which has read the question, and `lbcf.core.admission`, which judges.
What an object refers to is read at every question, not from a cache: users create a
driver and what uses it in one breath, and questions are rare.
"""

import asyncio

from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

from lbcf.core import admission
from lbcf.core.admission import Admitted, FailurePolicy, Intent, Refused, Verdict
from lbcf.core.names import home_of
from lbcf.core.operations import Operation
from lbcf.core.resources import BackendGroup, LoadBalancer, LoadBalancerDriver
from lbcf.drivers.errors import BadStatus, DriverError
from lbcf.drivers.pool import DriverPool
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import KubeError, NotFound
from lbcf.kube.kinds import DRIVERS, LOAD_BALANCERS
from lbcf.kube.resource import HasMeta
from lbcf.kube.secrets import Secrets
from lbcf.wire.driver_answers import ValidationAnswer
from lbcf.wire.driver_requests import (
    Request,
    ValidateBackendRequest,
    ValidateLoadBalancerRequest,
    ValidationOperation,
)
from lbcf.wire.errors import Malformed
from lbcf.wire.resources import parse_group, parse_load_balancer
from lbcf.wire.review import Review, backend_type_of


T = TypeVar("T", bound=HasMeta)


class Reviewer:
    """Answers questions.

    Args:
        client: reads what an object refers to.
        drivers: asks.
        secrets: that drivers name; read at every question, too.
        policy: what becomes of an object that a driver gave no valid answer about.
    """

    def __init__(
        self,
        client: KubeClient,
        drivers: DriverPool,
        secrets: Secrets,
        policy: FailurePolicy,
    ) -> None:
        self._client = client
        self._drivers = drivers
        self._secrets = secrets
        self._policy = policy

    async def review(self, review: Review, within: timedelta) -> Verdict:
        """Judge one object, within the time that the API server waits for it."""
        if review.operation not in {"CREATE", "UPDATE"}:
            return Admitted()
        try:
            async with asyncio.timeout(within.total_seconds()):
                return await self._judged(review)
        except TimeoutError:
            trouble = f"no answer within {within.total_seconds():g} s"
        except Malformed as error:
            return Refused(f"cannot be understood: {error}")
        except KubeError as error:
            trouble = f"what it refers to cannot be read: {error}"
        return admission.judge_silence(trouble, self._policy)

    async def _judged(self, review: Review) -> Verdict:
        """Judge an object of one of the kinds that drivers have a say in."""
        match review.resource:
            case "loadbalancers":
                return await self._load_balancer(review)
            case "backendgroups":
                return await self._group(review)
            case _:
                return Admitted()

    async def _load_balancer(self, review: Review) -> Verdict:
        """Judge a LoadBalancer."""
        new = parse_load_balancer(review.new)
        old = parse_load_balancer(review.old) if review.old else None
        intent = admission.intent_for_load_balancer(new, old)
        if intent is None:
            return Admitted()
        request = ValidateLoadBalancerRequest(
            lb_spec=dict(new.spec),
            operation=ValidationOperation(intent),
            attributes=dict(new.attributes),
            old_attributes=dict(old.attributes) if old is not None else None,
        )
        operation, part = Operation.VALIDATE_LOAD_BALANCER, "spec"
        return await self._asked(review, new, intent, (operation, request, part))

    async def _group(self, review: Review) -> Verdict:
        """Judge a BackendGroup: by all drivers at once."""
        new = parse_group(review.new)
        old = parse_group(review.old) if review.old else None
        intents = admission.intents_for_group(new, old)
        asking = (
            self._at_load_balancer(review, new, old, name, intent)
            for name, intent in intents.items()
        )
        return admission.sum_up(await asyncio.gather(*asking))

    async def _at_load_balancer(
        self,
        review: Review,
        new: BackendGroup,
        old: BackendGroup | None,
        name: str,
        intent: Intent,
    ) -> Verdict:
        """Judge a group by one of its load balancers."""
        key = home_of(name, review.namespace)
        found = await _or_none(self._client.get(LOAD_BALANCERS, key))
        verdict = admission.judge_load_balancer(key, found, review.namespace, intent)
        if verdict is not None or found is None:
            return verdict or Admitted()
        update = intent is Intent.UPDATE and old is not None
        request = ValidateBackendRequest(
            backend_type=backend_type_of(review.new),
            lb_info=dict(found.info or {}),
            operation=ValidationOperation(intent),
            parameters=dict(new.parameters),
            old_parameters=dict(old.parameters) if update and old else None,
        )
        operation, part = Operation.VALIDATE_BACKEND, f"spec on LoadBalancer {key}"
        return await self._asked(review, found, intent, (operation, request, part))

    async def _asked(
        self,
        review: Review,
        load_balancer: LoadBalancer,
        intent: Intent,
        question: tuple[Operation, Request[ValidationAnswer], str],
    ) -> Verdict:
        """Ask the driver of a load balancer, if it can and may be asked."""
        key = load_balancer.driver_key
        driver = await _or_none(self._client.get(DRIVERS, key))
        verdict = admission.judge_driver(key, driver, intent)
        if verdict is not None or driver is None:
            return verdict or Admitted()
        if review.dry_run and not driver.accept_dry_run:
            return admission.not_for_dry_run(key)
        return await self._answered(load_balancer, driver, *question)

    async def _answered(
        self,
        load_balancer: LoadBalancer,
        driver: LoadBalancerDriver,
        operation: Operation,
        request: Request[ValidationAnswer],
        part: str,
    ) -> Verdict:
        """Ask, and judge what comes back."""
        await self._secrets.read(driver)
        limit, about = load_balancer.max_concurrent_calls, load_balancer.meta.key
        try:
            async with self._drivers.slot(driver, about, limit=limit):
                answer = await self._drivers.call(
                    driver, operation, request, timeout=driver.timeout(operation)
                )
        except BadStatus as error:
            if error.is_unserved:
                return Admitted()
            return admission.judge_silence(str(error), self._policy)
        except DriverError as error:
            return admission.judge_silence(str(error), self._policy)
        return admission.judge_answer(driver.meta.key, answer.succ, answer.msg, part)


async def _or_none(reading: Awaitable[T]) -> T | None:
    """Await an object; None where there is none."""
    try:
        return await reading
    except NotFound:
        return None
