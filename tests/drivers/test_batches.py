"""Calls that go out together: how they are gathered, permitted, and told what became of each."""

import asyncio
import contextlib
import gc
import random

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import attrs
import pytest

from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver, Meta
from lbcf.core.model.values import BatchShape, ObjectKey, Uid
from lbcf.drivers.batches import Batches, Item, Lane, Permitted
from lbcf.drivers.errors import BadAnswer, BadStatus, DriverError, NotSent, TimedOut
from lbcf.wire.driver import Malformed, render_answer
from lbcf.wire.driver_answers import BackendResult, BackendsAnswer, Status
from lbcf.wire.driver_requests import EnsureBackendRequest
from tests.drivers.virtual import TRIP, Far, answer
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual


HOUR = timedelta(hours=1)


def a_driver(
    items: int = 100, delay: timedelta = HOUR, calls: int = 32, namespace: str = "web"
) -> LoadBalancerDriver:
    """Return a driver that takes batches of ensures."""
    meta = Meta(key=ObjectKey(namespace, "mine"), uid=Uid("u"), resource_version="1")
    return LoadBalancerDriver(
        meta=meta,
        url="http://driver.test",
        batches={Operation.ENSURE_BACKEND: BatchShape(items, delay)},
        max_concurrent_calls=calls,
    )


@attrs.define
class Scene:
    """Batches, and what is behind them."""

    far: Far = attrs.field(factory=Far)
    driver: LoadBalancerDriver = attrs.field(factory=a_driver)
    batches: Batches = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make what is tested."""
        self.batches = Batches(self.far, VirtualClock())

    def send(
        self,
        record: str,
        *,
        namespace: str = "web",
        urgent: bool = False,
        permit: Callable[[], Awaitable[Permitted | None]] | None = None,
    ) -> "asyncio.Task[BackendResult | None]":
        """Have a call sent, by a turn of its own."""
        lane = Lane(
            self.driver.meta.key,
            Operation.ENSURE_BACKEND,
            ObjectKey("web", "front"),
            frozenset(),
            namespace,
        )
        permit = permit or (lambda: permitted(record))
        item = Item(record, self.driver, permit, urgent=urgent)
        return asyncio.create_task(self.batches.send(lane, item))


async def permitted(record: str, lasts: float = 2.0) -> Permitted:
    """Return a permission that begins now."""
    now = asyncio.get_running_loop().time()
    request = EnsureBackendRequest(record_id=record, backend_addr="192.0.2.1:80")
    return Permitted(request, now + 12, now + lasts)


def play(
    story: Callable[[Scene], Awaitable[None]], scene: Callable[[], Scene]
) -> Scene:
    """Play a story in virtual time; return what is left."""

    async def whole() -> Scene:
        made = scene()
        await story(made)
        assert 0 == len(made.batches)
        return made

    return run_virtual(whole())


def names(number: int, first: int = 0) -> list[str]:
    """Return so many names of records."""
    return [f"r{n}" for n in range(first, first + number)]


def test_a_storm_is_few_calls() -> None:
    """250 members at once are three calls, and each turn has its own result."""
    found: list[str] = []

    async def story(scene: Scene) -> None:
        turns = [scene.send(one) for one in names(250)]
        found.extend(one.record_id for one in await asyncio.gather(*turns) if one)

    scene = play(story, Scene)

    assert [100, 100, 50] == [len(one) for one in scene.far.sent]
    assert names(250) == found


def test_a_lone_call_goes_at_once() -> None:
    """A lane that has nothing under way waits 5 ms at most, whatever its maxDelay."""

    async def story(scene: Scene) -> None:
        await scene.send("r")
        await asyncio.sleep(60)
        await scene.send("again")

    scene = play(story, Scene)

    assert [["r"], ["again"]] == scene.far.sent
    assert scene.far.at[0] <= 0.005
    assert scene.far.at[1] - TRIP - 60 <= 0.010


def test_what_comes_while_a_batch_is_under_way_goes_after_it() -> None:
    """Together, when that one ends."""

    async def story(scene: Scene) -> None:
        first = scene.send("r")
        await asyncio.sleep(TRIP / 2)
        later = [scene.send(one) for one in names(5)]
        await asyncio.gather(first, *later)

    assert [["r"], names(5)] == play(story, Scene).far.sent


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        pytest.param(a_driver(items=3), names(3), id="full"),
        pytest.param(
            a_driver(delay=timedelta(milliseconds=5)), names(5), id="for long enough"
        ),
    ],
)
def test_a_batch_that_is_ready_does_not_wait_for_one_under_way(
    driver: LoadBalancerDriver, expected: list[str]
) -> None:
    """It has as many as may be, or was gathered for maxDelay."""
    gates: list[list[str]] = []

    async def story(scene: Scene) -> None:
        async def hang(records: Sequence[str]) -> bytes:
            await asyncio.sleep(1)
            return answer(records)

        scene.far.respond = hang
        first = scene.send("r")
        await asyncio.sleep(0.1)
        later = [scene.send(one) for one in names(5)]
        await asyncio.sleep(0.1)
        gates.extend(scene.far.sent)
        await asyncio.gather(first, *later)

    play(story, lambda: Scene(driver=driver))

    assert [["r"], expected] == gates


def test_calls_at_a_time_are_batches() -> None:
    """A driver that bears two calls has two batches under way, of any size."""
    inside = most = 0

    async def count(records: Sequence[str]) -> bytes:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(TRIP)
        inside -= 1
        return answer(records)

    async def story(scene: Scene) -> None:
        await asyncio.gather(*(scene.send(one) for one in names(60)))

    scene = play(story, lambda: Scene(Far(count), a_driver(items=10, calls=2)))

    assert 2 == most
    assert [10] * 6 == [len(one) for one in scene.far.sent]


def test_namespaces_share_no_batch() -> None:
    """One tenant's many do not keep another's one waiting."""

    async def story(scene: Scene) -> None:
        many = [scene.send(one, namespace="big") for one in names(1000)]
        few = scene.send("few", namespace="small")
        await asyncio.gather(few, *many)

    def shared() -> Scene:
        return Scene(driver=a_driver(calls=2, namespace="kube-system"))

    sent = play(story, shared).far.sent

    assert 2 > sent.index(["few"])
    assert [100] * 10 == [len(one) for one in sent if one != ["few"]]


def test_the_most_urgent_fill_a_batch_first() -> None:
    """What ends traffic goes before what does not."""

    async def story(scene: Scene) -> None:
        turns = [scene.send(one) for one in names(4)]
        turns.append(scene.send("urgent", urgent=True))
        await asyncio.gather(*turns)

    sent = play(story, lambda: Scene(driver=a_driver(items=2, calls=1))).far.sent

    assert "urgent" == sent[0][0]


def test_what_is_not_permitted_is_left_out() -> None:
    """The others go; its turn hears that it was not sent."""

    async def refuse() -> None:
        """Give no permission."""

    async def story(scene: Scene) -> None:
        others = [scene.send(one) for one in names(3)]
        assert await scene.send("gone", permit=refuse) is None
        await asyncio.gather(*others)

    assert [names(3)] == play(story, Scene).far.sent


def test_a_permission_that_takes_long_goes_with_the_next_batch() -> None:
    """Nobody waits for the API server's slowest answer, and it is asked again."""
    asked = 0

    async def slow() -> Permitted:
        nonlocal asked
        asked += 1
        await asyncio.sleep(30 if asked == 1 else 0)
        return await permitted("slow")

    async def story(scene: Scene) -> None:
        turns = [scene.send(one) for one in names(3)]
        await asyncio.gather(scene.send("slow", permit=slow), *turns)

    scene = play(story, Scene)

    assert [names(3), ["slow"]] == scene.far.sent
    assert scene.far.at[0] < 2


