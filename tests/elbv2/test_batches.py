"""Many members at once: few calls, and an answer for each caller."""

import asyncio

from collections.abc import Sequence
from datetime import timedelta

import pytest

from lbcf.core.model.operations import Operation
from lbcf.sdk import Fail, Service, Succ
from tests.elbv2.clients import (
    RECORD,
    a_deregister,
    a_drain,
    a_list,
    an_ensure,
    an_identity,
)
from tests.elbv2.clocks import QuickClock
from tests.elbv2.conftest import MakeDriver
from tests.elbv2.emulator import Emulator
from tests.elbv2.state import ApiError, EmulatedGroup
from tests.fakes.clock import VirtualClock
from tests.lab.batches.caller import Caller, as_object, members
from tests.sdk.services import serving
from webhooks.elbv2.changes import MOST_TARGETS, Action, Change, Changes
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.elbv2.errors import Answered, InvalidTarget, Uncertain
from webhooks.elbv2.targets import Target
from webhooks.shared.identity import Owner


MANY = 230


def addresses(number: int) -> list[str]:
    """Return so many addresses."""
    return [f"198.18.{n // 250}.{n % 250 + 1}:80" for n in range(number)]


async def ensured(
    driver: Elbv2Driver, group: EmulatedGroup, wanted: Sequence[str]
) -> list[object]:
    """Ensure all at once; return answers and errors."""
    lb_info = an_identity(group)
    return await asyncio.gather(
        *(driver.ensure_backend(an_ensure(lb_info, one, one)) for one in wanted),
        return_exceptions=True,
    )


