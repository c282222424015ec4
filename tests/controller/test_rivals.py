"""When a record's spec is changed again that somebody else has changed in between."""

from datetime import timedelta

import attrs

from lbcf.controller.rivals import Rivals
from lbcf.core.model.resources import BackendRecord
from tests.builders import a_record
from tests.fakes.clock import VirtualClock


RECORD = a_record()


def changed(record: BackendRecord) -> BackendRecord:
    """Return a record after a change of its spec."""
    meta = attrs.evolve(record.meta, generation=record.meta.generation + 1)
    return attrs.evolve(record, meta=meta)


def write(rivals: Rivals, record: BackendRecord) -> BackendRecord:
    """Change a record's spec, and say so."""
    after = changed(record)
    rivals.wrote(record, after)
    return after


def test_own_change_is_followed_by_the_next_at_once() -> None:
    """A user who changes a group twice waits for nothing."""
    rivals = Rivals(VirtualClock())

    record = write(rivals, RECORD)

    assert rivals.rest(record) is None
    assert rivals.rest(write(rivals, record)) is None


def test_change_of_another_process_is_taken_over_at_once() -> None:
    """After a start, or as a new leader: there is no own word that was undone."""
    assert Rivals(VirtualClock()).rest(changed(RECORD)) is None


def test_pauses_grow_while_two_undo_each_other() -> None:
    """From a second or two to half a minute: a view that is behind will have caught up."""
    clock = VirtualClock()
    rivals = Rivals(clock)
    record, pauses = RECORD, []

    for _ in range(9):
        record = changed(write(rivals, record))
        pause = rivals.rest(record)
        assert pause is not None
        pauses.append(pause.total_seconds())
        clock.advance(pause + timedelta(seconds=0.001))
        assert rivals.rest(record) is None

    assert 1 <= pauses[0] < 2
    assert 8 <= pauses[4] < 16
    assert 15 <= pauses[8] <= 30


def test_record_that_ended_is_forgotten() -> None:
    """Else memory would grow with every record that ever changed."""
    rivals = Rivals(VirtualClock())
    record = changed(write(rivals, RECORD))

    rivals.record_changed(record, None)

    assert rivals.rest(record) is None
