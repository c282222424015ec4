"""What goes wrong on an appliance: a clear message meanwhile, the right state at last."""

import asyncio

from datetime import timedelta
from pathlib import Path

import pytest
import trustme

from lbcf.sdk import Fail, RetryAfter, Succ
from tests.netscaler.appliances import Site, SteppedClock, a_site, write_login
from tests.netscaler.errors import (
    SESSION_EXPIRED,
    NitroRefusal,
)
from tests.netscaler.nitro import Heard, Held, Trouble, busy, html, refused
from tests.netscaler.operations import BINDING
from tests.netscaler.requests import an_ensure, until_done
from tests.netscaler.test_life import KEY
from tests.patience import PATIENT
from tests.webhooks.requests import a_deregister, a_drain, a_list
from webhooks.device.devices import parse_device
from webhooks.device.errors import Busy
from webhooks.device.replies import Reply
from webhooks.netscaler.driver import NetscalerDriver
from webhooks.netscaler.errors import NitroRefused
from webhooks.netscaler.nitro import read


DEVICE = parse_device("https://192.0.2.10")


def is_binding(heard: Heard) -> bool:
    """Tell whether a request binds a member."""
    return (heard.method, heard.resource) == ("PUT", BINDING)


def is_change(heard: Heard) -> bool:
    """Tell whether a request changes something, but for sessions."""
    return heard.method != "GET" and heard.resource not in {"login", "logout"}


def is_login(heard: Heard) -> bool:
    """Tell whether a request opens a session."""
    return heard.resource == "login"


def is_save(heard: Heard) -> bool:
    """Tell whether a request saves the configuration."""
    return (heard.method, heard.resource) == ("POST", "nsconfig")


