"""Who the driver is to a unit: a token at a time, kept and given back."""

import asyncio

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from lbcf.sdk import Fail, RetryAfter, RetrySingly, Succ
from tests.f5.requests import (
    an_ensure,
    an_identity,
)
from tests.f5.server import Bigip
from tests.netscaler.appliances import SteppedClock
from tests.patience import PATIENT
from tests.webhooks.troubled import settled
from webhooks.device.connection import Connection, Limits
from webhooks.device.devices import parse_device
from webhooks.device.refused import PAUSE
from webhooks.device.secrets import Secrets
from webhooks.device.trust import read_trust
from webhooks.f5.driver import F5Driver
from webhooks.f5.tokens import HEADER, Tokens


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
        self, make_driver: Callable[..., F5Driver], bigip: Bigip
    ) -> None:
        """A unit that takes none of its own tokens is asked once more each minute."""
        bigip.life = 0
        clock, logins = SteppedClock(), list[int]()
        driver = make_driver(clock)

        for _ in range(3):
            for _ in range(3):
                text = "X-F5-Auth-Token does not exist"
                await _refused(driver, an_identity(bigip), text)
            logins.append(bigip.seen.count("POST /mgmt/shared/authn/login"))
            clock.advance(PAUSE.total_seconds())
        assert [2, 3, 4] == logins

    async def test_tokens_that_are_lost_as_the_unit_starts(
        self, make_driver: Callable[..., F5Driver], bigip: Bigip
    ) -> None:
        """One that was given, and lost before it was of use, is replaced at once."""
        driver, lb_info = make_driver(SteppedClock()), an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        bigip.tokens.clear()
        bigip.faults.busy = 99
        with pytest.raises(RetryAfter):
            await driver.ensure_backend(an_ensure(lb_info))
        bigip.faults.busy = 0
        bigip.tokens.clear()

        assert isinstance(await driver.ensure_backend(an_ensure(lb_info)), Succ)

    async def test_late_answers_to_the_token_before(
        self, secret: Path, bigip: Bigip
    ) -> None:
        """They do not keep a token that was taken, and has ended, from being replaced."""
        device = parse_device(bigip.url)
        connection = Connection(device, read_trust(insecure=True), Limits())
        tokens = Tokens(connection, Secrets(secret), SteppedClock())
        before = await tokens.current()
        for _ in range(3):
            current = await tokens.current()
            tokens.note_taken(current)
            tokens.note_taken(before)
            await tokens.give_up(current, HEADER)
            before = current
        await connection.close()

        assert 3 == bigip.seen.count("POST /mgmt/shared/authn/login")
        assert {} == bigip.tokens

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


TO_WEB = "POST /mgmt/tm/ltm/pool/~Common~web/members"
TO_TOKENS = "DELETE /mgmt/shared/authz/tokens"
STRANGE = "Who are you to {1} {0}?"
"""A 401 that no version is known to answer."""


async def _refused(driver: F5Driver, lb_info: dict[str, str], text: str) -> None:
    """See that an ensure is refused, and nothing else goes wrong."""
    with pytest.raises(Fail, match=text):
        await driver.ensure_backend(an_ensure(lb_info))


