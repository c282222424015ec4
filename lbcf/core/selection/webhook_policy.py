"""deregisterPolicy Webhook: a driver decides which unready pods stay registered.

Only pods whose unreadiness would take them out are asked about; pods that terminate, or
have ended, leave whatever the driver answers.
"""

from collections.abc import Iterable, Mapping

import attrs

from lbcf.core.model.cluster import Pod, Snapshot
from lbcf.core.model.resources import PodRef
from lbcf.core.model.values import (
    DeregisterPolicy,
    DeregisterWebhook,
    FailurePolicy,
    Uid,
)
from lbcf.core.model.verdicts import Ineligible, Undecided, Verdict, WebhookDecision
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.eligibility import judge_pod
from lbcf.core.selection.legacy import with_uids


KEPT_BY_WEBHOOK = frozenset(
    {Reason.KEPT_BY_DRIVER, Reason.NOT_JUDGED, Reason.BEING_JUDGED}
)


@attrs.frozen
class WebhookAnswer:
    """What came of one question.

    Attributes:
        versions: uid and resourceVersion of the pods that it was about.
        asked: the uids of those that the driver was shown.
        kept: the uids of those that it named.
        trouble: why it gave no valid answer; None: it gave one.
    """

    versions: frozenset[tuple[Uid, str]]
    asked: frozenset[Uid]
    kept: frozenset[Uid] = frozenset()
    trouble: Explanation | None = None

    def covers(self, pods: Iterable[Pod]) -> bool:
        """Return whether it is about these pods in their present versions."""
        return all((p.meta.uid, p.meta.resource_version) in self.versions for p in pods)


def pods_in_question(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return the pods that are registered, or about to be, and are no longer ready."""
    if snapshot.group.deregister_policy is not DeregisterPolicy.WEBHOOK:
        return ()
    recorded = {
        record.spec.backend.uid
        for record in with_uids(snapshot.records, snapshot.pods)
        if not record.is_deleting
        and isinstance(record.spec.backend, PodRef)
        and record.spec.load_balancer in snapshot.attachments
    }
    return tuple(
        pod
        for pod in snapshot.pods
        if pod.meta.uid in recorded and _leaves_by_readiness(pod)
    )


def _leaves_by_readiness(pod: Pod) -> bool:
    verdict = judge_pod(pod, DeregisterPolicy.IF_NOT_READY)
    return isinstance(verdict, Ineligible) and verdict.by_readiness


def decide_unready_pods(
    webhook: DeregisterWebhook, pods: Iterable[Pod], answer: WebhookAnswer | None
) -> WebhookDecision:
    """Return the verdict on each pod in question.

    Args:
        webhook: of the group.
        pods: in question.
        answer: the last one, None where nothing was asked yet.
    """
    verdicts = {pod.meta.uid: _verdict(webhook, pod, answer) for pod in pods}
    return WebhookDecision(verdicts, None if answer is None else answer.trouble)


def _verdict(
    webhook: DeregisterWebhook, pod: Pod, answer: WebhookAnswer | None
) -> Ineligible | Undecided:
    name, driver = pod.meta.key.name, webhook.driver
    if answer is None or pod.meta.uid not in answer.asked:
        message = f"driver {driver} is being asked about pod {name}"
        return Undecided(Reason.BEING_JUDGED, message)
    if answer.trouble is None:
        if pod.meta.uid in answer.kept:
            message = f"driver {driver} keeps unready pod {name}"
            return Undecided(Reason.KEPT_BY_DRIVER, message)
        message = f"pod {name} is not ready and driver {driver} does not keep it"
        return Ineligible(Reason.POD_NOT_READY, message, by_readiness=True)
    policy = webhook.failure_policy
    why = f"no answer of driver {driver}; failurePolicy {policy}"
    if policy is FailurePolicy.IF_NOT_READY:
        message = f"pod {name} is not ready; {why}"
        return Ineligible(Reason.POD_NOT_READY, message, by_readiness=True)
    return Undecided(Reason.NOT_JUDGED, f"{why} keeps unready pod {name}")


def with_judgement(
    verdicts: Mapping[Uid, Verdict], decision: WebhookDecision
) -> dict[Uid, Verdict]:
    """Replace the verdicts on pods that nothing but unreadiness keeps out."""
    judged = {
        uid: verdict
        for uid, verdict in decision.verdicts.items()
        if isinstance(before := verdicts.get(uid), Undecided)
        and before.reason == Reason.POD_NOT_READY
    }
    return {**verdicts, **judged}