class TestSessions:
    """Sessions end, passwords change."""

    async def test_one_session_serves_all(
        self, site: Site, driver: NetscalerDriver
    ) -> None:
        """The driver logs in once, and logs out when it stops."""
        await driver.ensure_backend(an_ensure(site.lb_info))
        await until_done(lambda: driver.deregister_backend(a_deregister(site.lb_info)))
        during = len(site.unit.sessions)

        await driver.stop()

        logins = [one for one in site.nitro.heard if one.resource == "login"]
        assert (1, 1, {}) == (len(logins), during, site.unit.sessions)

    async def test_a_session_that_never_lasts(
        self, site: Site, driver: NetscalerDriver
    ) -> None:
        """It is told, and asked for twice and no more."""
        ended = NitroRefusal(SESSION_EXPIRED, "Session expired or killed")
        site.nitro.troubles.append(
            Trouble(lambda: refused(ended), 99, lambda one: one.resource != "login")
        )

        with pytest.raises(Fail, match=r"error 444, .*: the session does not last"):
            await driver.ensure_backend(an_ensure(site.lb_info))

        assert 4 == len(site.nitro.heard)

    async def test_a_changed_secret_ends_the_use_of_the_old_session(
        self, site: Site, driver: NetscalerDriver
    ) -> None:
        """Who took the password away does not want it used on."""
        await driver.ensure_backend(an_ensure(site.lb_info))
        site.unit.password = "another"  # noqa: S105  (nobody's)
        write_login(site.secrets, password="another")  # noqa: S106  (nobody's)

        await driver.drain_backend(a_drain(site.lb_info))

        logins = [one for one in site.nitro.heard if one.resource == "login"]
        assert ["secret", "another"] == [
            one.body["login"]["password"]  # type: ignore[index]  # it is JSON
            for one in logins
        ]
        assert 1 == len(site.unit.sessions)

    async def test_a_login_with_the_secret_of_before_says_nothing_of_the_next(
        self, site: Site, driver: NetscalerDriver
    ) -> None:
        """Whoever comes with another password is not told what is wrong with the old."""
        login = Held(is_login)
        site.nitro.holds.append(login)
        write_login(site.secrets, password="old")  # noqa: S106  (nobody's)
        with_old = asyncio.create_task(driver.list_backends(a_list(site.lb_info)))
        await login.begun.wait()
        write_login(site.secrets)
        other = a_list(site.lb_info | {"serviceGroup": "other"})
        with_new = asyncio.create_task(driver.list_backends(other))
        await asyncio.sleep(
            0.01
        )  # it may come later, too: then it has nobody before it
        login.go.set()

        with pytest.raises(Fail, match="error 354"):
            await with_old
        await with_new

    async def test_a_login_that_is_under_way_at_the_end_is_ended(
        self, site: Site, driver: NetscalerDriver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The driver stops when it has its session, and has given it back."""
        monkeypatch.setattr("webhooks.device.logins.LAST", PATIENT)
        login = Held(is_login, late=True)
        site.nitro.holds.append(login)
        asked = asyncio.create_task(driver.list_backends(a_list(site.lb_info)))
        await login.begun.wait()
        asked.cancel()
        stopping = asyncio.create_task(driver.stop())
        await asyncio.gather(asked, return_exceptions=True)
        login.go.set()
        await stopping

        assert {} == site.unit.sessions

    async def test_a_slow_login_is_brought_to_its_end(self, site: Site) -> None:
        """It may take longer than an answer, and than callers wait: there is one session."""
        driver = site.driver(answer=timedelta(milliseconds=150))
        driver.patience = timedelta(milliseconds=300)
        login = Held(is_login, late=True)
        site.nitro.holds.append(login)
        for _ in range(3):
            with pytest.raises(RetryAfter):
                await driver.list_backends(a_list(site.lb_info))
        login.go.set()
        await until_done(lambda: driver.ensure_backend(an_ensure(site.lb_info)))
        sessions = len(site.unit.sessions)
        await driver.stop()

        assert (1, {}) == (sessions, site.unit.sessions)
        assert 1 == len(list(filter(is_login, site.nitro.heard)))

    async def test_a_refused_password_is_not_tried_again_at_once(
        self, tmp_path: Path, authority: trustme.CA
    ) -> None:
        """Appliances lock users out: one try a minute, and at once with another one."""
        clock, tried = SteppedClock(), list[int]()
        async with a_site(tmp_path, authority, clock=clock) as site:
            write_login(tmp_path, password="old")  # noqa: S106  (nobody's)
            driver = site.driver()
            for pause in (0, 59.9, 0.1):
                clock.advance(pause)
                asked = [driver.list_backends(a_list(site.lb_info)) for _ in range(5)]
                said = await asyncio.gather(*asked, return_exceptions=True)
                assert [True] * 5 == ["error 354" in str(one) for one in said]
                tried.append(len(list(filter(is_login, site.nitro.heard))))
            write_login(tmp_path)
            await driver.list_backends(a_list(site.lb_info))
            await driver.stop()

        assert [1, 1, 2] == tried
        assert 3 == len(list(filter(is_login, site.nitro.heard)))


class TestBusy:
    """The management interface has no time, or is not there."""

    async def test_busy_for_a_moment(self, site: Site, driver: NetscalerDriver) -> None:
        """It is asked again, and nobody notices."""
        site.nitro.troubles.append(Trouble(busy, 2, is_change))

        answer = await driver.ensure_backend(an_ensure(site.lb_info))

        assert isinstance(answer, Succ)
        assert KEY in site.unit.running.members

    @pytest.mark.parametrize(
        ("trouble", "text"),
        [
            # Twice: HTTP clients repeat a PUT by themselves, once.
            (Trouble(None, 2, is_binding), "hung up"),
            (Trouble(None, 2, is_binding, late=True), "hung up"),
        ],
    )
    async def test_busy_for_longer(
        self, site: Site, driver: NetscalerDriver, trouble: Trouble, text: str
    ) -> None:
        """It is Running with the reason, and right when it is asked for again.

        A lost answer may have been a done one: the member is bound once all the same.
        """
        site.nitro.troubles.append(trouble)

        with pytest.raises(RetryAfter, match=text):
            await driver.ensure_backend(an_ensure(site.lb_info))
        await driver.ensure_backend(an_ensure(site.lb_info))

        assert ["bound"] == [event.what for event in site.unit.events]

    @pytest.mark.parametrize("status", [200, 404])
    async def test_html_is_no_answer(
        self, site: Site, driver: NetscalerDriver, status: int
    ) -> None:
        """A page with 404 does not mean that the member is gone, nor one with 200."""
        await driver.ensure_backend(an_ensure(site.lb_info))
        site.nitro.troubles.append(
            Trouble(lambda: html(status), on=lambda one: one.resource == BINDING)
        )

        with pytest.raises(Fail, match=f"HTTP {status} without NITRO"):
            await driver.deregister_backend(a_deregister(site.lb_info))

        assert KEY in site.unit.running.members


@pytest.mark.parametrize(
    ("status", "body"),
    [
        *(
            (599, f'{{"errorcode": {code}, "message": "no", "severity": "ERROR"}}')
            for code in (292, 293, 445, 446, 447)
        ),
        (503, '{"message": "no healthy upstream"}'),
    ],
)
def test_what_passes_is_busy(status: int, body: str) -> None:
    """Numbers of the vendor's table, and JSON of somebody in between who is in trouble."""
    with pytest.raises(Busy, match="is busy: error"):
        read(DEVICE, Reply(status, body.encode()))


def test_json_that_is_not_nitros() -> None:
    """A refusal without a number is one, and is told with its status."""
    with pytest.raises(NitroRefused, match="answered HTTP 400, 'no such path'"):
        read(DEVICE, Reply(400, b'{"message": "no such path"}'))
