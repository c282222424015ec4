"""Many target groups that are listed all the time: what that costs, and whom it delays."""

import asyncio

from collections.abc import Sequence
from datetime import timedelta

import attrs
import pytest

from lbcf.sdk import BackendState, Fail, ListBackendsAnswer, RetryAfter, Running, Succ
from tests.elbv2.clients import (
    ADDRESS,
    a_drain,
    a_list,
    an_ensure,
    an_identity,
)
from tests.elbv2.clocks import QuickClock
from tests.elbv2.conftest import MakeDriver
from tests.elbv2.emulator import Emulator
from tests.elbv2.state import DELAY, ApiError, Description, EmulatedGroup
from webhooks.elbv2.budget import AT_ONCE, Budget
from webhooks.elbv2.driver import Elbv2Driver


PERIOD = timedelta(seconds=2)
"""Between two lists of one load balancer, as controllers ask."""
MINUTE = 30
"""Of such periods."""
GROUPS = 40
RATE = 5
"""Readings at rest per second, of all together."""
ROUNDS = 5
"""Periods in which each target group has its turn, and is listed after it."""
NEW = "198.18.0.2:8080"
LAG = timedelta(seconds=1)
INTERNAL = ApiError("InternalFailure", "so says AWS", 500)


@attrs.define(eq=False)
class Account:
    """Target groups with a member each.

    Attributes:
        driver: of all of them.
        emulator: ELBv2, which throttles as AWS does.
        clock: of both.
        groups: the target groups.
    """

    driver: Elbv2Driver
    emulator: Emulator
    clock: QuickClock
    groups: Sequence[EmulatedGroup]

    @property
    def readings(self) -> int:
        """How often targets' health was read."""
        return sum(one.action == "DescribeTargetHealth" for one in self.emulator.calls)

    async def listed(self) -> Sequence[ListBackendsAnswer]:
        """List all, at the same moment; a period goes by."""
        answers = await asyncio.gather(
            *(self.driver.list_backends(a_list(an_identity(g))) for g in self.groups)
        )
        self.clock.advance(PERIOD)
        return answers

    async def readings_of_a_list(self) -> int:
        """List all; return how many readings that took."""
        before = self.readings
        await self.listed()
        return self.readings - before


@pytest.fixture(name="account")
async def _account(
    make_driver: MakeDriver, emulator: Emulator, clock: QuickClock
) -> Account:
    """Return an account at rest."""
    driver = make_driver()
    driver.load_balancers.fresh = PERIOD
    emulator.throttles = True
    groups = []
    for number in range(GROUPS):
        groups.append(emulator.add(EmulatedGroup(clock, name=f"web-{number}")))
        await driver.ensure_backend(an_ensure(an_identity(groups[-1])))
        clock.advance(timedelta(seconds=1))
    account = Account(driver, emulator, clock, groups)
    await account.listed()
    return account


async def test_listings_at_rest_stay_within_their_budget(account: Account) -> None:
    """However many target groups there are, and none of their lists fails."""
    before, began = account.readings, account.clock.monotonic()
    answers = [await account.listed() for _ in range(MINUTE)]
    seconds = account.clock.monotonic() - began

    assert account.readings - before <= RATE * seconds + AT_ONCE
    assert 0 == account.emulator.throttled
    assert {(ADDRESS, BackendState.ACTIVE)} == {
        (one.backend_addr, one.state)
        for listed in answers
        for answer in listed
        for one in answer.backends
    }


async def test_each_target_group_has_its_turn(account: Account) -> None:
    """What somebody did to it is seen once each of them can have been read."""
    for _ in range(MINUTE):
        await account.listed()
    for group in account.groups:
        group.deregister([Description(*key) for key in group.owners])
    lists = [await account.listed() for _ in range(ROUNDS + 1)]

    assert {BackendState.DRAINING} == {one.backends[0].state for one in lists[-1]}


