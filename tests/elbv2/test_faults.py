"""What AWS does to its callers: each ends in the right state, told clearly meanwhile."""

import asyncio
import contextlib

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import attrs
import pytest

from lbcf.sdk import Fail, RetryAfter
from tests.elbv2.clients import (
    KEY,
    a_deregister,
    a_list,
    an_ensure,
    an_identity,
    write_credentials,
)
from tests.elbv2.clocks import QuickClock
from tests.elbv2.conftest import MakeDriver
from tests.elbv2.emulator import OURS, Emulator
from tests.elbv2.signing import Key
from tests.elbv2.state import ApiError, EmulatedGroup
from tests.patience import PATIENCE
from webhooks.elbv2.driver import Elbv2Driver


THROTTLED = ApiError("Throttling", "Rate exceeded")
EXPIRED = ApiError("ExpiredToken", "The security token is expired", 403)

HASTY = timedelta(seconds=0.5)
"""For an answer that does not come."""

Ask = Callable[[], Awaitable[object]]


async def told(driver: Elbv2Driver, group: EmulatedGroup) -> Fail | RetryAfter:
    """Ensure a member; return what the driver says is wrong."""
    return await told_by(lambda: driver.ensure_backend(an_ensure(an_identity(group))))


async def told_by(ask: Ask) -> Fail | RetryAfter:
    """Ask once; return what the driver says is wrong."""
    with pytest.raises((Fail, RetryAfter)) as caught:
        await ask()
    assert isinstance(caught.value, Fail | RetryAfter)
    return caught.value


async def until_unanswered(ask: Ask, call: str) -> str:
    """Ask until this call of AWS has no answer in time; return what is said then.

    Before it, a slow machine may leave others without one.
    """
    text = f"no answer to {call}"
    async with asyncio.timeout(PATIENCE):
        while text not in (said := await told_by(ask)).msg:
            assert "no answer to" in said.msg
    assert isinstance(said, RetryAfter)
    return said.msg