@pytest.mark.parametrize(
    ("takes", "most"), [((0.8, 1.6), 1.2), ((1.2, 1.9), 1.2), ((2.1, 6.0), 1.8)]
)
def test_api_server_that_takes_seconds_is_not_asked_again_and_again(
    takes: tuple[float, float], most: float
) -> None:
    """Answers that come late for one batch are good for another, if need be beyond 2 s."""
    asked = 0
    draw = random.Random(1)  # noqa: S311 - only a spread

    async def slow(record: str) -> Permitted:
        nonlocal asked
        asked += 1
        permission = await permitted(record)
        await asyncio.sleep(draw.uniform(*takes))
        return permission

    async def story(scene: Scene) -> None:
        turns = [scene.send(one, permit=partial(slow, one)) for one in names(200)]
        await asyncio.gather(*turns)

    scene = play(story, Scene)

    assert sorted(names(200)) == sorted(one for sent in scene.far.sent for one in sent)
    assert asked <= most * 200
    assert scene.far.at[-1] < 60


def test_permission_that_could_carry_no_call_is_asked_for_again() -> None:
    """A question without an answer holds an item up for no longer than a call may take."""
    asked = 0

    async def lost_once() -> Permitted:
        nonlocal asked
        asked += 1
        await asyncio.sleep(3600 if asked == 1 else 0.1)
        return await permitted("r")

    async def story(scene: Scene) -> None:
        await scene.send("r", permit=lost_once)

    scene = play(story, Scene)

    assert [["r"]] == scene.far.sent
    assert scene.far.at[0] < 20


