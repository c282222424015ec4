"""Each operation under each fault: what is said meanwhile, and what is there at last."""

import re

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import attrs
import pytest
import trustme

from aiohttp import web

from tests.f5.drivers import HastyClock
from tests.netscaler.appliances import Site, a_site, write_login
from tests.netscaler.errors import NOT_AUTHORIZED, SESSION_EXPIRED, NitroRefusal
from tests.netscaler.nitro import Heard, Trouble, busy, html, refused
from tests.netscaler.requests import an_ensure
from tests.netscaler.test_life import KEY
from tests.webhooks.troubled import OPERATIONS, asking, settled, told
from webhooks.netscaler.driver import NetscalerDriver


AT_LAST = {
    "ensure": "ENABLED",
    "drain": "DISABLED",
    "deregister": "absent",
    "list": "ENABLED",
}
"""What a member is once its operation is done."""

LONG = 10**6
"""Requests that a fault lasts for; the test ends it."""


@pytest.fixture(name="site")
async def _site(tmp_path: Path, authority: trustme.CA) -> AsyncIterator[Site]:
    """Serve an appliance whose drivers do not pause for long."""
    async with a_site(tmp_path, authority, clock=HastyClock()) as site:
        yield site


@attrs.frozen
class Fault:
    """Something that goes wrong with each request but logins.

    Attributes:
        text: what is said of it, a pattern.
        answer: in place of the appliance's; None hangs up.
    """

    text: str
    answer: Callable[[], web.Response] | None


def _refusing(code: int, text: str) -> Callable[[], web.Response]:
    """Return what answers with an error of NITRO."""
    return lambda: refused(NitroRefusal(code, text))


FAULTS = {
    "busy": Fault("is busy: error 293, 'Operation already in progress'", busy),
    "page-503": Fault(
        "HTTP 503 without NITRO .'Error Not now'.: is its management", html
    ),
    "page-404": Fault("HTTP 404 without NITRO", lambda: html(404)),
    "page-200": Fault("HTTP 200 without NITRO", lambda: html(200)),
    "hangs-up": Fault("hung up .*: is it overloaded, or restarting", None),
    "session": Fault(
        "error 444, .*: the session does not last: is somebody ending it",
        _refusing(SESSION_EXPIRED, "Session expired or killed. Please login again"),
    ),
    "policy": Fault(
        "error 2138, .*: give the driver's user a command policy",
        _refusing(NOT_AUTHORIZED, "Not authorized to execute this command"),
    ),
}


def _state(site: Site) -> str:
    """Tell what the member is."""
    member = site.unit.running.members.get(KEY)
    return member.state if member else "absent"


def _but_logins(heard: Heard) -> bool:
    """Tell whether a request is more than a login."""
    return heard.resource not in {"login", "logout"}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", FAULTS)
async def test_told_meanwhile_and_right_at_last(
    driver: NetscalerDriver, site: Site, name: str, operation: str
) -> None:
    """It says what is wrong and changes nothing; then it is done without a restart."""
    fault, ensure = FAULTS[name], an_ensure(site.lb_info)
    ask = asking(driver, operation, ensure)
    if operation != "ensure":
        await driver.ensure_backend(ensure)
    before = _state(site)

    site.nitro.troubles.append(Trouble(fault.answer, LONG, _but_logins))
    said = await told(ask)
    meanwhile = _state(site)
    site.nitro.troubles.clear()
    answer = await settled(ask)

    assert re.search(fault.text, said), said
    assert before == meanwhile
    assert AT_LAST[operation] == _state(site)
    assert (operation == "list") == bool(answer and answer.backends)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_password_that_was_changed(
    driver: NetscalerDriver, site: Site, operation: str
) -> None:
    """The same; a Secret that is right again is enough."""
    ensure = an_ensure(site.lb_info)
    ask = asking(driver, operation, ensure)
    await driver.ensure_backend(ensure)
    site.unit.password = "another"  # noqa: S105  (nobody's)
    site.unit.sessions.clear()

    said = await told(ask)
    meanwhile = _state(site)
    write_login(site.secrets, password="another")  # noqa: S106  (nobody's)
    await settled(ask)

    assert re.search("error 354, .*: put the right username and password", said), said
    assert ("ENABLED", AT_LAST[operation]) == (meanwhile, _state(site))


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_session_that_ended_is_not_noticed(
    driver: NetscalerDriver, site: Site, operation: str
) -> None:
    """Expired or killed in the middle of the work: the work goes on with another."""
    ensure = an_ensure(site.lb_info)
    await driver.ensure_backend(ensure)
    site.unit.sessions.clear()

    await settled(asking(driver, operation, ensure))

    logins = [one for one in site.nitro.heard if one.resource == "login"]
    assert (2, AT_LAST[operation]) == (len(logins), _state(site))
