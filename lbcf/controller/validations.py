"""Asks drivers whether they take the parameters of groups, and keeps what they said.

Before it: `reconciler` has a plan that brings something to a load balancer. After it:
the plan holds back what the driver has not agreed to, and once it has answered the group
is looked at again. `lbcf admission` asks the same before a group is stored, where it is
installed; a group that came past it meets its driver's word here, as a condition.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

import attrs
import structlog

from lbcf.controller.snapshot import find_attachment
from lbcf.controller.view import View
from lbcf.core.backoff import delay_for
from lbcf.core.lifecycle.turn import describe_failure
from lbcf.core.model.cluster import Attachment, Snapshot
from lbcf.core.model.names import own_name
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendGroup, BackendRecord, PodRef
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.legacy import is_about
from lbcf.core.selection.location import node_of
from lbcf.core.selection.plan import Plan
from lbcf.core.selection.validation import (
    ParameterQuestion,
    UnvalidatedParameters,
    changed_by,
    hold_unvalidated,
    question_about,
)
from lbcf.executor import LoadBalancerCalls
from lbcf.runtime.clock import Clock
from lbcf.runtime.limiter import ConcurrencyLimiter, Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, RequeueAfter, Result


Place = tuple[ObjectKey, str]
"""A group, and the name of one of its load balancers."""

_log = structlog.get_logger(__name__)


@attrs.frozen
class _Parties:
    """Who is asked about what: the uids of group, load balancer and driver."""

    group: Uid
    load_balancer: Uid
    driver: Uid
    driver_generation: int

    @classmethod
    def of(cls, group: BackendGroup, attachment: Attachment) -> "_Parties":
        """Say who they are."""
        driver = attachment.driver.meta
        balancer = attachment.load_balancer.meta
        return cls(group.meta.uid, balancer.uid, driver.uid, driver.generation)


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


class Validations:
    """What drivers say of groups' parameters, by group and load balancer.

    Args:
        view: what has been read.
        queue: of those whose driver is to be asked.
        calls: asks.
        look_again: told the group once there is an answer.
        clock: times the next question.
        shares: of the queue's workers.
    """

    def __init__(
        self,
        view: View,
        queue: WorkQueue[Place],
        calls: LoadBalancerCalls,
        look_again: Callable[[ObjectKey], None],
        clock: Clock,
        *,
        shares: Shares,
    ) -> None:
        self._view = view
        self._queue = queue
        self._calls = calls
        self._shares = shares
        self._look_again = look_again
        self._clock = clock
        self._limiter = ConcurrencyLimiter(queue)
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
        return hold_unvalidated(plan, unagreed, self._is_there), doubts

    def _unagreed(
        self, snapshot: Snapshot, name: str, is_brought: bool
    ) -> UnvalidatedParameters | None:
        """Say why a driver has not agreed at a load balancer; None: it has, or need not."""
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
        parties = _Parties.of(group, attachment)
        if known is None or (known.parties, known.parameters) != (
            parties,
            group.parameters,
        ):
            return None
        return known

    def _records(self, group: BackendGroup, name: str) -> Iterator[BackendRecord]:
        """Find what a group has at one of its load balancers."""
        for record in self._view.records_of(group.meta.key):
            same = record.group_uid == group.meta.uid
            if same and record.spec.load_balancer == name:
                yield record

    def _is_there(self, record: BackendRecord) -> bool:
        """Tell whether the pod or node of a record still exists."""
        backend = record.spec.backend
        if isinstance(backend, PodRef):
            pod = self._view.pods.get(
                ObjectKey(record.meta.key.namespace, backend.name)
            )
            return pod is not None and is_about(record, pod) and not pod.is_terminating
        return self._view.nodes.get(ObjectKey("", node_of(record))) is not None

    async def reconcile(self, place: Place) -> Result:
        """Ask about one group at one load balancer, if there is anything to ask now."""
        with self._limiter.looking_at(place):
            return await self._look(place)

    async def _look(self, place: Place) -> Result:
        """Ask, when there is room for the question."""
        key, name = place
        group = self._view.groups.get(key)
        if group is None or group.meta.deleting_since is not None:
            self.forget(key)  # it may have gone while its driver answered
            return Done()
        found = find_attachment(self._view, group, name)
        if not isinstance(found, Attachment):
            # What is mended brings the group, which has it asked about again only if
            # nothing is known: an old doubt would answer for good.
            self._known[key].pop(name, None)
            return Done()
        question = question_about(group, self._records(group, name))
        if question is None:
            self._note(group, found)
            self._look_again(key)
            return Done()
        known = self._current(group, found)
        if known is not None:
            if known.doubt is None:
                return Done()
            rest = known.due - self._clock.monotonic()
            if rest > 0:
                return RequeueAfter(timedelta(seconds=rest))
        driver = found.driver
        limits = (
            *self._shares.at_driver(driver.meta.key, driver, key.namespace),
            self._shares.of_namespace(key.namespace),
        )
        return await self._limiter.turn(
            limits, place, lambda _slot: self._ask(group, found, question)
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
            _Parties.of(group, attachment),
            group.parameters,
            doubt,
            self._clock.monotonic() + rest.total_seconds(),
            failures,
        )
