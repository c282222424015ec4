"""A driver's own conditions: whether it can be used, and whether it is well.

Before it: a LoadBalancerDriver or a Secret of it changed, or its period is over. After
it: `Accepted` says whether it can be called, credentials included, `Healthy` what the driver itself answers to healthz, which
is asked of those that list it. Neither keeps anybody from calling: calls tell by
themselves whether they work.
"""

from datetime import timedelta
from urllib.parse import urlsplit

import structlog

from lbcf.controller.driver_holds import DriverHolds
from lbcf.controller.view import View
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import home_of
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.drivers.errors import DriverError, SecretUnread
from lbcf.drivers.pool import DriverPool
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import Conflict, NotFound
from lbcf.runtime.clock import Clock
from lbcf.runtime.limiter import ConcurrencyLimiter, Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, RequeueAfter, Result
from lbcf.wire.driver_requests import HealthzRequest
from lbcf.wire.resources import render_driver_status


_log = structlog.get_logger(__name__)

_SOON = timedelta(seconds=1)
_PERIOD = timedelta(seconds=15)


class DriverCare:
    """Looks after drivers."""

    def __init__(
        self,
        view: View,
        writer: ObjectWriter[LoadBalancerDriver],
        drivers: DriverPool,
        holds: DriverHolds,
        clock: Clock,
        *,
        queue: WorkQueue[ObjectKey],
        shares: Shares,
    ) -> None:
        self._view = view
        self._holds = holds
        self._writer = writer
        self._drivers = drivers
        self._clock = clock
        self._limiter = ConcurrencyLimiter(queue)
        self._shares = shares

    async def reconcile(self, key: ObjectKey) -> Result:
        """Hold one driver, or let it go, and write what is to be said of it."""
        with self._limiter.looking_at(key):
            return await self._look(key)

    async def _look(self, key: ObjectKey) -> Result:
        """Do what needs no answer of the driver's own first: that may take long."""
        driver = self._view.drivers.get(key)
        if driver is None:
            return Done()
        if (rest := self._writer.rest(driver.meta)) is not None:
            return RequeueAfter(rest)
        try:
            if driver.meta.deleting_since is not None:
                return await self._end(driver)
            driver = await self._holds.hold(driver)
        except (Conflict, NotFound):
            return Done()  # it changed, which brings its key back
        accepted = self._judged(driver)
        if accepted is None:
            return RequeueAfter(_SOON)
        is_callable = accepted.status is True
        told = (judge_scope(driver) if is_callable else None) or accepted
        found = conditions.with_condition(driver.conditions, told, self._clock.now())
        if not (is_callable and driver.declares(Operation.HEALTHZ)):
            await self._write(driver, found)
            return Done() if is_callable else RequeueAfter(_PERIOD)
        limits = (self._shares.of_namespace(key.namespace),)
        return await self._limiter.turn(
            limits, key, lambda _slot: self._check(driver, found)
        )

    async def _check(
        self, driver: LoadBalancerDriver, found: tuple[Condition, ...]
    ) -> Result:
        """Ask a driver how it is, and write that with the rest."""
        healthy = await self._ask(driver)
        found = conditions.with_condition(found, healthy, self._clock.now())
        await self._write(driver, found)
        return RequeueAfter(_PERIOD)

    def _judged(self, driver: LoadBalancerDriver) -> Condition | None:
        """Say whether a driver can be called; None: its Secrets are being read."""
        accepted = judge_url(driver)
        refusal = self._drivers.refusal(driver) if accepted.status is True else None
        if refusal is None:
            return accepted
        if isinstance(refusal, SecretUnread) and not refusal.is_told:
            return None
        generation = driver.meta.generation
        return Condition(
            conditions.ACCEPTED, False, refusal.reason, refusal.message, generation
        )

    async def _end(self, driver: LoadBalancerDriver) -> Result:
        """Let a driver go that is being deleted, or tell what it waits for."""
        needed = await self._holds.let_go(driver)
        if needed is None:
            return Done()
        now = self._clock.now()
        found = conditions.with_condition(driver.conditions, needed, now)
        await self._write(driver, found)
        return Done()

    async def _ask(self, driver: LoadBalancerDriver) -> Condition:
        """Ask a driver how it is."""
        generation, operation = driver.meta.generation, Operation.HEALTHZ
        kind = conditions.HEALTHY
        try:
            answer = await self._drivers.call(
                driver, operation, HealthzRequest(), timeout=driver.timeout(operation)
            )
        except DriverError as error:
            return Condition(kind, False, error.reason, error.message, generation)
        if answer.healthy:
            return Condition(kind, True, Reason.HEALTHY, answer.msg, generation)
        message = answer.msg or "the driver answered healthy: false"
        return Condition(kind, False, Reason.UNHEALTHY, message, generation)

    async def _write(
        self, driver: LoadBalancerDriver, found: tuple[Condition, ...]
    ) -> None:
        """Write a driver's conditions, if they are news."""
        if found == driver.conditions:
            return
        try:
            body = render_driver_status(found)
            await self._writer.patch(driver.meta, body, "status")
        except (Conflict, NotFound):
            return  # it changed, which brings its key back
        _log.info(
            "driver.told",
            driver=str(driver.meta.key),
            conditions={c.type: c.reason for c in found},
        )


def judge_url(driver: LoadBalancerDriver) -> Condition:
    """Say whether a driver's URL can be called."""
    generation = driver.meta.generation
    try:
        parts = urlsplit(driver.url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if usable:
        return Condition(conditions.ACCEPTED, True, Reason.ACCEPTED, "", generation)
    message = (
        f"spec.url {driver.url!r} must be http://HOST[:PORT][/PATH] or https://..."
    )
    return Condition(
        conditions.ACCEPTED, False, Reason.URL_UNUSABLE, message, generation
    )


def judge_scope(driver: LoadBalancerDriver) -> Condition | None:
    """Say that a driver's scope has no effect; None: it has, or there is none.

    The driver is called all the same: for its own namespace, as if the scope were empty.
    """
    key = driver.meta.key
    is_shared = key == home_of(key.name, "")
    if is_shared or not driver.scope:
        return None
    message = (
        "spec.scope has no effect here: only a driver in kube-system whose name begins "
        f"with lbcf- can be named from other namespaces, {key} cannot. Take spec.scope "
        "out, or make the driver there"
    )
    kind, generation = conditions.ACCEPTED, driver.meta.generation
    return Condition(kind, False, Reason.SCOPE_NOT_ALLOWED, message, generation)
