"""Whom a driver is asked about, and what its answer, or the lack of one, means."""

import attrs
import pytest

from lbcf.core.model.cluster import Pod, Snapshot
from lbcf.core.model.values import (
    DeregisterPolicy,
    DeregisterWebhook,
    FailurePolicy,
    Uid,
)
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.plan import Plan, hold_readiness_removals, plan_group
from lbcf.core.selection.webhook_policy import (
    WebhookAnswer,
    decide_unready_pods,
    pods_in_question,
)
from tests.builders import a_backend, a_group, a_pod, a_record, a_snapshot, a_spec


WEBHOOK = DeregisterWebhook("judge")
GROUP = a_group(policy=DeregisterPolicy.WEBHOOK, webhook=WEBHOOK)
UNREADY = a_pod(ready=False)
UID = Uid("uid-web-1")
TROUBLE = Explanation(Reason.DRIVER_TIMED_OUT, "driver shop/judge: no whole answer")


def asked(*pods: Pod, record: bool = True, deleting: bool = False) -> Snapshot:
    """Take a snapshot of a judged group, with a record of the pod web-1."""
    records = (a_record(registered=True, deleting=deleting),) if record else ()
    return a_snapshot(*pods, group=GROUP, records=records)


def taken_over(pod: Pod, *, name: str = "web-1") -> Snapshot:
    """Take a snapshot of a judged group, with a record of LBCF's of the pod web-1."""
    record = a_record(name, spec=a_spec(backend=attrs.evolve(a_backend(), uid=Uid(""))))
    return a_snapshot(pod, group=GROUP, records=(record,))


def an_answer(**changes: object) -> WebhookAnswer:
    """Make an answer about the pod web-1."""
    pods = frozenset({(UID, "1")})
    return attrs.evolve(WebhookAnswer(pods, frozenset({UID})), **changes)  # type: ignore[arg-type]


def planned(answer: WebhookAnswer | None, webhook: DeregisterWebhook = WEBHOOK) -> Plan:
    """Plan for the unready, registered pod web-1."""
    snapshot = asked(UNREADY)
    decision = decide_unready_pods(webhook, pods_in_question(snapshot), answer)
    return plan_group(attrs.evolve(snapshot, webhook_decision=decision))


def test_driver_is_asked_about_unready_pods_that_are_registered() -> None:
    """Of the pods that readiness would take out, all; of no others, any."""
    ready = a_pod("web-2", address="10.0.0.2")

    assert (UNREADY,) == pods_in_question(asked(UNREADY, ready))


def test_driver_is_asked_about_pods_of_records_without_their_uid() -> None:
    """As LBCF in Go wrote them; not about a namesake of a pod that is gone."""
    later = a_pod(address="10.0.0.2", ready=False)
    later = attrs.evolve(later, meta=attrs.evolve(later.meta, uid=Uid("uid-later")))

    assert (UNREADY,) == pods_in_question(taken_over(UNREADY))
    assert () == pods_in_question(taken_over(later, name="0" * 32))


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(asked(a_pod()), id="ready"),
        pytest.param(asked(a_pod(ready=False, deleting=True)), id="terminating"),
        pytest.param(asked(a_pod(ready=False, phase="Failed")), id="ended"),
        pytest.param(asked(UNREADY, record=False), id="never registered"),
        pytest.param(asked(UNREADY, deleting=True), id="leaving already"),
        pytest.param(attrs.evolve(asked(UNREADY), attachments={}), id="no balancer"),
        pytest.param(attrs.evolve(asked(UNREADY), group=a_group()), id="other policy"),
    ],
)
def test_driver_is_not_asked_in_vain(snapshot: Snapshot) -> None:
    """Where its answer would change nothing, there is no question."""
    assert () == pods_in_question(snapshot)


def test_pod_that_the_driver_keeps_stays() -> None:
    """It is held, and the reader of the group sees by whom."""
    plan = planned(an_answer(kept=frozenset({UID})))

    assert plan.is_empty
    assert [Reason.KEPT_BY_DRIVER] == [hold.reason for hold in plan.holds]


def test_pod_that_the_driver_does_not_keep_goes() -> None:
    """It goes by readiness: the brake on those removals still counts it."""
    plan = planned(an_answer())

    [removal] = plan.removals
    assert (Reason.POD_NOT_READY, True) == (removal.reason, removal.by_readiness)
    assert "driver judge does not keep it" in removal.message
    assert hold_readiness_removals(plan, 0).is_empty


@pytest.mark.parametrize("answer", [None, an_answer(asked=frozenset())])
def test_pod_stays_until_the_driver_was_asked_about_it(
    answer: WebhookAnswer | None,
) -> None:
    """An answer about others is none about this one."""
    plan = planned(answer)

    assert plan.is_empty
    assert [Reason.BEING_JUDGED] == [hold.reason for hold in plan.holds]


@pytest.mark.parametrize(
    ("policy", "goes"),
    [
        (FailurePolicy.DO_NOTHING, False),
        (FailurePolicy.IF_NOT_READY, True),
        (FailurePolicy.IF_NOT_RUNNING, False),
    ],
)
def test_without_an_answer_the_failure_policy_holds(
    policy: FailurePolicy, goes: bool
) -> None:
    """A pod that is unready still runs: only IfNotReady takes it out."""
    webhook = DeregisterWebhook("judge", policy)

    plan = planned(an_answer(trouble=TROUBLE), webhook)

    assert goes is bool(plan.removals)
    assert goes is (Reason.NOT_JUDGED not in [hold.reason for hold in plan.holds])
    assert goes is any(removal.by_readiness for removal in plan.removals)
    [told] = plan.removals or plan.holds
    assert f"no answer of driver judge; failurePolicy {policy}" in told.message


def test_answer_holds_for_pods_as_they_were() -> None:
    """One that has changed since is to be asked about again."""
    assert an_answer().covers([UNREADY])
    assert not an_answer().covers([a_pod(ready=False, version=2)])


def test_pod_that_is_ready_again_is_not_overruled() -> None:
    """An answer that came late takes nobody out who has recovered."""
    ready = asked(a_pod())
    late = decide_unready_pods(WEBHOOK, [UNREADY], an_answer())

    plan = plan_group(attrs.evolve(ready, webhook_decision=late))

    assert () == plan.removals
    assert () == plan.holds


@pytest.mark.parametrize("trouble", [None, TROUBLE])
def test_group_hears_what_is_the_matter_with_its_judge(
    trouble: Explanation | None,
) -> None:
    """Nothing, as long as the driver answers."""
    decision = decide_unready_pods(WEBHOOK, [UNREADY], an_answer(trouble=trouble))

    assert trouble is decision.trouble
    assert decide_unready_pods(WEBHOOK, [UNREADY], None).trouble is None
