"""The life of LoadBalancerDrivers: finalizer, conditions, health.

`Accepted` says whether a driver can be called, credentials included; `Healthy` is what it
answers to healthz, where it declares that. Neither keeps anybody from calling: calls tell by
themselves whether they work. Our finalizer keeps a driver until nothing needs it.
"""

from collections import defaultdict
from datetime import timedelta
from urllib.parse import urlsplit

import structlog

from lbcf.controller.other_shards import needs_elsewhere
from lbcf.controller.view import View, needs_of
from lbcf.core.backoff import delay_for
from lbcf.core.model import conditions, names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import home_of
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    LoadBalancer,
    LoadBalancerDriver,
)
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.drivers.errors import DriverError, SecretUnread
from lbcf.drivers.pool import DriverPool
from lbcf.executor.object_events import AbandonmentReporter
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import Conflict, NotFound
from lbcf.kube.reader import KubeReader
from lbcf.runtime.clock import Clock
from lbcf.runtime.limiter import ConcurrencyLimiter, Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, Parked, RequeueAfter, Result
from lbcf.wire.driver_requests import HealthzRequest
from lbcf.wire.resources import render_driver_status


_log = structlog.get_logger(__name__)

_SOON = timedelta(seconds=1)
_PERIOD = timedelta(seconds=15)
"""Between two questions to a driver that is well: who is not is asked again sooner."""
_COUNT = timedelta(seconds=5)
"""How long ends are gathered before it is told again who needs a driver that is to go."""
_ELSEWHERE = timedelta(seconds=10)
"""Between two questions whether another shard's objects need a driver that is to go."""


class DriverFinalizer:
    """Puts our finalizer on drivers and takes it off.

    Without its driver nobody could take a backend out of a load balancer any more, and in
    a namespace that is being deleted nobody could put the driver back.

    Args:
        view: what has been read.
        writer: writes drivers.
        queue: of drivers to look at.
        abandonments: hears of drivers that were let go while something needs them.
        client: asked for what other shards have.
    """

    def __init__(
        self,
        view: View,
        writer: ObjectWriter[LoadBalancerDriver],
        queue: WorkQueue[ObjectKey],
        abandonments: AbandonmentReporter,
        client: KubeReader,
    ) -> None:
        self._client = client
        self._view = view
        self._writer = writer
        self._queue = queue
        self._abandonments = abandonments

    def listen(self) -> None:
        """Look at a driver that waits for its end when who needs it changes."""
        view = self._view
        view.load_balancers.on_change(self._user_changed)
        view.records.on_change(self._user_changed)
        view.groups.on_change(self._group_changed)
        for store in (view.load_balancers, view.records, view.groups, view.binds):
            store.on_unreadable(self._unreadable_changed)

    def _user_changed(
        self,
        old: LoadBalancer | BackendRecord | None,
        new: LoadBalancer | BackendRecord | None,
    ) -> None:
        # An object never changes its driver: only its end can free one.
        if old is None or new is not None:
            return
        key, view = old.driver_key, self._view
        stores = (view.records, view.load_balancers)
        is_needed = any(store.count("driver", key) for store in stores)
        self._look_at(key, _COUNT if is_needed else timedelta(0))

    def _group_changed(
        self, old: BackendGroup | None, new: BackendGroup | None
    ) -> None:
        before = None if old is None else old.webhook_driver_key
        if before is not None and (new is None or new.webhook_driver_key != before):
            self._look_at(before)

    def _unreadable_changed(self, _key: ObjectKey) -> None:
        # What cannot be read may need any driver.
        for driver in self._view.drivers.values():
            if driver.meta.deleting_since is not None:
                self._queue.add(driver.meta.key)

    def _look_at(self, key: ObjectKey, after: timedelta = timedelta(0)) -> None:
        driver = self._view.drivers.get(key)
        if driver is not None and driver.meta.deleting_since is not None:
            self._queue.add_after(key, after)

    async def hold(self, driver: LoadBalancerDriver) -> LoadBalancerDriver:
        """Put our finalizer on, if it is not there.

        Raises:
            KubeError: it could not be written.
        """
        meta = driver.meta
        if names.FINALIZER_DRIVER in meta.finalizers:
            return driver
        return await self._writer.hold(meta, names.FINALIZER_DRIVER)

    async def let_go(self, driver: LoadBalancerDriver) -> Condition | None:
        """Take our finalizer off a driver that nothing needs; else say who needs it.

        Raises:
            KubeError: it could not be written.
        """
        meta = driver.meta
        if names.FINALIZER_DRIVER not in meta.finalizers:
            return None
        why = meta.abandoned
        needs = needs_of(self._view, meta.key)
        if not (needs or self._view.shard.is_whole):
            needs = await needs_elsewhere(self._client, meta.key)
        if needs and not why:
            message = f"being deleted; waits for {'; '.join(needs)}"
            kind, generation = conditions.ACCEPTED, meta.generation
            return Condition(kind, True, Reason.IN_USE, message, generation)
        await self._writer.release(meta, names.FINALIZER_DRIVER)
        if needs:
            _log.warning("driver.abandoned", driver=str(meta.key), why=why, needs=needs)
            self._abandonments.tell("LoadBalancerDriver", meta, why)
        else:
            _log.info("driver.released", driver=str(meta.key))
        return None


