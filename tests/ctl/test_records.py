"""Of one record: how far it is, who is waited for, when it goes on."""

from datetime import datetime

import attrs
import pytest

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import ANNOTATION_ABANDON
from lbcf.core.model.resources import BackendRecord, DrainProgress, RecordStatus
from lbcf.core.reasons import Reason
from lbcf.ctl.errors import ObjectNotFound
from lbcf.ctl.records import attempt_of, next_attempt, stage_of, waits_for, why_record
from tests.builders import START, a_driver, a_key, a_record, seconds
from tests.ctl.readings import NOW, a_draining_record, a_reading, bare_reading, text_of


def a_status(
    kind: str, reason: Reason, *, next_attempt: datetime | None = None
) -> RecordStatus:
    """Make a status with one condition that says no."""
    told = Condition(kind, False, reason, "because", 1, START)
    return RecordStatus(conditions=(told,), next_attempt=next_attempt)


def waiting(record: BackendRecord) -> str:
    """Say who is waited for where there is a driver."""
    return waits_for(record, bare_reading(a_driver()), NOW)


@pytest.mark.parametrize(
    ("kind", "reason", "deleting", "who"),
    [
        (conditions.REGISTERED, Reason.DRIVER_REFUSED, False, "driver shop/proxy"),
        (
            conditions.REGISTERED,
            Reason.ADDRESS_IN_USE,
            False,
            "the record that has its address",
        ),
        (
            conditions.REGISTERED,
            Reason.ADDRESS_NOT_FREE_YET,
            False,
            "the last calls for the record that had its address",
        ),
        (conditions.DRAINED, Reason.DRAINING, True, "connections to end"),
        (
            conditions.DEREGISTERED,
            Reason.WAITING_TO_CONFIRM,
            True,
            "the end of registrations that were sent earlier",
        ),
        (conditions.DEREGISTERED, Reason.DRIVER_TIMED_OUT, True, "driver shop/proxy"),
    ],
)
def test_reason_tells_who_is_waited_for(
    kind: str, reason: Reason, *, deleting: bool, who: str
) -> None:
    """The reason of the condition that matters now is the stage, too."""
    record = a_record(status=a_status(kind, reason), deleting=deleting)

    assert (who, reason) == (waiting(record), stage_of(record))


def test_registered_record_waits_for_nobody() -> None:
    """It is where it should be."""
    record = a_record(registered=True)

    assert ("", "Registered") == (waiting(record), stage_of(record))


def test_record_without_a_word_waits_for_who_has_to_begin() -> None:
    """That is the controller, and the deregistrar once its end is asked for."""
    assert ("the controller", "New") == (waiting(a_record()), stage_of(a_record()))
    leaving = a_record(registered=True, deleting=True)
    assert ("the deregistrar", "Deleting") == (waiting(leaving), stage_of(leaving))


def test_changed_record_is_to_be_ensured_again() -> None:
    """What was said of an earlier generation is no answer."""
    record = a_record(registered=True)
    changed = attrs.evolve(record, meta=attrs.evolve(record.meta, generation=2))

    assert ("the controller", "Changed") == (waiting(changed), stage_of(changed))


def test_drain_past_its_deadline_waits_for_the_driver() -> None:
    """Connections are waited for no longer."""
    status = attrs.evolve(
        a_status(conditions.DRAINED, Reason.DRAINING),
        drain=DrainProgress(START, START + seconds(30), 4),
    )

    assert "driver shop/proxy, to deregister it" == waiting(
        a_record(status=status, deleting=True)
    )


def test_driver_that_does_not_exist_is_to_be_created() -> None:
    """Nobody else can help."""
    record = a_record(status=a_status(conditions.REGISTERED, Reason.DRIVER_NOT_FOUND))

    told = waits_for(record, bare_reading(), NOW)

    assert "LoadBalancerDriver shop/proxy does not exist; create it" == told


def test_finalizers_of_others_and_abandonment_are_named() -> None:
    """What holds a record that we have let go of is somebody else's."""
    left = a_record(deleting=True, held=False)
    others = attrs.evolve(left, meta=attrs.evolve(left.meta, finalizers=("x/y",)))
    abandoned = a_record(deleting=True, annotations={ANNOTATION_ABANDON: "gone"})

    assert "the garbage collector" == waiting(left)
    assert "whoever holds the finalizer x/y" == waiting(others)
    assert "the deregistrar, which lets go of it: it was abandoned" == waiting(
        abandoned
    )


def test_next_attempt_is_written_once_and_repeated() -> None:
    """Later ones are not written; a registered record has none."""
    kind, moment = conditions.REGISTERED, NOW + seconds(8)
    ahead = a_record(status=a_status(kind, Reason.DRIVER_REFUSED, next_attempt=moment))
    back = a_record(status=a_status(kind, Reason.DRIVER_REFUSED, next_attempt=START))

    assert "in 8s" == next_attempt(attempt_of(ahead), NOW)
    assert "with pauses of up to 2m" == next_attempt(attempt_of(back), NOW)
    assert "" == next_attempt(attempt_of(a_record(registered=True)), NOW)


def test_record_is_told_with_its_drain() -> None:
    """What ends when, and what its group's plan has for it."""
    report = why_record(a_reading(a_draining_record()), a_key("web-1"), NOW)

    assert "Draining; waits for connections to end" == report.headline
    assert "drain ends     in 30s, 4 connections\n" in text_of(report)
    with pytest.raises(ObjectNotFound, match="there is no br/x in namespace shop"):
        why_record(a_reading(), a_key("x"), NOW)
