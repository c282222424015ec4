"""When a write of ours is repeated that somebody else has undone: changes and creates."""

from datetime import timedelta

import attrs
import pytest

from lbcf.controller.apply import WriteBackoff
from lbcf.core.model.resources import BackendGroup, BackendRecord
from lbcf.core.model.values import Uid
from lbcf.core.selection.desired import DesiredRecord
from lbcf.core.selection.plan import plan_group
from tests.builders import a_group, a_pod, a_record, a_snapshot
from tests.fakes.clock import VirtualClock


RECORD = a_record()


def wanted(pod: str = "a", group: BackendGroup | None = None) -> DesiredRecord:
    """Return the record that a pod should have."""
    return plan_group(a_snapshot(a_pod(pod), group=group)).creates[0].desired


WANTED = wanted()


@attrs.define
class Maker:
    """A controller that creates records, each with a uid of its own."""

    clock: VirtualClock = attrs.Factory(VirtualClock)
    rivals: WriteBackoff = attrs.field(init=False)
    made: int = 0

    def __attrs_post_init__(self) -> None:
        self.rivals = WriteBackoff(self.clock)

    def made_for(self, desired: DesiredRecord = WANTED) -> BackendRecord:
        """Return a record as a create of it would be answered."""
        self.made += 1
        meta = attrs.evolve(RECORD.meta, uid=Uid(f"made-{self.made}"))
        group = desired.group.meta
        return attrs.evolve(
            RECORD, meta=meta, spec=desired.spec, group=group.key, group_uid=group.uid
        )

    def create(self, desired: DesiredRecord = WANTED) -> BackendRecord:
        """Create a record."""
        record = self.made_for(desired)
        self.rivals.created(desired, record)
        return record

    def pause(self, desired: DesiredRecord = WANTED) -> float:
        """Say for how many seconds a record is not created again."""
        rest = self.rivals.rest_before(desired)
        return 0.0 if rest is None else rest.total_seconds()

    def wait(self, seconds: float) -> None:
        """Let time pass, and a little more."""
        self.clock.advance(timedelta(seconds=seconds + 0.001))


@pytest.fixture(name="maker")
def _maker() -> Maker:
    """Give one that has made nothing yet."""
    return Maker()


def changed(record: BackendRecord) -> BackendRecord:
    """Return a record after a change of its spec."""
    meta = attrs.evolve(record.meta, generation=record.meta.generation + 1)
    return attrs.evolve(record, meta=meta)


def write(rivals: WriteBackoff, record: BackendRecord) -> BackendRecord:
    """Change a record's spec, and say so."""
    after = changed(record)
    rivals.wrote(record, after)
    return after


def test_own_change_is_followed_by_the_next_at_once() -> None:
    """A user who changes a group twice waits for nothing."""
    rivals = WriteBackoff(VirtualClock())

    record = write(rivals, RECORD)

    assert rivals.rest(record) is None
    assert rivals.rest(write(rivals, record)) is None


def test_change_of_another_process_is_taken_over_at_once() -> None:
    """After a start, or as a new leader: there is no own word that was undone."""
    assert WriteBackoff(VirtualClock()).rest(changed(RECORD)) is None


def test_pauses_grow_while_two_undo_each_other() -> None:
    """From a second or two to half a minute: a view that is behind will have caught up."""
    clock = VirtualClock()
    rivals = WriteBackoff(clock)
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
    rivals = WriteBackoff(VirtualClock())
    record = changed(write(rivals, RECORD))

    rivals.record_changed(record, None)

    assert rivals.rest(record) is None


def test_record_that_somebody_deletes_is_created_again_at_once(maker: Maker) -> None:
    """A user may want it made anew."""
    maker.create()

    assert not maker.pause()


def test_pauses_grow_while_somebody_deletes_what_is_created(maker: Maker) -> None:
    """From a second or two to half a minute, as between changes of a spec."""
    maker.create()
    pauses = []
    for _ in range(9):
        maker.create()
        pauses.append(maker.pause())
        maker.wait(pauses[-1])
        assert not maker.pause()

    assert 1 <= pauses[0] < 2
    assert 8 <= pauses[3] < 16
    assert 15 <= pauses[8] <= 30


def test_own_deletions_delay_nothing(maker: Maker) -> None:
    """A pod that flaps is back as soon as it is ready, however often."""
    for _ in range(9):
        assert not maker.pause()
        maker.rivals.withdrawn([maker.create()])


def test_own_deletion_that_was_faster_than_the_answer_delays_nothing(
    maker: Maker,
) -> None:
    """The watch has told of a record, and its pod left, before its create is answered."""
    for _ in range(9):
        record = maker.made_for()
        maker.rivals.withdrawn([record])
        maker.rivals.created(WANTED, record)
        assert not maker.pause()


def test_deletion_of_another_ones_record_forgives_nothing(maker: Maker) -> None:
    """The other controller makes one for the same pod, at the pod's old address."""
    maker.create()
    maker.create()
    maker.rivals.withdrawn([maker.made_for()])

    assert maker.pause() >= 1


def test_records_of_others_are_created_at_once(maker: Maker) -> None:
    """Of another pod, and of a group of that name that was made anew."""
    maker.create()
    maker.create()
    group = a_group()
    anew = attrs.evolve(group, meta=attrs.evolve(group.meta, uid=Uid("anew")))

    assert maker.pause()
    assert not maker.pause(wanted("b"))
    assert not maker.pause(wanted(group=anew))


def test_create_that_nobody_undid_for_long_is_forgotten(maker: Maker) -> None:
    """Who deletes a record every other minute begins from nothing each time."""
    for _ in range(9):
        maker.create()
        maker.wait(60)
        maker.rivals.record_changed(None, RECORD)
        assert not maker.pause()
    maker.create()

    assert not maker.pause()