async def test_a_drain_is_polled_as_if_nobody_listed(account: Account) -> None:
    """The first question after the delay is over finds the target gone; no list has it."""
    group = account.groups[-1]
    group.attributes[DELAY] = "10"
    answers, lists = [], []
    for _ in range(6):
        answers.append(await account.driver.drain_backend(a_drain(an_identity(group))))
        lists.append((await account.listed())[-1].backends)

    assert [Running] * 5 + [Succ] == [type(one) for one in answers]
    assert [BackendState.DRAINING] * 5 == [one.state for (one,) in lists[:5]]
    assert not lists[5]


async def test_a_new_target_is_watched_until_it_serves(account: Account) -> None:
    """A gate waits for it: the first list after its checks have passed says so."""
    group = account.groups[-1]
    for one in account.groups:
        one.first_checks = timedelta(seconds=9)
    await account.driver.ensure_backend(an_ensure(an_identity(group), NEW, "new"))
    states = [(await account.listed())[-1].backends[1].state for _ in range(6)]

    assert [BackendState.DOWN] * 5 + [BackendState.ACTIVE] == states


async def test_a_new_target_that_is_not_shown_yet_is_looked_for(
    account: Account,
) -> None:
    """AWS has answered its registration: the first list after AWS shows it has it."""
    group = account.groups[-1]
    group.lag = LAG
    await account.driver.ensure_backend(an_ensure(an_identity(group), NEW, "new"))
    lacking = await account.driver.list_backends(a_list(an_identity(group)))
    account.clock.advance(LAG)
    showing = await account.driver.list_backends(a_list(an_identity(group)))

    assert [ADDRESS] == [one.backend_addr for one in lacking.backends]
    assert [ADDRESS, NEW] == [one.backend_addr for one in showing.backends]


async def test_a_target_that_never_shows_is_not_looked_for_for_good(
    account: Account,
) -> None:
    """Its registration had no effect, and no answer said so; turns are enough again soon."""
    at_rest = [await account.readings_of_a_list() for _ in range(MINUTE)]
    account.emulator.fail("RegisterTargets", INTERNAL)
    with pytest.raises(RetryAfter):
        await account.driver.ensure_backend(
            an_ensure(an_identity(account.groups[-1]), NEW, "new")
        )
    lists = account.driver.late_effect // PERIOD + 1
    looking = [await account.readings_of_a_list() for _ in range(lists)]
    after = [await account.readings_of_a_list() for _ in range(MINUTE)]

    assert sum(looking) > sum(at_rest[:lists]) + 1
    assert at_rest == after


async def test_a_failure_is_not_hidden_by_an_earlier_list(account: Account) -> None:
    """Once a drain was told that the target group is gone, no list says it was emptied."""
    group = account.groups[-1]
    lb_info = an_identity(group)
    await account.driver.drain_backend(a_drain(lb_info))
    await account.listed()
    del account.emulator.groups[group.arn]
    drained = await account.driver.drain_backend(a_drain(lb_info))

    with pytest.raises(Fail, match="was it deleted or replaced"):
        await account.driver.list_backends(a_list(lb_info))
    assert "target group web-39 is gone" == drained.msg


def test_few_target_groups_never_wait_for_each_other() -> None:
    """Ten that are listed at the same moment are read in each period; an eleventh waits."""
    budget = Budget()
    moments = [moment for moment in (2.0, 4.0, 60.0) for _ in range(10)]
    ten = [budget.turn(moment) for moment in moments]
    eleventh = budget.turn(60.0)

    assert pytest.approx(moments) == ten
    assert pytest.approx(60.2) == eleventh


def test_turns_that_nobody_takes_hold_up_nobody() -> None:
    """Once the moment of the last one is over, a target group is read when it likes to be."""
    budget = Budget()
    lost = [budget.turn(2.0) for _ in range(100)]

    assert max(lost) < 21
    assert 30.0 == budget.turn(30.0)