def test_question_ends_with_the_turn_that_needs_it() -> None:
    """A turn that was cancelled asks the API server for nothing any more."""
    ended: list[float] = []

    async def hangs() -> Permitted:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(asyncio.get_running_loop().time())
        raise AssertionError

    async def story(scene: Scene) -> None:
        turn = scene.send("r", permit=hangs)
        await asyncio.sleep(5)
        turn.cancel()
        await asyncio.sleep(60)

    play(story, Scene)

    assert [5.0] == ended


def test_a_permission_that_ran_out_meanwhile_is_renewed() -> None:
    """While others were permitted it grew old: it goes with the next batch, by a new one."""
    given: list[float] = []

    async def short() -> Permitted:
        given.append(asyncio.get_running_loop().time())
        return await permitted("short", lasts=0.2)

    async def slow() -> Permitted:
        await asyncio.sleep(0.5)
        return await permitted("slow")

    async def story(scene: Scene) -> None:
        turns = [scene.send("short", permit=short), scene.send("slow", permit=slow)]
        await asyncio.gather(*turns)

    scene = play(story, Scene)

    assert [["slow"], ["short"]] == scene.far.sent
    assert 2 == len(given)
    assert scene.far.at[1] - given[1] <= 0.2


def test_a_result_that_is_missing_is_no_answer_to_its_item_alone() -> None:
    """The others have theirs."""
    found: list[object] = []

    async def forget(records: Sequence[str]) -> bytes:
        return answer([one for one in records if one != "r1"])

    async def story(scene: Scene) -> None:
        turns = [scene.send(one) for one in names(3)]
        found.extend(await asyncio.gather(*turns, return_exceptions=True))

    scene = play(story, lambda: Scene(Far(forget)))

    first, missing, last = found
    assert isinstance(first, BackendResult)
    assert isinstance(last, BackendResult)
    assert isinstance(missing, BadAnswer)
    assert not missing.definite
    assert {"Succ": 2, "NoResult": 1} == _results(scene)


def test_an_item_that_is_to_come_alone_counts_as_the_call_that_is_made_then() -> None:
    """It did not fail: nothing was tried of it."""

    async def story(scene: Scene) -> None:
        await asyncio.gather(*(scene.send(one) for one in names(3)))
        assert [True, False, True] == [_takes(scene, one) for one in names(3)]

    async def send_one_back(records: Sequence[str]) -> bytes:
        alone = BackendResult(record_id="r1", status=Status.FAIL, retry_singly=True)
        results = [
            BackendResult(record_id=one, status=Status.SUCC)
            for one in records
            if one != "r1"
        ]
        return render_answer(BackendsAnswer(results=[*results, alone]))

    scene = play(story, lambda: Scene(Far(send_one_back)))

    assert {"Succ": 2} == _results(scene)


@pytest.mark.parametrize(
    ("error", "alone"),
    [
        pytest.param(TimedOut("no answer"), True, id="time-out"),
        pytest.param(BadStatus("500", 500), True, id="status"),
        pytest.param(NotSent("refused"), False, id="nobody there"),
    ],
)
def test_an_error_is_that_of_each_item(error: DriverError, *, alone: bool) -> None:
    """What may have broken the driver goes alone until that is answered."""

    async def break_down(_records: Sequence[str]) -> bytes:
        raise error

    async def story(scene: Scene) -> None:
        turns = [scene.send(one) for one in names(3)]
        found = await asyncio.gather(*turns, return_exceptions=True)
        takes = _takes(scene, "r1")
        scene.batches.answered("r1")

        assert [error] * 3 == found
        assert takes is not alone
        assert _takes(scene, "r1")
        assert _takes(scene, "r2") is not alone
        assert {error.reason: 3} == _results(scene)

    play(story, lambda: Scene(Far(break_down)))


def _results(scene: Scene) -> dict[str, float]:
    """What became of members of batches, by outcome."""
    return {
        sample.labels["outcome"]: sample.value
        for family in scene.far.registry.collect()
        for sample in family.samples
        if sample.name == "lbcf_driver_batch_results_total"
        and "ensureBackends" == sample.labels["operation"]
    }


def _takes(scene: Scene, record: str) -> bool:
    return scene.batches.takes(scene.driver, Operation.ENSURE_BACKEND, record)


def test_drivers_and_operations_without_a_batch_are_called_singly() -> None:
    """As before: what nobody declares is not used."""

    async def story(scene: Scene) -> None:
        plain = attrs.evolve(scene.driver, batches={})
        drain = Operation.DRAIN_BACKEND

        assert not scene.batches.takes(plain, Operation.ENSURE_BACKEND, "r")
        assert not scene.batches.takes(scene.driver, drain, "r")

    play(story, Scene)


