"""Steps of turns that go out together: each has a permission and a reply of its own."""

import asyncio

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import attrs
import pytest

from lbcf.core.lifecycle.steps import (
    CallDriver,
    CallRefused,
    NoAnswer,
    Permission,
    RecordGone,
    Reply,
    Succeeded,
    Superseded,
)
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import BatchShape
from lbcf.core.reasons import Reason
from lbcf.core.selection.desired import DesiredRecord
from lbcf.drivers.errors import BadStatus
from lbcf.executor import Executor, Subject
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import KubeError
from lbcf.kube.kinds import RECORDS
from lbcf.wire.driver import render_answer
from lbcf.wire.driver_answers import BackendResult, BackendsAnswer, Status
from lbcf.wire.records import render_new_record
from tests.builders import a_driver, a_group, a_key, a_spec
from tests.drivers.virtual import TRIP, Far, answer, succeed
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import Fault, TinyApi


T = TypeVar("T")
NAMES = ("web-1", "web-2", "web-3")
BATCHING = attrs.evolve(
    a_driver(),
    batches={Operation.ENSURE_BACKEND: BatchShape(100, timedelta(seconds=1))},
)


class World:
    """Records on an API server, and a driver that takes them together."""

    def __init__(self, respond: Callable[[Sequence[str]], Awaitable[bytes]]) -> None:
        self.api, self.far = TinyApi(), Far(respond)
        self.client = KubeClient(self.api)
        self.executor = Executor(self.client, self.far, VirtualClock())
        self.records: list[BackendRecord] = []

    async def create(self) -> None:
        """Create the records."""
        for name in NAMES:
            spec = a_spec(address="192.0.2.1:80")
            desired = DesiredRecord(a_group(), spec, spec.address, (name, 8080))
            body = render_new_record(desired, name)
            key = a_key(name)
            await self.client.create(RECORDS, key.namespace, body)
            self.records.append(await self.client.get(RECORDS, key))

    async def ensure(self, record: BackendRecord, at: float | None = None) -> Reply:
        """Ensure a record by a permission of that moment, else of now."""
        now = asyncio.get_running_loop().time()
        permission = Permission(record, now if at is None else at)
        step = CallDriver(
            Operation.ENSURE_BACKEND, BATCHING, permission, record.address
        )
        subject = Subject(record.meta.key, record.meta.uid)
        return await self.executor.perform(subject, step)

    async def ensure_all(self, at: float | None = None) -> list[Reply]:
        """Ensure all of them at once."""
        ensured = [self.ensure(record, at) for record in self.records]
        return list(await asyncio.gather(*ensured))

    @property
    def uids(self) -> list[str]:
        """The records as the driver knows them."""
        return [record.meta.uid for record in self.records]


def play(
    story: Callable[[World], Awaitable[T]],
    respond: Callable[[Sequence[str]], Awaitable[bytes]] = succeed,
) -> T:
    """Play a story in virtual time."""

    async def whole() -> T:
        world = World(respond)
        await world.create()
        return await story(world)

    return run_virtual(whole())


def test_turns_share_a_call() -> None:
    """One call, a success for each."""

    async def story(world: World) -> None:
        assert [Succeeded()] * 3 == await world.ensure_all()
        assert [world.uids] == world.far.sent
        assert [] == world.far.alone

    play(story)


def test_each_has_its_own_reply() -> None:
    """What one is refused says nothing of the others."""

    async def refuse_first(records: Sequence[str]) -> bytes:
        """Refuse one, forget one, have the third done."""
        results = [
            BackendResult(record_id=records[0], status=Status.FAIL, msg="quota"),
            BackendResult(record_id=records[2], status=Status.SUCC),
        ]
        return render_answer(BackendsAnswer(results=results))

    async def story(world: World) -> None:
        refused, missing, done = await world.ensure_all()

        assert CallRefused("quota") == refused
        assert Succeeded() == done
        assert isinstance(missing, NoAnswer)
        assert (Reason.DRIVER_BAD_ANSWER, True) == (missing.reason, missing.may_land)

    play(story, refuse_first)


def test_old_permissions_are_renewed_before_the_batch_goes() -> None:
    """A record that changed meanwhile, or has gone, is left out of it."""

    async def story(world: World) -> None:
        gone, changed, same = world.records
        await asyncio.sleep(5)
        body: dict[str, object] = {"metadata": {"labels": {"a": "b"}}}
        await world.client.patch(RECORDS, changed.meta.key, body)
        await world.client.delete(RECORDS, gone.meta.key)
        await world.client.patch(
            RECORDS, gone.meta.key, {"metadata": {"finalizers": []}}
        )
        first, second, third = await world.ensure_all(at=0.0)

        assert RecordGone() == first
        assert isinstance(second, Superseded)
        assert Succeeded() == third
        assert [[same.meta.uid]] == world.far.sent

    play(story)


def test_an_api_server_that_is_away_ends_the_turn_alone() -> None:
    """Whose permission is new goes; the others are told as without batches."""

    async def story(world: World) -> None:
        await asyncio.sleep(5)
        world.api.fault = Fault.UNSENT
        old, new = await asyncio.gather(
            world.ensure(world.records[0], at=0.0),
            world.ensure(world.records[1]),
            return_exceptions=True,
        )

        assert isinstance(old, KubeError)
        assert Succeeded() == new
        assert [[world.records[1].meta.uid]] == world.far.sent

    play(story)


