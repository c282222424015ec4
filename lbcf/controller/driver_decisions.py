"""What drivers are asked about groups: their unready pods, and their parameters.

An answer is kept for as long as its question stays the same, and asked for again where it
was a failure. Asking has queues and workers of its own: a driver that is slow to answer
keeps no group waiting but those that it decides about. `lbcf admission` asks about
parameters before a group is stored, where it is installed; a group that came past it meets
its driver's word here, as a condition.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from datetime import timedelta
from typing import Generic, TypeVar

import attrs
import structlog

from lbcf.controller.snapshot import find_attachment, take_snapshot
from lbcf.controller.view import View
from lbcf.core.backoff import delay_for
from lbcf.core.lifecycle.turn import describe_failure
from lbcf.core.model.cluster import Attachment, Pod, Snapshot
from lbcf.core.model.names import own_name
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    LoadBalancerDriver,
)
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.plan import Plan
from lbcf.core.selection.validation import (
    ParameterQuestion,
    UnvalidatedParameters,
    changed_by,
    hold_unvalidated,
    question_about,
)
from lbcf.core.selection.webhook_policy import (
    WebhookAnswer,
    decide_unready_pods,
    pods_in_question,
)
from lbcf.executor import LoadBalancerCalls
from lbcf.executor.pod_judge import PodJudge
from lbcf.runtime.clock import Clock
from lbcf.runtime.limiter import ConcurrencyLimiter, Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, RequeueAfter, Result


K = TypeVar("K", bound=Hashable)

AttachmentKey = tuple[ObjectKey, str]
"""A group, and the name of one of its load balancers."""

_ASKED_AGAIN = timedelta(minutes=1)
"""Between two questions about pods that stay as they are: LBCF asked at each resync,
every minute; a driver may keep a pod for a while only."""

_log = structlog.get_logger(__name__)


class _Asker(Generic[K]):
    """Asks drivers the questions of a queue, as far as their shares allow.

    Args:
        view: what has been read.
        queue: of those whose driver is to be asked.
        look_again: told the group once there is an answer.
        clock: times the next question.
        shares: of the queue's workers.
    """

    def __init__(
        self,
        view: View,
        queue: WorkQueue[K],
        look_again: Callable[[ObjectKey], None],
        clock: Clock,
        shares: Shares,
    ) -> None:
        self._view = view
        self._queue = queue
        self._look_again = look_again
        self._clock = clock
        self._shares = shares
        self._limiter = ConcurrencyLimiter(queue)

    async def reconcile(self, key: K) -> Result:
        """Ask one driver, if there is anything to ask now."""
        with self._limiter.looking_at(key):
            return await self._look(key)

    async def _look(self, key: K) -> Result:
        raise NotImplementedError

    async def _turn(
        self,
        key: K,
        namespace: str,
        driver: LoadBalancerDriver,
        ask: Callable[[], Awaitable[Result]],
    ) -> Result:
        """Ask when there is room for the question."""
        limits = (
            *self._shares.at_driver(driver.meta.key, driver, namespace),
            self._shares.of_namespace(namespace),
        )
        return await self._limiter.turn(limits, key, lambda _slot: ask())

    def _until(self, due: float) -> RequeueAfter | None:
        rest = due - self._clock.monotonic()
        return RequeueAfter(timedelta(seconds=rest)) if rest > 0 else None


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
        """Return whether nothing has changed since."""
        asked_of = (driver.meta.uid, driver.meta.generation)
        same = (asked_of, group.meta.generation) == (self.asked_of, self.generation)
        return same and self.answer.covers(pods)


class Judgements(_Asker[ObjectKey]):
    """What drivers say of unready pods, by group.

    Args:
        judge: asks; the others as of `_Asker`.
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
        super().__init__(view, queue, look_again, clock, shares)
        self._judge = judge
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

    async def _look(self, key: ObjectKey) -> Result:
        group = self._view.groups.get(key)
        if group is None or group.webhook_driver_key is None:
            self._known.pop(key, None)
            return Done()
        driver = self._view.driver(group.webhook_driver_key)
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
            later = self._until(known.due)
            if later is not None:
                return later
        return await self._turn(
            key, key.namespace, driver, lambda: self._ask(group, driver, pods)
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
    """Return the answer that nobody could be asked about any of the pods."""
    return WebhookAnswer(
        versions=frozenset(),
        asked=frozenset(pod.meta.uid for pod in pods),
        trouble=driver,
    )


_Parties = tuple[Uid, Uid, Uid, int]
"""The uids of group, load balancer and driver, and the driver's generation."""


def _parties_of(group: BackendGroup, attachment: Attachment) -> _Parties:
    driver, balancer = attachment.driver.meta, attachment.load_balancer.meta
    return group.meta.uid, balancer.uid, driver.uid, driver.generation


@attrs.frozen
class _KnownValidation:
    """What a driver last said of a group's parameters.

    Attributes:
        doubt: why they are not taken; None: they are.
        due: monotonic seconds at which to ask again although nothing changed.
        failures: answers in a row that were no agreement.
    """

    parties: _Parties
    parameters: Mapping[str, str]
    doubt: Explanation | None = None
    due: float = 0.0
    failures: int = 0


class Validations(_Asker[AttachmentKey]):
    """What drivers say of groups' parameters, by group and load balancer.

    Args:
        calls: asks; the others as of `_Asker`.
    """

    def __init__(
        self,
        view: View,
        queue: WorkQueue[AttachmentKey],
        calls: LoadBalancerCalls,
        look_again: Callable[[ObjectKey], None],
        clock: Clock,
        *,
        shares: Shares,
    ) -> None:
        super().__init__(view, queue, look_again, clock, shares)
        self._calls = calls
        self._known: defaultdict[ObjectKey, dict[str, _KnownValidation]] = defaultdict(
            dict
        )

    def forget(self, group: ObjectKey) -> None:
        """Be done with a group."""
        self._known.pop(group, None)

    def consider(
        self, snapshot: Snapshot, plan: Plan
    ) -> tuple[Plan, tuple[Explanation, ...]]:
        """Hold back what no driver has agreed to; have asked what is not known.

        Returns:
            What is left of the plan, and what is to be told of the group.
        """
        brought = changed_by(plan)
        unagreed = {
            name: found
            for name in snapshot.attachments
            if (found := self._unagreed(snapshot, name, name in brought)) is not None
        }
        doubts = tuple(found.doubt for found in unagreed.values())
        return hold_unvalidated(plan, unagreed, self._view.has_backend), doubts

    def _unagreed(
        self, snapshot: Snapshot, name: str, is_brought: bool
    ) -> UnvalidatedParameters | None:
        """Return why a driver has not agreed at a load balancer; None: it has, or need not."""
        group, attachment = snapshot.group, snapshot.attachments[name]
        known = self._current(group, attachment)
        is_settled = not is_brought if known is None else known.doubt is None
        if is_settled:
            return None
        question = question_about(group, self._records(group, name))
        if question is None:
            self._note(group, attachment)
            return None
        if known is not None and known.doubt is not None:
            return UnvalidatedParameters(known.doubt, question.before)
        self._queue.add((group.meta.key, name))
        message = f"the driver of LoadBalancer {name} is asked about spec.parameters"
        return UnvalidatedParameters(
            Explanation(Reason.PARAMETERS_BEING_VALIDATED, message), question.before
        )

    def _current(
        self, group: BackendGroup, attachment: Attachment
    ) -> _KnownValidation | None:
        """Find what was said of this very question."""
        name = own_name(attachment.load_balancer.meta.key)
        known = self._known[group.meta.key].get(name)
        parties = _parties_of(group, attachment)
        if known is None or (known.parties, known.parameters) != (
            parties,
            group.parameters,
        ):
            return None
        return known

    def _records(self, group: BackendGroup, name: str) -> Iterator[BackendRecord]:
        for record in self._view.records_of(group.meta.key):
            same = record.group_uid == group.meta.uid
            if same and record.spec.load_balancer == name:
                yield record

    async def _look(self, key: AttachmentKey) -> Result:
        group_key, name = key
        group = self._view.groups.get(group_key)
        if group is None or group.meta.deleting_since is not None:
            self.forget(group_key)  # it may have gone while its driver answered
            return Done()
        found = find_attachment(self._view, group, name)
        if not isinstance(found, Attachment):
            # What is mended brings the group, which has it asked about again only if
            # nothing is known: an old doubt would answer for good.
            self._known[group_key].pop(name, None)
            return Done()
        question = question_about(group, self._records(group, name))
        if question is None:
            self._note(group, found)
            self._look_again(group_key)
            return Done()
        known = self._current(group, found)
        if known is not None:
            if known.doubt is None:
                return Done()
            later = self._until(known.due)
            if later is not None:
                return later
        return await self._turn(
            key,
            group_key.namespace,
            found.driver,
            lambda: self._ask(group, found, question),
        )

    async def _ask(
        self, group: BackendGroup, attachment: Attachment, question: ParameterQuestion
    ) -> Result:
        """Ask, keep the answer, and let the group be looked at."""
        key, driver = group.meta.key, attachment.driver
        before = self._current(group, attachment)
        trouble = await self._calls.validate_backends(
            key.namespace, attachment, question
        )
        if trouble is None:
            self._note(group, attachment)
            self._look_again(key)
            return Done()
        doubt = describe_failure(trouble, driver, Operation.VALIDATE_BACKEND)
        failures = 1 if before is None else before.failures + 1
        rest = delay_for(failures, self._clock.jitter())
        self._note(group, attachment, doubt, rest, failures)
        if before is None or before.doubt != doubt:
            _log.info("group.unagreed", group=str(key), message=doubt.message)
            self._look_again(key)
        return RequeueAfter(rest)

    def _note(
        self,
        group: BackendGroup,
        attachment: Attachment,
        doubt: Explanation | None = None,
        rest: timedelta = timedelta(0),
        failures: int = 0,
    ) -> None:
        """Keep what was said."""
        name = own_name(attachment.load_balancer.meta.key)
        self._known[group.meta.key][name] = _KnownValidation(
            _parties_of(group, attachment),
            group.parameters,
            doubt,
            self._clock.monotonic() + rest.total_seconds(),
            failures,
        )