def test_a_turn_that_is_cut_off_takes_its_item_along() -> None:
    """Before it was sent, that is; others are not touched."""

    async def story(scene: Scene) -> None:
        first = scene.send("r")
        await asyncio.sleep(TRIP / 2)
        cut, other = scene.send("cut"), scene.send("other")
        await asyncio.sleep(0)
        cut.cancel()
        await asyncio.gather(first, cut, other, return_exceptions=True)

    assert [["r"], ["other"]] == play(story, Scene).far.sent


def test_something_below_that_is_cancelled_is_no_answer() -> None:
    """Each turn is told that its call may be out; later batches go on."""
    found: list[Any] = []

    async def cut(records: Sequence[str]) -> bytes:
        if records == ["after"]:
            return answer(records)
        raise asyncio.CancelledError

    async def story(scene: Scene) -> None:
        turns = [scene.send(one) for one in names(2)]
        found.extend(await asyncio.gather(*turns, return_exceptions=True))
        await scene.send("after")

    scene = play(story, lambda: Scene(Far(cut)))

    assert [asyncio.CancelledError] * 2 == [type(one) for one in found]
    assert {"Cancelled": 2, "Succ": 1} == _results(scene)


def test_an_answer_that_is_none_is_told_to_each() -> None:
    """A single call's answer says nothing of any item."""

    async def single(_records: Sequence[str]) -> bytes:
        return b'{"status": "Succ"}'

    async def story(scene: Scene) -> None:
        turns = [scene.send(one) for one in names(2)]
        found = await asyncio.gather(*turns, return_exceptions=True)

        assert [BadAnswer] * 2 == [type(one) for one in found]
        assert isinstance(found[0].__cause__, Malformed)  # type: ignore[union-attr]

    play(story, lambda: Scene(Far(single)))


@pytest.mark.parametrize("others", [0, 2])
def test_permission_that_is_cut_off_below_is_told_to_its_item_alone(
    others: int,
) -> None:
    """Nothing of it was sent; its neighbours go, and so does what comes later."""
    found: list[Any] = []

    async def cut() -> Permitted | None:
        raise asyncio.CancelledError

    async def story(scene: Scene) -> None:
        turns = [scene.send("cut", permit=cut), *map(scene.send, names(others))]
        async with asyncio.timeout(60):
            found.extend(await asyncio.gather(*turns, return_exceptions=True))
            await scene.send("after")

    scene = play(story, Scene)

    assert isinstance(found[0], asyncio.CancelledError)
    assert names(others) == [one.record_id for one in found[1:]]
    assert "after" == scene.far.sent[-1][0]


def test_turns_that_are_all_cut_off_before_a_place_is_free_leave_nothing() -> None:
    """The place goes to whoever comes next."""
    failures: list[Any] = []

    async def story(scene: Scene) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: failures.append(context))
        first = scene.send("r", namespace="one")
        await asyncio.sleep(TRIP / 2)
        waiting = [scene.send(one, namespace="two") for one in names(2)]
        await asyncio.sleep(TRIP / 4)
        for turn in waiting:
            turn.cancel()
        begun = scene.send("begun", namespace="three")
        await asyncio.sleep(0)
        begun.cancel()
        await asyncio.gather(first, begun, *waiting, return_exceptions=True)
        await scene.send("after", namespace="two")
        gc.collect()
        await asyncio.sleep(0)

    scene = play(story, lambda: Scene(driver=a_driver(calls=1)))

    assert [["r"], ["after"]] == scene.far.sent
    assert [] == failures


def test_nothing_goes_on_after_the_end() -> None:
    """Turns that were cut leave a batch, or a question, that takes its time to end."""
    ended: list[str] = []

    async def hang(what: str) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            with contextlib.suppress(asyncio.CancelledError):  # it is cut twice
                await asyncio.sleep(3)
            ended.append(what)

    async def out(_records: Sequence[str]) -> bytes:
        await hang("batch")
        raise AssertionError

    async def asked() -> Permitted | None:
        await hang("question")
        return None

    async def story() -> None:
        scene = Scene(Far(out))
        turns = [scene.send("out"), scene.send("asked", namespace="a", permit=asked)]
        await asyncio.sleep(1)
        for turn in turns:
            turn.cancel()
        await asyncio.gather(*turns, return_exceptions=True)
        assert [] == ended

        await scene.batches.end()

        assert ["batch", "question"] == sorted(ended)

    run_virtual(story())
