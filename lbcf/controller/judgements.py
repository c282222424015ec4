"""Keeps what drivers answered about unready pods, and asks again when that is due.

Before it: `reconciler` has a snapshot with unready pods that are registered. After it:
the snapshot carries its decision, and once the driver has answered the group is looked
at again. Asking has its own queue and workers: a driver that is slow to judge keeps no
group waiting but those that it judges.
"""

from collections.abc import Callable
from datetime import timedelta

import attrs
import structlog

from lbcf.controller.snapshot import take_snapshot
from lbcf.controller.view import View
from lbcf.core.backoff import delay_for
from lbcf.core.model.cluster import Pod, Snapshot
from lbcf.core.model.resources import BackendGroup, LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation
from lbcf.core.selection.webhook_policy import (
    WebhookAnswer,
    decide_unready_pods,
    pods_in_question,
)
from lbcf.executor.pod_judge import PodJudge
from lbcf.runtime.clock import Clock
from lbcf.runtime.limiter import ConcurrencyLimiter, Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, RequeueAfter, Result


_ASKED_AGAIN = timedelta(minutes=1)
"""Between two questions about pods that stay as they are: LBCF asked at each resync,
every minute; a driver may keep a pod for a while only."""

_log = structlog.get_logger(__name__)


@attrs.frozen
class _KnownDecision:
    """What a group's driver last answered.

    Attributes:
        asked_of: uid and generation of the driver that was asked.
        generation: of the group then.
        due: monotonic seconds at which to ask again although nothing changed.
        failures: questions in a row without a valid answer.
    """

    answer: WebhookAnswer
    asked_of: tuple[str, int]
    generation: int
    due: float
    failures: int = 0

    def holds(
        self, group: BackendGroup, driver: LoadBalancerDriver, pods: tuple[Pod, ...]
    ) -> bool:
        """Tell whether nothing has changed since."""
        asked_of = (driver.meta.uid, driver.meta.generation)
        same = (asked_of, group.meta.generation) == (self.asked_of, self.generation)
        return same and self.answer.covers(pods)


class Judgements:
    """What drivers say of unready pods, by group.

    Args:
        view: what has been read.
        queue: of groups whose driver is to be asked.
        judge: asks.
        look_again: told the group once there is an answer.
        clock: times the next question.
        shares: of the queue's workers.
    """

    def __init__(
        self,
        view: View,
        queue: WorkQueue[ObjectKey],
        judge: PodJudge,
        look_again: Callable[[ObjectKey], None],
        clock: Clock,
        *,
        shares: Shares,
    ) -> None:
        self._view = view
        self._queue = queue
        self._judge = judge
        self._shares = shares
        self._look_again = look_again
        self._clock = clock
        self._limiter = ConcurrencyLimiter(queue)
        self._known: dict[ObjectKey, _KnownDecision] = {}

    def consider(self, snapshot: Snapshot) -> Snapshot:
        """Add to a snapshot what is known, and have asked what is not."""
        group = snapshot.group
        pods = pods_in_question(snapshot)
        if group.webhook is None or group.webhook_driver_key is None or not pods:
            self._known.pop(group.meta.key, None)
            return snapshot
        driver = self._view.driver(group.webhook_driver_key)
        if isinstance(driver, Explanation):
            answer: WebhookAnswer | None = _unasked(pods, driver)
        else:
            known = self._known.get(group.meta.key)
            answer = None if known is None else known.answer
            if known is None or not known.holds(group, driver, pods):
                self._queue.add(group.meta.key)
        decision = decide_unready_pods(group.webhook, pods, answer)
        return attrs.evolve(snapshot, webhook_decision=decision)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Ask about one group's pods, if there is anything to ask now."""
        with self._limiter.looking_at(key):
            return await self._look(key)

    async def _look(self, key: ObjectKey) -> Result:
        """Ask, when there is room for the question."""
        group = self._view.groups.get(key)
        if group is None or group.webhook_driver_key is None:
            self._known.pop(key, None)
            return Done()
        where = group.webhook_driver_key
        driver = self._view.driver(where)
        snapshot = take_snapshot(self._view, group)
        if isinstance(driver, Explanation) or isinstance(snapshot, Explanation):
            # What is mended brings the group, which has its pods asked about again only
            # if nothing is known: an old answer would keep them for good.
            self._known.pop(key, None)
            return Done()
        pods = pods_in_question(snapshot)
        if not pods:
            return Done()
        known = self._known.get(key)
        if known is not None and known.holds(group, driver, pods):
            rest = known.due - self._clock.monotonic()
            if rest > 0:
                return RequeueAfter(timedelta(seconds=rest))
        limits = (
            *self._shares.at_driver(where, driver, key.namespace),
            self._shares.of_namespace(key.namespace),
        )
        return await self._limiter.turn(
            limits, key, lambda _slot: self._ask(group, driver, pods)
        )

    async def _ask(
        self, group: BackendGroup, driver: LoadBalancerDriver, pods: tuple[Pod, ...]
    ) -> Result:
        """Ask, keep the answer, and let the group be looked at."""
        key = group.meta.key
        answer = await self._judge.ask(driver, pods)
        before = self._known.get(key)
        failures, rest = 0, _ASKED_AGAIN
        if answer.trouble is not None:
            failures = 1 if before is None else before.failures + 1
            rest = delay_for(failures, self._clock.jitter())
        _log.info(
            "pods.judged",
            group=str(key),
            driver=str(driver.meta.key),
            asked=len(answer.asked),
            kept=len(answer.kept),
            trouble=None if answer.trouble is None else answer.trouble.message,
        )
        self._known[key] = _KnownDecision(
            answer=answer,
            asked_of=(driver.meta.uid, driver.meta.generation),
            generation=group.meta.generation,
            due=self._clock.monotonic() + rest.total_seconds(),
            failures=failures,
        )
        if before is None or before.answer != answer:
            self._look_again(key)
        return RequeueAfter(rest)


def _unasked(pods: tuple[Pod, ...], driver: Explanation) -> WebhookAnswer:
    """Say of all pods that nobody could be asked."""
    return WebhookAnswer(
        versions=frozenset(),
        asked=frozenset(pod.meta.uid for pod in pods),
        trouble=driver,
    )
