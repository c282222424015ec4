"""When a list of members is known again, and need not be read."""

from collections.abc import Callable

import attrs
import pytest

from lbcf.controller.member_conditions import ConditionWriter, DriftedCondition
from lbcf.controller.view import View
from lbcf.core.lifecycle.listing import drift_of
from lbcf.core.model.conditions import with_condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import MemberKey
from lbcf.executor.listings import Listing, ListingReader
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import LOAD_BALANCERS
from lbcf.wire.driver import render_answer
from lbcf.wire.driver_answers import BackendState, ListBackendsAnswer, ListedBackend
from tests.builders import a_load_balancer, a_meta, a_record
from tests.controller.exchanges import Nobody, idle_binds
from tests.controller.views import everyday, show
from tests.fakes.clock import VirtualClock


RECORD = a_record(registered=True)
OTHER = attrs.evolve(RECORD, meta=a_meta("web-2"))
DIGEST = b"of the list"


def listed(*records: BackendRecord) -> Listing:
    """A list of these records' members."""
    members = [
        ListedBackend(
            backend_addr=record.address,
            record_id=record.meta.uid,
            state=BackendState.ACTIVE,
        )
        for record in records
    ]
    return Listing("e1", members, DIGEST)


class Watched:
    """A watch over a view, and what it says of the everyday load balancer's list."""

    def __init__(self) -> None:
        self.view = view = show(everyday(), RECORD)
        clock, client = VirtualClock(), KubeClient(Nobody())
        recorder = EventRecorder(client, clock, controller="test", instance="test")
        binds = idle_binds(view, client, recorder)
        writer = ConditionWriter(
            ObjectWriter(client, LOAD_BALANCERS, view.load_balancers), binds, clock
        )
        self.watch = DriftedCondition(view, writer, recorder)
        self.key = a_load_balancer().meta.key

    async def compare(self, listing: Listing) -> None:
        """Compare as the resync of members does."""
        candidates = self.watch.candidates(self.key)
        await self.watch.compare(self.key, MemberKey.RECORD, candidates, listing)

    def known(self, member_key: MemberKey = MemberKey.RECORD) -> bytes:
        """Ask for the list that need not be read."""
        found = self.view.load_balancers.get(self.key)
        assert found is not None
        return self.watch.known(found, member_key, self.watch.candidates(self.key))


async def test_list_with_all_members_is_known_from_then_on() -> None:
    """As long as nothing changes, the same bytes say the same."""
    watched = Watched()

    assert b"" == watched.known()
    await watched.compare(listed(RECORD))

    assert DIGEST == watched.known()


async def test_list_without_a_member_is_read_again() -> None:
    """Two readings in a row must miss it before it is told."""
    watched = Watched()
    await watched.compare(listed(RECORD))

    await watched.compare(listed())

    assert b"" == watched.known()


async def test_list_is_known_when_all_is_told_of_it() -> None:
    """What is missing need not be told again as long as it is."""
    watched = Watched()
    await watched.compare(listed())
    _told_of(watched.view, RECORD)

    await watched.compare(listed())

    assert DIGEST == watched.known()


async def test_list_without_one_more_member_is_read_again() -> None:
    """One that is missing for the first time may be on its way."""
    watched = Watched()
    show(watched.view, OTHER)
    await watched.compare(listed(OTHER))
    _told_of(watched.view, RECORD)

    await watched.compare(listed())

    assert b"" == watched.known()


async def test_list_of_a_load_balancer_that_is_gone_is_forgotten() -> None:
    """Nothing of it is held."""
    watched = Watched()
    await watched.compare(listed(RECORD))

    assert DIGEST == watched.known()

    watched.watch.forget(watched.key)

    assert b"" == watched.known()


def _told_of(view: View, record: BackendRecord) -> None:
    """Write down that a member is missing."""
    missing = drift_of(a_load_balancer(), (record,))
    assert missing is not None
    found = a_load_balancer(version=2)
    told = with_condition(found.conditions, missing, VirtualClock().now())
    show(view, attrs.evolve(found, conditions=told))


def _another_record(view: View) -> None:
    """Register one more."""
    show(view, OTHER)


def _reset(view: View) -> None:
    """Write another epoch down."""
    found = view.load_balancers.get(a_load_balancer().meta.key)
    assert found is not None
    meta = attrs.evolve(found.meta, resource_version="99")
    show(view, attrs.evolve(found, epoch="e0", meta=meta))


@pytest.mark.parametrize("change", [_another_record, _reset])
async def test_list_is_read_again_after_a_change(
    change: Callable[[View], None],
) -> None:
    """What was true of other members, or of another epoch, says nothing."""
    watched = Watched()
    await watched.compare(listed(RECORD))

    change(watched.view)

    assert b"" == watched.known()


async def test_list_is_read_again_when_a_record_goes_without_its_member() -> None:
    """As by abandon: the list is the same, and a member of it is an orphan now."""
    watched = Watched()
    ending = a_record("ending", registered=True, deleting=True)
    show(watched.view, ending)
    await watched.compare(listed(RECORD, ending))
    assert DIGEST == watched.known()

    watched.view.records.observe_gone(ending.meta)

    assert b"" == watched.known()


async def test_list_is_read_again_when_members_are_told_apart_otherwise() -> None:
    """The driver's memberKey decides what counts as there."""
    watched = Watched()
    await watched.compare(listed(RECORD))

    assert b"" == watched.known(MemberKey.ADDRESS)


def test_reader_reads_what_it_does_not_know() -> None:
    """And names it, so that it is known the next time."""
    answer = ListBackendsAnswer(epoch="e1", backends=listed(RECORD).backends)
    body = render_answer(answer)
    first = ListingReader(b"")
    assert answer == first(Operation.LIST_BACKENDS, body)
    assert not first.is_known

    again = ListingReader(first.digest)
    again(Operation.LIST_BACKENDS, body)
    assert again.is_known

    other = ListingReader(first.digest)
    assert answer == other(Operation.LIST_BACKENDS, body + b" ")
    assert not other.is_known