def test_who_is_to_be_asked_for_alone_is() -> None:
    """At once, in the same step."""

    async def singly(records: Sequence[str]) -> bytes:
        """Want to be asked for each."""
        results = [
            BackendResult(record_id=one, status=Status.FAIL, retry_singly=True)
            for one in records
        ]
        return render_answer(BackendsAnswer(results=results))

    async def story(world: World) -> None:
        assert [Succeeded()] * 3 == await world.ensure_all()
        assert sorted(world.uids) == sorted(world.far.alone)
        assert 1 == len(world.far.sent)

    play(story, singly)


def test_who_spoils_a_batch_is_kept_out_of_others() -> None:
    """It goes alone for as long as it is refused so, and with others after that."""

    async def spoilt(records: Sequence[str]) -> bytes:
        """Want to be asked for the first one alone."""
        results = [
            BackendResult(
                record_id=one,
                status=Status.FAIL if at == 0 and len(records) == 3 else Status.SUCC,
                retry_singly=at == 0 and len(records) == 3,
            )
            for at, one in enumerate(records)
        ]
        return render_answer(BackendsAnswer(results=results))

    async def story(world: World) -> None:
        sick, *others = world.uids
        world.far.sick.add(sick)
        refused = [(await world.ensure_all())[0] for _ in range(3)]
        assert [CallRefused] * 3 == [type(one) for one in refused]
        assert [sick] * 3 == world.far.alone
        assert [[sick, *others], others, others] == world.far.sent

        world.far.sick.clear()
        world.far.respond = succeed
        assert [Succeeded()] * 3 == await world.ensure_all()
        assert [Succeeded()] * 3 == await world.ensure_all()
        assert [sick, *others] == world.far.sent[-1]

    play(story, spoilt)


def test_a_batch_that_broke_the_driver_is_not_sent_again() -> None:
    """Each goes alone until it is answered, and together with others after that."""

    async def story(world: World) -> None:
        broken = await world.ensure_all()
        alone = await world.ensure_all()
        world.far.respond = succeed
        together = await world.ensure_all()

        reasons = [one.reason for one in broken if isinstance(one, NoAnswer)]
        assert [Reason.DRIVER_BAD_STATUS] * 3 == reasons
        assert [Succeeded()] * 3 == alone == together
        assert [world.uids] * 2 == world.far.sent
        assert sorted(world.uids) == sorted(world.far.alone)

    async def break_down(_records: Sequence[str]) -> bytes:
        """Answer with an HTTP error."""
        raise BadStatus("500", 500)

    play(story, break_down)


def test_no_item_goes_on_for_longer_than_its_own_permission() -> None:
    """The oldest one bounds the whole call."""

    async def hang(records: Sequence[str]) -> bytes:
        """Answer too late."""
        await asyncio.sleep(60)
        return answer(records)

    async def story(world: World) -> None:
        await asyncio.sleep(1.9)
        began = asyncio.get_running_loop().time()
        replies = await asyncio.gather(
            world.ensure(world.records[0], at=0.0), world.ensure(world.records[1])
        )
        took = asyncio.get_running_loop().time() - began

        assert all(isinstance(one, NoAnswer) and one.may_land for one in replies)
        window = BATCHING.window(Operation.ENSURE_BACKEND).total_seconds()
        assert began + took <= window

    play(story, hang)


def test_call_without_an_answer_tells_from_when_its_time_counts() -> None:
    """In a batch from its permission, alone from two seconds before it was sent."""

    async def hang(records: Sequence[str]) -> bytes:
        """Answer too late."""
        await asyncio.sleep(60)
        return answer(records)

    async def story(world: World) -> None:
        first, second, _third = world.records
        await asyncio.sleep(5.0)
        renewed, kept = await asyncio.gather(
            world.ensure(first, at=0.0), world.ensure(second, at=4.0)
        )
        world.far.silent.add(second.meta.uid)
        again = asyncio.get_running_loop().time()
        alone = await world.ensure(second, at=again)

        assert isinstance(renewed, NoAnswer)
        assert 5.0 == pytest.approx(renewed.counts_from, abs=0.1)
        assert isinstance(kept, NoAnswer)
        assert 4.0 == kept.counts_from
        assert isinstance(alone, NoAnswer)
        assert again - 2.0 == alone.counts_from
        assert [second.meta.uid] == world.far.alone

    play(story, hang)


def test_a_batch_that_is_cut_may_have_been_done() -> None:
    """As a single call that is: nobody knows of any of its items."""

    async def story(world: World) -> None:
        turns = asyncio.create_task(world.ensure_all())
        await asyncio.sleep(TRIP / 2)
        await world.executor.end()

        assert [world.uids] == world.far.sent
        for reply in await turns:
            assert isinstance(reply, NoAnswer)
            assert (Reason.DRIVER_CALL_CUT, True) == (reply.reason, reply.may_land)

    play(story)