class TestRights:
    """What a user who is known may not do is no reason for another token."""

    async def test_a_right_that_is_missing(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """It is named; one token is enough, and other pools are served."""
        bigip.unit.add_pool("/Common/api")
        bigip.faults.forbidden = (TO_WEB,)
        right = TO_WEB.replace("POST ", "the user may not POST ")
        for _ in range(60):
            await _refused(driver, an_identity(bigip), f"{right} .*role Manager")
        other = an_identity(bigip, pool="/Common/api")

        assert isinstance(await driver.ensure_backend(an_ensure(other)), Succ)
        assert 1 == len(bigip.tokens)
        assert 1 == bigip.seen.count("POST /mgmt/shared/authn/login")

    async def test_a_right_to_log_in(self, driver: F5Driver, bigip: Bigip) -> None:
        """Who may not is not sent again at once: some lock users out."""
        bigip.faults.forbidden = ("POST /mgmt/shared/authn/login",)
        for _ in range(3):
            await _refused(driver, an_identity(bigip), "the user may not POST")

        assert 1 == bigip.seen.count("POST /mgmt/shared/authn/login")

    async def test_a_right_to_transactions(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """Without it members are asked for singly, with the token that there is."""
        bigip.faults.forbidden = ("POST /mgmt/tm/transaction",)
        requests = [
            an_ensure(an_identity(bigip), f"198.18.0.{n}:80", f"r{n}") for n in (1, 2)
        ]
        together = await driver.ensure_backends(requests)
        singly = [await driver.ensure_backend(one) for one in requests]

        assert {RetrySingly} == {type(one) for one in together.values()}
        assert [Succ, Succ] == [type(one) for one in singly]
        assert 1 == len(bigip.tokens)

    @pytest.mark.parametrize("kept", [False, True])
    async def test_refusals_that_nobody_knows(
        self, make_driver: Callable[..., F5Driver], bigip: Bigip, *, kept: bool
    ) -> None:
        """Tokens do not pile up, whether the unit takes them back or not."""
        bigip.unit.add_pool("/Common/api")
        bigip.faults.forbidding = STRANGE
        bigip.faults.forbidden = (TO_WEB, TO_TOKENS) if kept else (TO_WEB,)
        driver = make_driver(SteppedClock())
        for _ in range(60):
            await _refused(driver, an_identity(bigip), "Who are you to POST")
        other = an_identity(bigip, pool="/Common/api")

        assert isinstance(await driver.ensure_backend(an_ensure(other)), Succ)
        assert len(bigip.tokens) == 1 + kept
        assert 2 == bigip.seen.count("POST /mgmt/shared/authn/login")

    async def test_tokens_that_are_given_up_are_given_back(
        self, make_driver: Callable[..., F5Driver], bigip: Bigip
    ) -> None:
        """However long it goes on: there is one login a minute, and one token."""
        clock = SteppedClock()
        bigip.faults.forbidding = STRANGE
        bigip.faults.forbidden = (TO_WEB,)
        driver = make_driver(clock)
        for _ in range(5):
            for _ in range(3):
                await _refused(driver, an_identity(bigip), "Who are you to POST")
            clock.advance(PAUSE.total_seconds())

        assert 1 == len(bigip.tokens)
        assert 6 == bigip.seen.count("POST /mgmt/shared/authn/login")

    async def test_refusals_beside_other_work(
        self, make_driver: Callable[..., F5Driver], bigip: Bigip
    ) -> None:
        """That others are served with a token does not bring about another login."""
        bigip.unit.add_pool("/Common/api")
        other = an_identity(bigip, pool="/Common/api")
        bigip.faults.forbidding = STRANGE
        bigip.faults.forbidden = (TO_WEB,)
        driver = make_driver(SteppedClock())
        await driver.ensure_backend(an_ensure(other))

        async def serve_another(what: str) -> None:
            if what == TO_WEB:
                assert isinstance(await driver.ensure_backend(an_ensure(other)), Succ)

        bigip.before_change = serve_another
        for _ in range(10):
            await _refused(driver, an_identity(bigip), "Who are you to POST")

        assert 2 == bigip.seen.count("POST /mgmt/shared/authn/login")

    async def test_a_token_that_ended_meanwhile(
        self, make_driver: Callable[..., F5Driver], bigip: Bigip
    ) -> None:
        """One that was taken is replaced at once, one that never was after a minute."""
        clock, lb_info = SteppedClock(), an_identity(bigip)
        bigip.faults.forbidding = STRANGE
        bigip.faults.forbidden = (TO_WEB,)
        driver = make_driver(clock)
        await _refused(driver, lb_info, "Who are you to POST")
        bigip.tokens.clear()
        await _refused(driver, lb_info, "X-F5-Auth-Token does not exist")
        clock.advance(PAUSE.total_seconds())
        await _refused(driver, lb_info, "Who are you to POST")
        await _refused(driver, lb_info, "Who are you to POST")
        bigip.faults.forbidden = ()
        bigip.tokens.clear()

        assert isinstance(await driver.ensure_backend(an_ensure(lb_info)), Succ)


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
        await settled(lambda: driver.ensure_backend(an_ensure(an_identity(bigip))))

        assert 1 == len(bigip.tokens)
        assert 1 == bigip.seen.count("POST /mgmt/shared/authn/login")

    async def test_one_that_is_under_way_at_the_end(
        self, driver: F5Driver, bigip: Bigip, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The driver stops when it has its token, and has given it back."""
        monkeypatch.setattr("webhooks.device.logins.LAST", PATIENT)
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