async def test_hundreds_share_a_few_calls(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """230 members are three calls, none with more than 100 targets, and few polls."""
    await ensured(driver, group, addresses(MANY))

    sizes = [len(call.targets) for call in emulator.made("RegisterTargets")]
    polls = [c for c in emulator.calls if c.action == "DescribeTargetHealth"]
    assert MANY == len(group.owners)
    assert MANY == sum(sizes)
    assert MOST_TARGETS == max(sizes)
    assert len(sizes) <= 6
    assert len(polls) <= 3


async def test_a_drain_of_hundreds_shares_polls(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, clock: QuickClock
) -> None:
    """However many members wait for the end of the delay, one poll tells them all."""
    lb_info, wanted = an_identity(group), addresses(MANY)
    await ensured(driver, group, wanted)
    before = len(emulator.calls)

    await asyncio.gather(
        *(driver.drain_backend(a_drain(lb_info, one, one)) for one in wanted)
    )
    clock.advance(timedelta(seconds=60))
    answers = await asyncio.gather(
        *(driver.drain_backend(a_drain(lb_info, one, one)) for one in wanted)
    )

    assert {Succ(msg="")} == set(answers)
    assert len(emulator.calls) - before < 20


async def test_one_bad_target_spoils_nobody_else(
    driver: Elbv2Driver, group: EmulatedGroup
) -> None:
    """AWS refuses the whole call; here only the one that it is about is refused."""
    wanted = [*addresses(20), "203.0.113.7:80"]

    answers = await ensured(driver, group, wanted)

    failed = [one for one in answers if isinstance(one, Fail)]
    assert 20 == len(group.owners)
    assert 1 == len(failed)
    assert "availabilityZone: all" in failed[0].msg


async def test_given_up_while_a_batch_is_halved(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """Whose caller has gone is not registered by a half: its record may be deleted."""
    lb_info, wanted = an_identity(group), ["203.0.113.7:80", *addresses(3)]
    await driver.list_backends(a_list(lb_info))
    calls = [
        asyncio.create_task(driver.ensure_backend(an_ensure(lb_info, one, one)))
        for one in wanted
    ]
    emulator.fail("RegisterTargets", ApiError("InvalidTarget", "not in the VPC"))
    # The second call is the half before the one that the last target is in.
    emulator.fail(
        *("RegisterTargets", ApiError("InvalidTarget", "not in the VPC")),
        meanwhile=calls[-1].cancel,
    )
    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert [Fail, Succ, Succ, asyncio.CancelledError] == [type(one) for one in answers]
    assert [wanted[1], wanted[2]] == [f"{ip}:{port}" for ip, port in group.owners]


async def test_a_full_target_group_takes_what_it_can(
    driver: Elbv2Driver, group: EmulatedGroup
) -> None:
    """The quota is used up to its last place; the others are told about it."""
    group.quota = 7

    answers = await ensured(driver, group, addresses(10))

    failed = [one for one in answers if isinstance(one, Fail)]
    assert 7 == len(group.owners)
    assert 3 == len(failed)
    assert "raise the quota" in failed[0].msg


async def test_an_address_outside_of_the_vpc(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """The zone `all` lets it in, and goes with the registration alone."""
    lb_info, address = an_identity(group), "203.0.113.7:80"
    parameters = {"availabilityZone": "all"}
    await driver.ensure_backend(an_ensure(lb_info, address, parameters=parameters))
    await driver.deregister_backend(a_deregister(lb_info, address))

    zones = [one.zone for call in emulator.calls for one in call.targets]
    assert ["all", ""] == zones


class Recorder:
    """A call that is answered when the test says so."""

    def __init__(self) -> None:
        self.sent: list[tuple[Action, list[str]]] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.refused = ""

    async def send(self, action: Action, changes: Sequence[Change]) -> None:
        """Take note of a call; refuse the one with the target that is refused."""
        names = [str(change.target) for change in changes]
        self.sent.append((action, names))
        self.begun.set()
        await self.gate.wait()
        if self.refused in names:
            raise InvalidTarget(Answered(action, "InvalidTarget", "no", 400))


def a_change(number: int) -> Change:
    """Return a change of one of many targets."""
    return Change(Target(f"198.18.0.{number}", 80), Owner(RECORD))


async def test_order_is_kept(clock: QuickClock) -> None:
    """What is taken out after it was put in is sent after it, never together."""
    recorder = Recorder()
    recorder.gate.set()
    changes = Changes(recorder.send, clock)

    await asyncio.gather(
        changes.apply(Action.REGISTER, a_change(1)),
        changes.apply(Action.REGISTER, a_change(2)),
        changes.apply(Action.DEREGISTER, a_change(1)),
        changes.apply(Action.REGISTER, a_change(3)),
    )

    assert [
        (Action.REGISTER, ["198.18.0.1:80", "198.18.0.2:80"]),
        (Action.DEREGISTER, ["198.18.0.1:80"]),
        (Action.REGISTER, ["198.18.0.3:80"]),
    ] == recorder.sent


async def test_a_later_change_never_overtakes(clock: QuickClock) -> None:
    """While a call is under way whose caller has gone, the next one waits for it."""
    recorder = Recorder()
    changes = Changes(recorder.send, clock)
    first = asyncio.create_task(changes.apply(Action.REGISTER, a_change(1)))
    await recorder.begun.wait()
    first.cancel()
    second = asyncio.create_task(changes.apply(Action.DEREGISTER, a_change(1)))
    await asyncio.sleep(0.02)
    sent_early = len(recorder.sent)
    recorder.gate.set()
    await second

    assert 1 == sent_early
    assert [Action.REGISTER, Action.DEREGISTER] == [
        action for action, _ in recorder.sent
    ]


class StandingClock(VirtualClock):
    """Waits until the test lets time go on."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = asyncio.Event()
        self.gate = asyncio.Event()

    async def sleep(self, delay: timedelta) -> None:
        """Wait for the test, whatever the delay."""
        assert delay
        self.waiting.set()
        await self.gate.wait()


async def test_a_batch_waits_for_company() -> None:
    """Two who come one after the other within the window share a call."""
    recorder, clock = Recorder(), StandingClock()
    recorder.gate.set()
    changes = Changes(recorder.send, clock)
    first = asyncio.create_task(changes.apply(Action.REGISTER, a_change(1)))
    await clock.waiting.wait()
    second = asyncio.create_task(changes.apply(Action.REGISTER, a_change(2)))
    await asyncio.sleep(0)
    clock.gate.set()
    await asyncio.gather(first, second)

    assert 1 == len(recorder.sent)


async def test_what_was_given_up_is_not_sent(clock: QuickClock) -> None:
    """A registration whose caller went away before it was sent never goes out."""
    recorder = Recorder()
    changes = Changes(recorder.send, clock)
    under_way = asyncio.create_task(changes.apply(Action.REGISTER, a_change(1)))
    await recorder.begun.wait()
    queued = asyncio.create_task(changes.apply(Action.REGISTER, a_change(2)))
    await asyncio.sleep(0)
    queued.cancel()
    recorder.gate.set()
    await under_way
    await changes.apply(Action.DEREGISTER, a_change(3))

    assert ["198.18.0.1:80", "198.18.0.3:80"] == [
        name for _, names in recorder.sent for name in names
    ]


async def test_what_is_given_up_while_a_batch_is_halved_is_not_sent(
    clock: QuickClock,
) -> None:
    """Each half is looked through anew, and one that nobody waits for is left out."""
    recorder = Recorder()
    recorder.refused = "198.18.0.1:80"
    changes = Changes(recorder.send, clock)
    calls = [
        asyncio.create_task(changes.apply(Action.REGISTER, a_change(n)))
        for n in range(1, 9)
    ]
    await recorder.begun.wait()
    for given_up in calls[3:]:
        given_up.cancel()
    recorder.gate.set()
    await asyncio.gather(*calls, return_exceptions=True)
    await changes.apply(Action.DEREGISTER, a_change(9))

    first, *halves = [[name[9:-3] for name in names] for _, names in recorder.sent]
    assert ["1", "2", "3", "4", "5", "6", "7", "8"] == first
    assert [["1", "2", "3"], ["1"], ["2", "3"], ["9"]] == halves


@pytest.mark.parametrize("bad", range(1, 8))
async def test_each_caller_gets_its_own_answer(clock: QuickClock, bad: int) -> None:
    """Wherever in a batch the bad target is, its caller alone is refused."""
    recorder = Recorder()
    recorder.gate.set()
    recorder.refused = f"198.18.0.{bad}:80"
    changes = Changes(recorder.send, clock)

    answers = await asyncio.gather(
        *(changes.apply(Action.REGISTER, a_change(n)) for n in range(1, 8)),
        return_exceptions=True,
    )

    assert [n == bad for n in range(1, 8)] == [
        isinstance(one, InvalidTarget) for one in answers
    ]


async def test_no_answer_is_told_to_all(clock: QuickClock) -> None:
    """An answer that never came says nothing about any target of the batch."""

    async def send(_action: Action, _changes: Sequence[Change]) -> None:
        """Give no answer."""
        raise Uncertain("no answer")

    changes = Changes(send, clock)

    answers = await asyncio.gather(
        *(changes.apply(Action.REGISTER, a_change(n)) for n in range(3)),
        return_exceptions=True,
    )

    assert [Uncertain] * 3 == [type(one) for one in answers]


async def test_a_thousand_members_under_the_throttle(
    make_driver: MakeDriver,
    emulator: Emulator,
    group: EmulatedGroup,
    clock: QuickClock,
) -> None:
    """Ten calls of 100 put them there, ten take them out, and polls are few."""
    emulator.throttles = True
    driver, lb_info = make_driver(), an_identity(group)
    # By the loop's time: a machine that is busy for two seconds lets permissions become old.
    steady = VirtualClock()
    async with (
        serving(Service(driver)) as url,
        Caller.of(
            as_object(driver, url, batched=True), lb_info, turns=1000, clock=steady
        ) as caller,
    ):
        wanted = members(1000)
        ensured = await caller.all(Operation.ENSURE_BACKEND, wanted)
        before = len(group.owners)
        polls = len(emulator.calls)
        drains = asyncio.create_task(caller.all(Operation.DRAIN_BACKEND, wanted))
        # Nothing tells of it but the calls themselves.
        while len(emulator.made("DeregisterTargets")) < 10:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        clock.advance(timedelta(seconds=60))
        drained = await drains
        ended = await caller.all(Operation.DEREGISTER_BACKEND, wanted)

    registers, deregisters = (
        [len(call.targets) for call in emulator.made(action)]
        for action in ("RegisterTargets", "DeregisterTargets")
    )
    assert ([], [], []) == (ensured.failures, drained.failures, ended.failures)
    assert 1000 == before
    assert [100] * 10 == registers
    assert [100] * 10 == deregisters
    assert 0 == emulator.throttled
    assert 0 == len([one for one in group.targets.values() if one.left_at is None])
    assert len(emulator.calls) - polls < 60
