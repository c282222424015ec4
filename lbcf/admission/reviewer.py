"""Judges objects that are to be stored, by asking the drivers that they concern.

What an object refers to is read at every question, not from a cache: users create a
driver and what uses it in one breath, and questions are rare.
"""

import asyncio

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import TypeVar

import attrs
import msgspec
import tenacity

from lbcf.admission import decisions as admission
from lbcf.admission.decisions import (
    Admitted,
    Denied,
    DriverFailurePolicy,
    Intent,
    Verdict,
)
from lbcf.admission.review import Review, backend_type_of, without_status
from lbcf.core.model.binds import Bind
from lbcf.core.model.names import bind_load_balancer_key, home_of
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.drivers.errors import BadStatus, DriverError
from lbcf.drivers.pool import DriverPool
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import KubeError, NotFound
from lbcf.kube.kinds import DRIVERS, LOAD_BALANCERS, HasMeta
from lbcf.kube.secrets import Secrets
from lbcf.wire.binds import parse_bind
from lbcf.wire.driver_answers import ValidationAnswer
from lbcf.wire.driver_requests import (
    BackendType,
    Request,
    ValidateBackendRequest,
    ValidateLoadBalancerRequest,
    ValidationOperation,
)
from lbcf.wire.errors import Malformed
from lbcf.wire.resources import parse_group, parse_load_balancer


T = TypeVar("T", bound=HasMeta)
Parse = Callable[[bytes], T]
"""Reads an object of one kind; raises Malformed."""

_DRIVERS_KEPT = 256
_RETRY = 0.25
"""Seconds between two attempts to connect to a driver."""
_CONNECTS_WITHIN = 3.0
"""Seconds after which a driver that takes no connection counts as one that does not answer.

One that has just become ready is refused for as long as a node's rules of its Service lag
behind (kube-proxy gathers changes for a second, `iptables.minSyncPeriod`).
"""


def _is_unconnected(error: BaseException) -> bool:
    """Return whether no connection came about, so that nothing was asked."""
    return isinstance(error, DriverError) and error.reason is Reason.DRIVER_UNREACHABLE


