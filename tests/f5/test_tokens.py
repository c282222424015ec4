"""Who the driver is to a unit: a token at a time, kept and given back."""

import asyncio
import contextlib

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from lbcf.sdk import Fail, RetryAfter, Succ
from tests.f5.requests import (
    an_ensure,
    an_identity,
)
from tests.f5.server import Bigip
from tests.patience import PATIENCE
from webhooks.f5.driver import F5Driver


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


class TestSlowLogins:
    """A unit asks a RADIUS or TACACS server, which takes longer than a caller waits."""

    async def test_one_is_brought_to_its_end(
        self, make_driver: Callable[..., F5Driver], bigip: Bigip
    ) -> None:
        """However many callers have given up, the unit has given one token."""
        soon = timedelta(milliseconds=300)
        driver = make_driver(patience=soon, answer=soon / 2)
        go = asyncio.Event()
        bigip.before_login = lambda _: go.wait()
        for _ in range(3):
            with pytest.raises(RetryAfter):
                await driver.ensure_backend(an_ensure(an_identity(bigip)))
        go.set()
        async with asyncio.timeout(PATIENCE):
            done = False
            while not done:
                with contextlib.suppress(RetryAfter):
                    await driver.ensure_backend(an_ensure(an_identity(bigip)))
                    done = True

        assert 1 == len(bigip.tokens)
        assert 1 == bigip.seen.count("POST /mgmt/shared/authn/login")

    async def test_one_that_is_under_way_at_the_end(
        self, driver: F5Driver, bigip: Bigip, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The driver stops when it has its token, and has given it back."""
        monkeypatch.setattr("webhooks.device.logins.LAST", timedelta(seconds=PATIENCE))
        begun, go = asyncio.Event(), asyncio.Event()

        async def hold(_request: str) -> None:
            begun.set()
            await go.wait()

        bigip.before_login = hold
        request = an_ensure(an_identity(bigip))
        asked = asyncio.create_task(driver.ensure_backend(request))
        await begun.wait()
        asked.cancel()
        stopping = asyncio.create_task(driver.stop())
        await asyncio.gather(asked, return_exceptions=True)
        go.set()
        await stopping

        assert {} == bigip.tokens
