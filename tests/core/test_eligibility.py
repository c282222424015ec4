"""Which pods are backends: the order of the checks, their reasons, the policies."""

import pytest

from lbcf.core.model.names import READINESS_GATE
from lbcf.core.model.readiness import PodCondition, can_serve
from lbcf.core.model.values import DeregisterPolicy
from lbcf.core.model.verdicts import Eligible, Ineligible, Undecided
from lbcf.core.reasons import Reason
from lbcf.core.selection.eligibility import judge_pod
from tests.builders import a_pod


STRICT = DeregisterPolicy.IF_NOT_READY
PATIENT = DeregisterPolicy.IF_NOT_RUNNING
CAREFREE = DeregisterPolicy.IF_TERMINATING


@pytest.mark.parametrize("policy", DeregisterPolicy)
def test_ready_pod_with_an_address_is_a_backend(policy: DeregisterPolicy) -> None:
    """All that is needed is an address and a readiness probe that says yes."""
    assert Eligible() == judge_pod(a_pod(), policy)


@pytest.mark.parametrize("policy", DeregisterPolicy)
def test_terminating_pod_leaves_whatever_it_still_serves(
    policy: DeregisterPolicy,
) -> None:
    """Deletion comes before all else: a pod that is going may still be ready."""
    verdict = judge_pod(a_pod(deleting=True, phase="Failed"), policy)

    assert Ineligible(Reason.POD_TERMINATING, "pod web-1 is being deleted") == verdict


@pytest.mark.parametrize("policy", DeregisterPolicy)
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pod_leaves(policy: DeregisterPolicy, phase: str) -> None:
    """A terminal phase is the end, even before readiness and address say so."""
    verdict = judge_pod(a_pod(phase=phase, ready=False, address=""), policy)

    assert Ineligible(Reason.POD_FINISHED, f"pod web-1 has ended: {phase}") == verdict


def test_unready_pod_leaves_by_readiness_alone() -> None:
    """IfNotReady takes it out, marked as what a guard may hold."""
    verdict = judge_pod(a_pod(ready=False), STRICT)

    assert (
        Ineligible(Reason.POD_NOT_READY, "pod web-1 is not ready", by_readiness=True)
        == verdict
    )


def test_unready_pod_that_lost_its_address_leaves() -> None:
    """Its sandbox is gone and its address may be anybody's: it is not kept in."""
    verdict = judge_pod(a_pod(ready=False, address=""), STRICT)

    assert isinstance(verdict, Ineligible)
    assert (Reason.POD_NOT_READY, True) == (verdict.reason, verdict.by_readiness)


def test_unready_pod_waits_where_only_its_end_counts() -> None:
    """IfNotRunning neither registers nor deregisters a pod that is merely not ready."""
    verdict = judge_pod(a_pod(ready=False), PATIENT)

    assert isinstance(verdict, Undecided)
    assert Reason.POD_NOT_READY == verdict.reason
    assert "deregisterPolicy IfNotRunning keeps it" in verdict.message


def test_unready_pod_is_in_where_readiness_counts_for_nothing() -> None:
    """IfTerminating registers a pod as soon as it has an address."""
    assert Eligible() == judge_pod(a_pod(ready=False), CAREFREE)
    assert isinstance(judge_pod(a_pod(ready=False, address=""), CAREFREE), Undecided)


@pytest.mark.parametrize("phase", ["Pending", "Unknown", ""])
def test_phase_that_is_not_terminal_ends_nothing(phase: str) -> None:
    """A node that has not been heard of is no reason to throw its pods out."""
    assert Eligible() == judge_pod(a_pod(phase=phase), PATIENT)


@pytest.mark.parametrize("policy", DeregisterPolicy)
def test_ready_pod_without_an_address_waits(policy: DeregisterPolicy) -> None:
    """There is nothing to register yet, and no reason to deregister."""
    verdict = judge_pod(a_pod(address=""), policy)

    assert (
        Undecided(Reason.POD_HAS_NO_ADDRESS, "pod web-1 has no address yet") == verdict
    )


@pytest.mark.parametrize(
    ("gate", "containers", "reason", "serves"),
    [
        pytest.param(False, True, "ReadinessGatesNotReady", True, id="gate is shut"),
        pytest.param(
            True, True, "ReadinessGatesNotReady", True, id="not seen open yet"
        ),
        pytest.param(True, True, "NodeNotReady", False, id="node is lost"),
        pytest.param(False, False, "ContainersNotReady", False, id="containers"),
    ],
)
def test_pod_with_our_gate_serves_by_its_containers(
    reason: str, *, gate: bool, containers: bool, serves: bool
) -> None:
    """Ready itself waits for the gate, and the gate for the registration."""
    conditions = {
        "Ready": PodCondition(is_true=False, reason=reason),
        "ContainersReady": PodCondition(is_true=containers),
        READINESS_GATE: PodCondition(is_true=gate),
    }

    assert serves is can_serve(conditions, [READINESS_GATE])
    assert not can_serve(conditions, [READINESS_GATE, "another"])