@attrs.frozen
class _Change:
    """What is new about backends.

    Attributes:
        before: the parameters that they had, None where they had none.
    """

    backend_type: BackendType
    parameters: Mapping[str, str]
    before: Mapping[str, str] | None


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
        policy: DriverFailurePolicy,
    ) -> None:
        self._client = client
        self._drivers = drivers
        self._secrets = secrets
        self._policy = policy
        self._asked_last: OrderedDict[ObjectKey, None] = OrderedDict()

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
            return Denied(f"cannot be understood: {error}")
        except KubeError as error:
            trouble = f"what it refers to cannot be read: {error}"
        return admission.judge_silence(trouble, self._policy)

    def crowded(self, namespace: str) -> Verdict:
        """Judge an object of a namespace of which too many are being judged."""
        trouble = f"too many objects of namespace {namespace} are being judged"
        return admission.judge_silence(trouble, self._policy)

    async def _judged(self, review: Review) -> Verdict:
        """Judge an object of one of the kinds that drivers have a say in."""
        match review.resource:
            case "loadbalancers":
                return await self._load_balancer(review)
            case "backendgroups":
                return await self._group(review)
            case "binds":
                return await self._bind(review)
            case _:
                return Admitted()

    async def _load_balancer(self, review: Review) -> Verdict:
        """Judge a LoadBalancer."""
        new, old = _read(review, parse_load_balancer)
        intent = admission.intent_for_load_balancer(new, old)
        if intent is None:
            return Admitted()
        before = None if old is None else old.attributes
        return await self._about_attributes(review, new, before, intent, "spec")

    async def _group(self, review: Review) -> Verdict:
        """Judge a BackendGroup: by all drivers at once."""
        new, old = _read(review, parse_group)
        change = _Change(
            backend_type_of(review.new),
            new.parameters,
            None if old is None else old.parameters,
        )
        intents = admission.intents_for_group(new, old)
        asking = (self._at(review, n, change, i) for n, i in intents.items())
        return admission.sum_up(await asyncio.gather(*asking))

    async def _at(
        self, review: Review, name: str, change: _Change, intent: Intent
    ) -> Verdict:
        """Judge a group by one of its load balancers."""
        key = home_of(name, review.namespace)
        found = await _or_none(self._client.get(LOAD_BALANCERS, key))
        verdict = admission.judge_load_balancer(key, found, review.namespace, intent)
        if verdict is not None or found is None:
            return verdict or Admitted()
        part = f"spec on LoadBalancer {key}"
        return await self._about_backends(review, found, change, intent, part)

    async def _bind(self, review: Review) -> Verdict:
        """Judge a Bind: each of its load balancers, and its backends at each of them."""
        new, old = _read(review, parse_bind)
        before = None if old is None else old.group.parameters
        change = _Change(BackendType.POD, new.group.parameters, before)
        asking: list[Awaitable[Verdict]] = []
        for name, (own, backends) in admission.intents_for_bind(new, old).items():
            found, part = _of_bind(new, name), f"spec.loadBalancers {name}"
            entry = None if old is None else old.entry(name)
            was = None if entry is None else entry.attributes
            if own is not None:
                asking.append(self._about_attributes(review, found, was, own, part))
            if backends is not None:
                asking.append(
                    self._about_backends(review, found, change, backends, part)
                )
        return admission.sum_up(await asyncio.gather(*asking))

    async def _about_attributes(
        self,
        review: Review,
        new: LoadBalancer,
        before: Mapping[str, str] | None,
        intent: Intent,
        part: str,
    ) -> Verdict:
        """Ask about a load balancer."""
        is_update = intent is Intent.UPDATE and before is not None
        request = ValidateLoadBalancerRequest(
            namespace=new.meta.key.namespace,
            lb_spec=dict(new.spec),
            operation=ValidationOperation(intent),
            attributes=dict(new.attributes),
            old_attributes=dict(before or {}) if is_update else None,
        )
        operation = Operation.VALIDATE_LOAD_BALANCER
        return await self._asked(review, new, intent, (operation, request, part))

    async def _about_backends(
        self,
        review: Review,
        found: LoadBalancer,
        change: _Change,
        intent: Intent,
        part: str,
    ) -> Verdict:
        """Ask about the parameters of backends at a load balancer."""
        is_update = intent is Intent.UPDATE and change.before is not None
        request = ValidateBackendRequest(
            namespace=found.meta.key.namespace,
            backend_type=change.backend_type,
            lb_info=dict(found.info or {}),
            operation=ValidationOperation(intent),
            parameters=dict(change.parameters),
            old_parameters=dict(change.before or {}) if is_update else None,
        )
        operation = Operation.VALIDATE_BACKEND
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
        verdict = admission.judge_driver(
            key, driver, load_balancer.meta.key.namespace, intent
        )
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
        if isinstance(request, ValidateLoadBalancerRequest):
            request = msgspec.structs.replace(request, member_key=driver.member_key)
        self._recall(driver.meta.key)
        try:
            answer = await self._call(load_balancer, driver, operation, request)
        except BadStatus as error:
            if error.is_unserved:
                return Admitted()
            return admission.judge_silence(str(error), self._policy)
        except DriverError as error:
            return admission.judge_silence(str(error), self._policy)
        return admission.judge_answer(driver.meta.key, answer.succ, answer.msg, part)

    @tenacity.retry(
        retry=tenacity.retry_if_exception(_is_unconnected),
        wait=tenacity.wait_fixed(_RETRY),
        stop=tenacity.stop_after_delay(_CONNECTS_WITHIN),
        reraise=True,
    )
    async def _call(
        self,
        load_balancer: LoadBalancer,
        driver: LoadBalancerDriver,
        operation: Operation,
        request: Request[ValidationAnswer],
    ) -> ValidationAnswer:
        """Ask, and for a few seconds again as long as there is no connection."""
        limit, about = load_balancer.max_concurrent_calls, load_balancer.meta.key
        async with (
            self._secrets.reading(driver),
            self._drivers.slot(driver, about, limit=limit),
        ):
            return await self._drivers.call(
                driver, operation, request, timeout=driver.timeout(operation)
            )

    def _recall(self, driver: ObjectKey) -> None:
        """Keep the connections and series of those drivers that were asked last.

        Nobody tells this process when a driver is gone.
        """
        self._asked_last[driver] = None
        self._asked_last.move_to_end(driver)
        if len(self._asked_last) > _DRIVERS_KEPT:
            oldest, _ = self._asked_last.popitem(last=False)
            self._drivers.forget(oldest)


def _read(review: Review, parse: Parse[T]) -> tuple[T, T | None]:
    """Read an object as it is to be, and as it is; None: nobody can tell what it is.

    Whoever mends what cannot be understood is judged as if it were new.

    Raises:
        Malformed: the object as it is to be cannot be understood.
    """
    new = _understood(review.new, parse)
    try:
        return new, _understood(review.old, parse) if review.old else None
    except Malformed:
        return new, None


def _understood(obj: bytes, parse: Parse[T]) -> T:
    """Read an object; one whose status is what cannot be read, without it.

    A change of the spec brings along the status that is stored, and cannot mend it.
    """
    try:
        return parse(obj)
    except Malformed:
        return parse(without_status(obj))


async def _or_none(reading: Awaitable[T]) -> T | None:
    try:
        return await reading
    except NotFound:
        return None


def _of_bind(bind: Bind, name: str) -> LoadBalancer:
    """Return the LoadBalancer that an entry of a Bind stands for."""
    entry = bind.entry(name)
    if entry is None:
        raise ValueError(f"Bind {bind.meta.key} has no load balancer {name}")
    info = next((s.info for s in bind.statuses if s.name == name), None)
    meta = attrs.evolve(bind.meta, key=bind_load_balancer_key(bind.meta.key, name))
    return LoadBalancer(meta, entry.driver, entry.spec, entry.attributes, info=info)