class DriverReconciler:
    """Reconciles drivers.

    Args:
        view: what has been read.
        writer: writes drivers.
        drivers: the webhook services.
        finalizer: keeps drivers that are needed.
        clock: times the conditions.
        queue: of drivers to reconcile.
        shares: of the queue's workers.
    """

    def __init__(
        self,
        view: View,
        writer: ObjectWriter[LoadBalancerDriver],
        drivers: DriverPool,
        finalizer: DriverFinalizer,
        clock: Clock,
        *,
        queue: WorkQueue[ObjectKey],
        shares: Shares,
    ) -> None:
        self._view = view
        self._finalizer = finalizer
        self._writer = writer
        self._drivers = drivers
        self._clock = clock
        self._limiter = ConcurrencyLimiter(queue)
        self._shares = shares
        self._unhealthy_answers: defaultdict[ObjectKey, int] = defaultdict(int)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Hold one driver, or let it go, and write what is to be said of it."""
        with self._limiter.looking_at(key):
            return await self._look(key)

    async def _look(self, key: ObjectKey) -> Result:
        """Do what needs no answer of the driver's own first: that may take long."""
        driver = self._view.drivers.get(key)
        if driver is None:
            self._unhealthy_answers.pop(key, None)
            return Done()
        if (rest := self._writer.rest(driver.meta)) is not None:
            return Parked(rest)
        try:
            if driver.meta.deleting_since is not None:
                return await self._end(driver)
            driver = await self._finalizer.hold(driver)
        except (Conflict, NotFound):
            return Done()  # it changed, which brings its key back
        accepted = self._judged(driver)
        if accepted is None:
            return RequeueAfter(_SOON)
        is_callable = accepted.status is True
        told = (judge_scope(driver) if is_callable else None) or accepted
        found = conditions.with_condition(driver.conditions, told, self._clock.now())
        if not (is_callable and driver.declares(Operation.HEALTHZ)):
            # Nobody asks it, so that what it said last would stand for ever.
            found = tuple(c for c in found if c.type != conditions.HEALTHY)
            await self._write(driver, found)
            return Done() if is_callable else RequeueAfter(_PERIOD)
        limits = (self._shares.of_namespace(key.namespace),)
        return await self._limiter.turn(
            limits, key, lambda _slot: self._check(driver, found)
        )

    async def _check(
        self, driver: LoadBalancerDriver, found: tuple[Condition, ...]
    ) -> Result:
        healthy = await self._ask(driver)
        found = conditions.with_condition(found, healthy, self._clock.now())
        await self._write(driver, found)
        return RequeueAfter(self._until_next(driver.meta.key, healthy))

    def _until_next(self, key: ObjectKey, healthy: Condition) -> timedelta:
        """Return when a driver is asked again."""
        if healthy.status is True:
            self._unhealthy_answers.pop(key, None)
            return _PERIOD
        # Of a driver just installed the first question may come before kube-proxy knows
        # its pod: what was refused then must not be told for a whole period.
        self._unhealthy_answers[key] += 1
        answers, jitter = self._unhealthy_answers[key], self._clock.jitter()
        return delay_for(answers, jitter, cap=_PERIOD)

    def _judged(self, driver: LoadBalancerDriver) -> Condition | None:
        """Return whether a driver can be called; None: its Secrets are being read."""
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
        needed = await self._finalizer.let_go(driver)
        if needed is None:
            return Done()
        now = self._clock.now()
        found = conditions.with_condition(driver.conditions, needed, now)
        await self._write(driver, found)
        # Of what other shards have no watch tells here that it has ended.
        return Done() if self._view.shard.is_whole else RequeueAfter(_ELSEWHERE)

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
            body = render_driver_status(found, driver.meta.generation)
            await self._writer.patch(driver.meta, body, "status")
        except (Conflict, NotFound):
            return  # it changed, which brings its key back
        _log.info(
            "driver.told",
            driver=str(driver.meta.key),
            conditions={c.type: c.reason for c in found},
        )


def judge_url(driver: LoadBalancerDriver) -> Condition:
    """Return whether a driver's URL can be called."""
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
    """Return the condition that a driver's scope has no effect; None: it has, or there is none.

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
