"""What goes wrong on an appliance: a clear message meanwhile, the right state at last."""

import pytest

from lbcf.sdk import Fail, RetryAfter, Succ
from tests.netscaler.appliances import Site, write_login
from tests.netscaler.errors import (
    SESSION_EXPIRED,
    NitroRefusal,
)
from tests.netscaler.nitro import Heard, Trouble, busy, html, refused
from tests.netscaler.operations import BINDING
from tests.netscaler.requests import an_ensure, until_done
from tests.netscaler.test_life import KEY
from tests.webhooks.requests import a_deregister, a_drain
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