async def answered(ask: Ask) -> object:
    """Ask until there is an answer: a slow machine may be late with some."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(RetryAfter):
                return await ask()


async def test_throttled(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, clock: QuickClock
) -> None:
    """Nothing is sent until the wait is over that the caller was told; then it is in."""
    clock.stop()
    emulator.fail("RegisterTargets", THROTTLED)
    first = await told(driver, group)
    second = await told(driver, group)
    sent = len(emulator.made("RegisterTargets"))
    clock.advance(first.retry_after or timedelta())
    await driver.ensure_backend(an_ensure(an_identity(group)))

    assert isinstance(first, RetryAfter)
    assert isinstance(second, RetryAfter)
    assert "Rate exceeded" in second.msg
    assert first.retry_after is not None
    assert timedelta(seconds=0.5) <= first.retry_after <= timedelta(seconds=1)
    assert 0 == sent
    assert {KEY: OURS} == group.owners


async def test_throttled_again_and_again(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, clock: QuickClock
) -> None:
    """Each refusal doubles the wait, up to half a minute."""
    emulator.fail("RegisterTargets", THROTTLED, times=8)
    waits = []
    for _ in range(8):
        wait = (await told(driver, group)).retry_after
        assert wait is not None
        waits.append(wait)
        clock.advance(wait)

    assert waits[0] <= timedelta(seconds=1)
    assert timedelta(seconds=15) <= max(waits) <= timedelta(seconds=30)


async def test_the_library_tries_again_by_itself(
    make_driver: MakeDriver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """One refusal among two attempts to read is not seen by the caller."""
    driver = make_driver(attempts=2)
    emulator.fail("DescribeTargetHealth", THROTTLED)

    await driver.ensure_backend(an_ensure(an_identity(group)))

    assert {KEY: OURS} == group.owners


@pytest.mark.parametrize("second", [THROTTLED, EXPIRED])
async def test_a_change_without_an_answer_is_not_sent_again_by_the_library(
    make_driver: MakeDriver,
    emulator: Emulator,
    group: EmulatedGroup,
    second: ApiError,
) -> None:
    """What a second attempt is told says nothing of the first: ours stays ours."""
    driver = make_driver(attempts=2)
    emulator.lose("RegisterTargets")
    emulator.fail("RegisterTargets", second)
    said = await told(driver, group)
    in_unseen = dict(group.owners)
    emulator.faults.clear()

    await driver.deregister_backend(a_deregister(an_identity(group)))

    assert isinstance(said, RetryAfter)
    assert "no answer to RegisterTargets" in said.msg
    assert {KEY: OURS} == in_unseen
    assert {} == group.owners


@pytest.mark.parametrize("reset", [False, True])
async def test_hung_up_in_place_of_an_answer(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, *, reset: bool
) -> None:
    """However the connection ended: what was sent may have taken effect."""
    emulator.lose("RegisterTargets", reset=reset)
    said = await told(driver, group)
    in_unseen = dict(group.owners)

    await driver.deregister_backend(a_deregister(an_identity(group)))

    assert isinstance(said, RetryAfter)
    assert "no answer to RegisterTargets" in said.msg
    assert {KEY: OURS} == in_unseen
    assert {} == group.owners


async def test_many_members_stay_below_the_limit_of_describing(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """Asked about thirty members at once, ten times, AWS counts few calls."""
    emulator.throttles = True
    lb_info = an_identity(group)

    for _ in range(10):
        await asyncio.gather(
            *(
                driver.ensure_backend(an_ensure(lb_info, f"198.18.1.{n}:80", str(n)))
                for n in range(1, 31)
            )
        )

    assert 30 == len(group.owners)


@pytest.mark.parametrize("call", ["RegisterTargets", "DescribeTargetHealth"])
@pytest.mark.parametrize("page", ["<html><h1>Sorry</h1><br></html>", "<html/>", ""])
@pytest.mark.parametrize("status", [200, 500, 503])
async def test_html_in_place_of_an_answer(  # noqa: PLR0917
    driver: Elbv2Driver,
    emulator: Emulator,
    group: EmulatedGroup,
    call: str,
    status: int,
    page: str,
) -> None:
    """A page of a proxy is no answer: it is asked again, and then it is in."""
    emulator.babble(call, status, page)

    said = await told(driver, group)
    await driver.ensure_backend(an_ensure(an_identity(group)))

    assert isinstance(said, RetryAfter)
    assert call in said.msg
    assert "<" not in said.msg
    assert {KEY: OURS} == group.owners


async def test_no_answer_in_time(
    make_driver: MakeDriver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """What was sent took effect unseen: it is taken for ours, and taken out."""
    driver = make_driver(answering=HASTY)
    lb_info = an_identity(group)
    emulator.mute.add("RegisterTargets")
    ensure, leave = an_ensure(lb_info), a_deregister(lb_info)
    said = await until_unanswered(
        lambda: driver.ensure_backend(ensure), "RegisterTargets"
    )
    in_unseen = set(group.owners)
    emulator.mute.clear()

    await answered(lambda: driver.deregister_backend(leave))

    assert "no answer to RegisterTargets: ReadTimeoutError" in said
    assert {KEY} == in_unseen
    assert {} == group.owners


async def test_slower_than_the_caller_waits(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """An operation ends in time, and the next one waits for what was sent."""
    hasty = attrs.evolve(driver, patience=timedelta(seconds=0.5))
    lb_info = an_identity(group)
    await driver.list_backends(a_list(lb_info))
    emulator.late = 0.4

    with pytest.raises(RetryAfter, match=r"not finished within 0\.5 s"):
        await hasty.ensure_backend(an_ensure(lb_info))
    emulator.late = 0.0
    await driver.ensure_backend(an_ensure(lb_info))
    await driver.deregister_backend(a_deregister(lb_info))

    assert {} == group.owners


async def test_nobody_there(
    make_driver: MakeDriver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """Nothing was sent, and that is said."""
    closed = emulator.url.rpartition(":")[0] + ":9"
    driver = make_driver(endpoint_url=closed)

    said = await told(driver, group)

    assert isinstance(said, Fail)
    assert "was not sent" in said.msg


async def test_an_expired_token(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, credentials: Path
) -> None:
    """The message asks for new ones; once they are in the Secret, it goes on."""
    emulator.keys[OURS].expired = True
    said = await told(driver, group)
    emulator.keys["ASIANEW"] = Key("other-secret", "token-of-an-hour")
    write_credentials(credentials, "ASIANEW", "other-secret", "token-of-an-hour")
    await driver.ensure_backend(an_ensure(an_identity(group)))

    assert "ExpiredToken" in said.msg
    assert "renew the driver's credentials" in said.msg
    assert {KEY: "ASIANEW"} == group.owners


@pytest.mark.parametrize(
    ("access", "secret", "message"),
    [
        (OURS, "not-the-secret", "SignatureDoesNotMatch"),
        ("AKIANOBODY", "x", "InvalidClientTokenId"),
        (OURS, "", "aws_secret_access_key is missing or empty"),
    ],
)
async def test_wrong_credentials(  # noqa: PLR0917
    driver: Elbv2Driver,
    group: EmulatedGroup,
    credentials: Path,
    access: str,
    secret: str,
    message: str,
) -> None:
    """The message says what is wrong with them."""
    write_credentials(credentials, access, secret)

    said = await told(driver, group)

    assert message in said.msg
    assert "not-the-secret" not in said.msg
