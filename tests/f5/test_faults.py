"""Each fault of an appliance ends in the right state, with a clear text meanwhile."""

import contextlib

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lbcf.sdk import Fail, Refusal, RetryAfter, Running, Succ
from tests.f5.requests import (
    ADDRESS,
    MEMBER,
    WEB,
    a_deregister,
    a_drain,
    a_list,
    an_ensure,
    an_identity,
)
from tests.f5.server import Bigip
from webhooks.f5.driver import F5Driver


SOON = timedelta(milliseconds=400)
"""A save period, in the time of a clock that runs twenty times as fast."""


def _members(bigip: Bigip) -> list[str]:
    """Return the members of the pool."""
    return list(bigip.unit.running.pool(WEB).members)


class TestTokens:
    """Who the driver is to a unit."""

    async def test_one_is_enough(self, driver: F5Driver, bigip: Bigip) -> None:
        """All calls share a token; the driver gives it back at its end."""
        lb_info = an_identity(bigip)
        for last in range(1, 6):
            await driver.ensure_backend(an_ensure(lb_info, f"198.18.0.{last}:80"))

        assert 1 == bigip.seen.count("POST /mgmt/shared/authn/login")
        assert 1 == len(bigip.tokens)
        await driver.stop()
        assert {} == bigip.tokens

    async def test_one_that_is_not_taken_is_replaced(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """Expired or revoked: the call is made with another, and nobody notices."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        bigip.tokens.clear()

        assert isinstance(await driver.ensure_backend(an_ensure(lb_info)), Succ)
        assert 2 == bigip.seen.count("POST /mgmt/shared/authn/login")

    async def test_one_is_renewed_before_it_expires(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """A unit whose tokens live for a second is shown fresh ones; old ones end."""
        bigip.life = 1
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        first = set(bigip.tokens)
        while first == set(bigip.tokens):
            await driver.ensure_backend(an_ensure(lb_info))

        assert 1 == len(bigip.tokens)
        assert "DELETE /mgmt/shared/authz/tokens/" + first.pop() in bigip.seen

    async def test_tokens_that_never_count(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """A unit that takes none of its own tokens is not asked for ever."""
        bigip.life = 0

        with pytest.raises(Fail, match="X-F5-Auth-Token does not exist"):
            await driver.ensure_backend(an_ensure(an_identity(bigip)))
        assert 2 == bigip.seen.count("POST /mgmt/shared/authn/login")

    async def test_a_wrong_password(
        self, driver: F5Driver, bigip: Bigip, secret: Path
    ) -> None:
        """It is shown once, not until the user is locked out; a new one counts."""
        (secret / "password").write_text("old")
        lb_info = an_identity(bigip)
        for _ in range(3):
            with pytest.raises(Fail, match="check username and password"):
                await driver.ensure_backend(an_ensure(lb_info))
        assert 1 == bigip.seen.count("POST /mgmt/shared/authn/login")

        (secret / "password").write_text(bigip.password)
        assert isinstance(await driver.ensure_backend(an_ensure(lb_info)), Succ)

    async def test_too_many_tokens(self, driver: F5Driver, bigip: Bigip) -> None:
        """Somebody who uses the same user and gives nothing back is told of."""
        bigip.tokens = {f"T{number}": "lbcf" for number in range(100)}

        with pytest.raises(RetryAfter, match="maximum active login tokens") as told:
            await driver.ensure_backend(an_ensure(an_identity(bigip)))
        assert timedelta(minutes=1) == told.value.retry_after


class TestBusy:
    """Units that cannot just now."""

    @pytest.mark.parametrize("fault", ["busy", "pages"])
    async def test_a_moment_is_bridged(
        self, driver: F5Driver, bigip: Bigip, fault: str
    ) -> None:
        """A few refusals, in JSON or HTML, delay a call and do not fail it."""
        setattr(bigip.faults, fault, 2)

        assert isinstance(
            await driver.ensure_backend(an_ensure(an_identity(bigip))), Succ
        )
        assert [MEMBER] == _members(bigip)

    @pytest.mark.parametrize(
        ("fault", "text"),
        [
            ("busy", "There is an active asynchronous task executing"),
            ("pages", r"HTTP 503.*Starting up"),
        ],
    )
    async def test_longer_is_told(
        self, driver: F5Driver, bigip: Bigip, fault: str, text: str
    ) -> None:
        """A unit that stays so is left alone for a while; the call is Running."""
        setattr(bigip.faults, fault, 99)
        with pytest.raises(RetryAfter, match=text):
            await driver.ensure_backend(an_ensure(an_identity(bigip)))

        setattr(bigip.faults, fault, 0)
        assert isinstance(
            await driver.ensure_backend(an_ensure(an_identity(bigip))), Succ
        )

    async def test_slow_units_end_calls_in_time(
        self, make_driver: Callable[..., F5Driver], bigip: Bigip
    ) -> None:
        """A call ends before its caller gives up."""
        driver = make_driver(answer=timedelta(minutes=1))
        bigip.faults.slow = 30
        limit = datetime.now(UTC) + timedelta(seconds=0.5)

        with pytest.raises(RetryAfter, match="too slow"):
            await driver.ensure_backend(an_ensure(an_identity(bigip), not_after=limit))
        bigip.faults.slow = 0

    async def test_nobody_there(self, driver: F5Driver, bigip: Bigip) -> None:
        """A unit that is down is told as such."""
        lb_info = an_identity(bigip)
        await bigip.stop()

        with pytest.raises(Fail, match="cannot be reached"):
            await driver.ensure_backend(an_ensure(lb_info))


class TestLostAnswers:
    """Changes of which nobody knows whether they were made."""

    @pytest.mark.parametrize("fault", ["lost", "unmade"])
    async def test_asking_again_settles_it(
        self, driver: F5Driver, bigip: Bigip, fault: str
    ) -> None:
        """Made or not: the next attempt finds out, and there is one member."""
        lb_info = an_identity(bigip)
        setattr(bigip.faults, fault, 1)
        with pytest.raises(RetryAfter, match="hung up"):
            await driver.ensure_backend(an_ensure(lb_info))

        assert isinstance(await driver.ensure_backend(an_ensure(lb_info)), Succ)
        assert [MEMBER] == _members(bigip)

    @pytest.mark.parametrize("fault", ["lost", "unmade"])
    async def test_a_removal_too(
        self, driver: F5Driver, bigip: Bigip, fault: str
    ) -> None:
        """The same with what is taken out, node included."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        setattr(bigip.faults, fault, 3)
        with pytest.raises(RetryAfter, match="hung up"):
            await driver.deregister_backend(a_deregister(lb_info))
        for _ in range(3):
            with contextlib.suppress(RetryAfter):
                await driver.deregister_backend(a_deregister(lb_info))

        assert isinstance(await driver.deregister_backend(a_deregister(lb_info)), Succ)
        assert ([], {}) == (_members(bigip), bigip.unit.running.nodes)

    async def test_a_404_after_an_add_is_looked_into(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """Some versions answer 404 to an add that they made."""
        bigip.faults.bogus = 1

        assert isinstance(
            await driver.ensure_backend(an_ensure(an_identity(bigip))), Succ
        )
        assert [MEMBER] == _members(bigip)

    async def test_old_units_answer_200_for_nothing(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """A member without an address is none."""
        bigip.faults.absent_is_ok = True
        lb_info = an_identity(bigip)

        assert isinstance(await driver.ensure_backend(an_ensure(lb_info)), Succ)
        assert isinstance(await driver.deregister_backend(a_deregister(lb_info)), Succ)
        assert [] == _members(bigip)


class TestOtherHands:
    """What somebody else does to our members."""

    async def test_removed_by_hand_is_done(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """Nothing is left to drain or to take out."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        bigip.unit.remove_member(WEB, MEMBER)

        assert isinstance(await driver.drain_backend(a_drain(lb_info)), Succ)
        assert isinstance(await driver.deregister_backend(a_deregister(lb_info)), Succ)
        assert {} == bigip.unit.running.nodes

    async def test_removed_while_it_should_be_there(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """It is listed no more; the epoch stays, for nothing else was lost with it."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        before = await driver.list_backends(a_list(lb_info))
        bigip.unit.remove_member(WEB, MEMBER)

        after = await driver.list_backends(a_list(lb_info))
        bigip.tokens.clear()
        later = await driver.list_backends(a_list(lb_info))

        assert ([], []) == (list(after.backends), list(later.backends))
        assert before.epoch == after.epoch == later.epoch

    async def test_somebody_elses_member(self, driver: F5Driver, bigip: Bigip) -> None:
        """It is neither changed nor taken out; ensuring says what to do."""
        bigip.unit.running.add_member(WEB, {"name": ADDRESS, "description": "theirs"})
        before = bigip.unit.members(WEB)
        lb_info = an_identity(bigip)

        with pytest.raises(Fail, match=r"'theirs'.*take it out by hand"):
            await driver.ensure_backend(an_ensure(lb_info))
        for answer in (
            await driver.drain_backend(a_drain(lb_info)),
            await driver.deregister_backend(a_deregister(lb_info)),
        ):
            assert isinstance(answer, Succ)
            assert "left alone" in str(answer.msg)
        assert before == bigip.unit.members(WEB)

    async def test_another_records_member(self, driver: F5Driver, bigip: Bigip) -> None:
        """A late word of a record that is gone does not touch its successor."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info, record="old"))
        await driver.ensure_backend(an_ensure(lb_info, record="new"))

        await driver.drain_backend(a_drain(lb_info, record="old"))
        await driver.deregister_backend(a_deregister(lb_info, record="old"))

        member = bigip.unit.member(WEB, MEMBER)
        assert ("lbcf:new", "user-enabled") == (
            member["description"],
            member["session"],
        )


class TestDisk:
    """What survives a reboot."""

    async def test_changes_are_saved(
        self, make_driver: Callable[..., F5Driver], bigip: Bigip
    ) -> None:
        """Soon after they were made, without anybody's asking."""
        driver, lb_info = make_driver(save_period=SOON), an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        while not bigip.unit.saved.pools[WEB].members:
            await driver.list_backends(a_list(lb_info))

        bigip.reboot()
        assert [MEMBER] == _members(bigip)

    async def test_a_rollout_is_saved_once(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """Many changes are one save; what is left when the driver ends is saved."""
        lb_info = an_identity(bigip)
        for last in range(1, 6):
            await driver.ensure_backend(an_ensure(lb_info, f"198.18.0.{last}:80"))
        await driver.stop()

        bigip.reboot()
        assert (5, 1) == (len(_members(bigip)), bigip.unit.saves)

    async def test_a_restarted_driver_saves_what_another_left(
        self, make_driver: Callable[..., F5Driver], bigip: Bigip
    ) -> None:
        """One that was killed may have left changes unsaved; nobody knows which."""
        lb_info = an_identity(bigip)
        await make_driver().ensure_backend(an_ensure(lb_info))
        another = make_driver()
        await another.list_backends(a_list(lb_info))
        await another.stop()

        bigip.reboot()
        assert [MEMBER] == _members(bigip)

    async def test_a_reboot_that_loses_members(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """The epoch changes; ensuring puts them back; the unit's start is told."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        before = (await driver.list_backends(a_list(lb_info))).epoch

        bigip.reboot(pages=99)
        with pytest.raises(Refusal, match="Starting up"):
            await driver.list_backends(a_list(lb_info))
        bigip.faults.pages = 0

        after = (await driver.list_backends(a_list(lb_info))).epoch
        assert before != after
        assert after == (await driver.list_backends(a_list(lb_info))).epoch
        await driver.ensure_backend(an_ensure(lb_info))
        assert [MEMBER] == _members(bigip)

    async def test_a_quick_restart_that_loses_members(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """A unit that does not know our token any more may have lost the rest, too."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        before = (await driver.list_backends(a_list(lb_info))).epoch

        bigip.reboot()
        assert before != (await driver.list_backends(a_list(lb_info))).epoch

    async def test_a_restart_that_loses_nothing(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """The epoch stays while all members are there."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        before = (await driver.list_backends(a_list(lb_info))).epoch

        bigip.unit.save()
        bigip.reboot()
        assert before == (await driver.list_backends(a_list(lb_info))).epoch

    async def test_a_reboot_that_brings_members_back(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """What was taken out, and not saved, is taken out again."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        bigip.unit.save()
        await driver.deregister_backend(a_deregister(lb_info))

        bigip.reboot()
        assert [MEMBER] == _members(bigip)
        listed = await driver.list_backends(a_list(lb_info))

        assert [] == list(listed.backends)
        assert ([], {}) == (_members(bigip), bigip.unit.running.nodes)

    async def test_a_member_that_is_wanted_again_stays(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """A record that was taken out and ensured anew is not taken for the old one."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        await driver.deregister_backend(a_deregister(lb_info))
        await driver.ensure_backend(an_ensure(lb_info))

        assert 1 == len((await driver.list_backends(a_list(lb_info))).backends)
        assert [MEMBER] == _members(bigip)

    async def test_a_reboot_in_a_drain(self, driver: F5Driver, bigip: Bigip) -> None:
        """A member that came up in service is disabled again."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        bigip.unit.save()
        await driver.drain_backend(a_drain(lb_info))
        bigip.reboot()

        assert isinstance(await driver.drain_backend(a_drain(lb_info)), Running)
        assert "user-disabled" == bigip.unit.member(WEB, MEMBER)["session"]


async def test_looks_are_shared(
    make_driver: Callable[..., F5Driver], bigip: Bigip
) -> None:
    """Listing again and again asks the unit once; a change is seen at once."""
    driver = make_driver(look_period=timedelta(hours=1))
    lb_info = an_identity(bigip)
    await driver.ensure_backend(an_ensure(lb_info))
    for _ in range(5):
        await driver.list_backends(a_list(lb_info))
    asked = bigip.seen.count("GET /mgmt/tm/ltm/pool/~Common~web/members")
    await driver.deregister_backend(a_deregister(lb_info))

    assert [] == list((await driver.list_backends(a_list(lb_info))).backends)
    assert 3 > asked
