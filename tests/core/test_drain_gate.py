"""What a group says of its pods that wait for their drain."""

import attrs
import pytest

from lbcf.core.model.cluster import Pod
from lbcf.core.model.names import ANNOTATION_DRAIN_GATE, ANNOTATION_OWN_PRE_STOP
from lbcf.core.model.resources import BackendRecord
from lbcf.core.reasons import Reason
from lbcf.core.selection.drain_gate import TAKE_OVER, gate_condition
from lbcf.kube.leader_election import Timing
from tests.builders import a_backend, a_pod, a_record, a_spec, seconds


def gated(
    wait: str = "25", drain: float = 20.0, *, pod: str = "web-1"
) -> BackendRecord:
    """Make a record of a pod that waits for so long, with a drain of so long."""
    spec = a_spec(backend=a_backend(pod), drain_timeout=seconds(drain))
    return a_record(spec=spec, annotations={ANNOTATION_DRAIN_GATE: wait})


def with_own_hook(containers: str) -> Pod:
    """Make a pod some of whose containers do not wait."""
    pod = a_pod()
    said = {ANNOTATION_OWN_PRE_STOP: containers, ANNOTATION_DRAIN_GATE: "25"}
    return attrs.evolve(pod, meta=attrs.evolve(pod.meta, annotations=said))


def told(
    *records: BackendRecord, pods: tuple[Pod, ...] = (), is_told: bool = False
) -> tuple[bool | None, str] | None:
    """Say what the condition says."""
    found = gate_condition(records, pods, is_told=is_told, generation=3)
    assert found is None or 3 == found.observed_generation
    return None if found is None else (found.status, found.reason)


@pytest.mark.parametrize(
    ("wait", "drain", "expected"),
    [
        ("25", 20.0, (True, Reason.GATED)),
        ("25", 25.0, (True, Reason.GATED)),
        ("25", 30.0, (False, Reason.GRACE_TOO_SHORT)),
        ("soon", 30.0, (True, Reason.GATED)),
    ],
)
def test_pods_have_to_wait_for_as_long_as_a_drain_may_take(
    wait: str, drain: float, expected: tuple[bool, Reason]
) -> None:
    """What somebody else wrote instead of a number says nothing."""
    assert expected == told(gated(wait, drain))


def test_message_says_what_is_missing() -> None:
    """So that nobody has to reckon."""
    found = gate_condition([gated("10", 30.0)], (), is_told=False, generation=1)

    assert found is not None
    assert "raise terminationGracePeriodSeconds by 20 s" in found.message
    assert "web-1" in found.message


def test_message_reckons_for_the_pod_that_lacks_most() -> None:
    """Also where another one's drain takes longer."""
    short, shorter = gated("55", 60.0, pod="web-2"), gated("10", 30.0)
    found = gate_condition([short, shorter], (), is_told=False, generation=1)

    assert found is not None
    assert "raise terminationGracePeriodSeconds by 20 s" in found.message
    assert "pods: web-1, web-2" in found.message


def test_containers_with_hooks_of_their_own_are_named() -> None:
    """They get SIGTERM when their own hook has ended, whatever the others do."""
    found = gate_condition([], [with_own_hook("a,b")], is_told=False, generation=1)

    assert found is not None
    assert (False, Reason.OWN_PRE_STOP) == (found.status, found.reason)
    assert "do not wait: a, b; pods: web-1" in found.message


def test_groups_without_such_pods_say_nothing() -> None:
    """Until there was one; and records on their way out do not count."""
    assert told(a_record(), pods=(a_pod(),)) is None
    assert (None, Reason.NOT_GATED) == told(a_record(), is_told=True)
    leaving = a_record(deleting=True, annotations={ANNOTATION_DRAIN_GATE: "1"})
    assert told(leaving) is None


@pytest.mark.parametrize(
    ("seconds_slept", "expected"),
    [
        (7.5, (False, Reason.PRE_STOP_TOO_SHORT)),
        (0.0, (False, Reason.PRE_STOP_TOO_SHORT)),
        (8.0, None),
        (None, None),
    ],
)
def test_a_sleep_before_sigterm_is_longer_than_a_take_over(
    seconds_slept: float | None, expected: tuple[bool, Reason] | None
) -> None:
    """Nothing is said of a pod without such a hook: it may serve on after SIGTERM."""
    slept = None if seconds_slept is None else seconds(seconds_slept)
    assert expected == told(pods=(attrs.evolve(a_pod(), pre_stop=slept),))


def test_message_says_how_long_to_sleep() -> None:
    """And which pods do not; the shortest sleep is named."""
    pods = (
        attrs.evolve(a_pod("web-1"), pre_stop=seconds(5)),
        attrs.evolve(a_pod("web-2"), pre_stop=seconds(3)),
        attrs.evolve(a_pod("web-3"), pre_stop=seconds(20)),
    )
    found = gate_condition([], pods, is_told=False, generation=1)

    assert found is not None
    assert "pods get SIGTERM 3 s after their deletion" in found.message
    assert "it may take 8 s until" in found.message
    assert found.message.endswith("pods: web-1, web-2")


def test_pods_that_wait_for_their_drain_or_are_on_their_way_out_may_sleep_less() -> (
    None
):
    """The waiter holds SIGTERM back for the former; the latter cannot be mended."""
    waiting = with_own_hook("")
    ending = a_pod(deleting=True)
    pods = tuple(attrs.evolve(p, pre_stop=seconds(1)) for p in (waiting, ending))

    assert told(pods=pods) is None
    assert (None, Reason.NOT_GATED) == told(pods=pods, is_told=True)


def test_a_take_over_is_as_long_as_the_election_takes() -> None:
    """The Lease has run out for whoever looks, which it does every half second or so."""
    timing = Timing()
    assert timing.duration + 2 * timing.retry == TAKE_OVER
