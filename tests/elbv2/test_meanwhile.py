"""Each operation under each fault: what is said meanwhile, and what is there at last."""

import re

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import attrs
import pytest

from tests.elbv2.clients import (
    KEY,
    an_ensure,
    an_identity,
    write_credentials,
)
from tests.elbv2.clocks import QuickClock
from tests.elbv2.emulator import OURS, Emulator
from tests.elbv2.state import DELAY, ApiError, EmulatedGroup
from tests.webhooks.troubled import OPERATIONS, asking, settled, told
from webhooks.elbv2.driver import Elbv2Driver


AT_LAST = {"ensure": "in", "drain": "out", "deregister": "out", "list": "in"}
"""What a member is once its operation is done."""

ACTIONS = {
    "ensure": "RegisterTargets",
    "drain": "DeregisterTargets",
    "deregister": "DeregisterTargets",
    "list": "DescribeTargetHealth",
}
"""The call of AWS that each operation cannot do without."""

LONG = 99
"""Calls that a fault lasts for; the test ends it."""

Begin = Callable[[Emulator, str], object]


@attrs.frozen
class Fault:
    """Something that goes wrong with one action of AWS.

    Attributes:
        text: what is said of it, a pattern; it names the action, too.
        begin: makes it.
    """

    text: str
    begin: Begin


def _failing(text: str, code: str, status: int = 400) -> Fault:
    """Return an error of AWS."""
    error = ApiError(code, "so says AWS", status)
    return Fault(text, lambda emulator, action: emulator.fail(action, error, LONG))


def _babbling(text: str, status: int, page: str) -> Fault:
    """Return a page in place of an answer."""
    return Fault(text, lambda aws, action: aws.babble(action, status, page, LONG))


FAULTS = {
    "throttled": _failing("Throttling: .*nothing is wrong; it is sent", "Throttling"),
    "internal": _failing("InternalFailure: .*it is asked", "InternalFailure", 500),
    "denied": _failing("AccessDenied: .*allow the driver's role", "AccessDenied", 403),
    "expired": _failing("ExpiredToken: .*renew the driver's cred", "ExpiredToken", 403),
    "page-200": _babbling(
        "is not that of ELBv2: is there a proxy", 200, "<html><p>Log in</p><br></html>"
    ),
    "page-503": _babbling("503", 503, "<html><p>Sorry</p><br></html>"),
    "garbage": _babbling("is not that of ELBv2: is there a proxy", 200, "\\x00\\x01{]"),
}


def _state(group: EmulatedGroup) -> str:
    """Tell whether the target is in."""
    return "in" if KEY in group.owners else "out"


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", FAULTS)
async def test_told_meanwhile_and_right_at_last(  # noqa: PLR0917
    driver: Elbv2Driver,
    emulator: Emulator,
    group: EmulatedGroup,
    clock: QuickClock,
    name: str,
    operation: str,
) -> None:
    """It says what is wrong and changes nothing; then it is done without a restart."""
    group.attributes[DELAY] = "0"
    fault, ensure = FAULTS[name], an_ensure(an_identity(group))
    ask = asking(driver, operation, ensure)
    if operation != "ensure":
        await driver.ensure_backend(ensure)
        clock.advance(timedelta(seconds=1))
    before = _state(group)

    fault.begin(emulator, ACTIONS[operation])
    said = await told(ask)
    meanwhile = _state(group)
    emulator.faults.clear()
    clock.advance(timedelta(minutes=1))
    answer = await settled(ask)

    assert re.search(fault.text, said), said
    assert ACTIONS[operation] in said
    assert "<" not in said
    assert before == meanwhile
    assert AT_LAST[operation] == _state(group)
    assert (operation == "list") == bool(answer and answer.backends)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_credentials_that_expired(
    driver: Elbv2Driver,
    emulator: Emulator,
    group: EmulatedGroup,
    credentials: Path,
    operation: str,
) -> None:
    """Temporary ones end; new ones in the Secret are taken up without a restart."""
    group.attributes[DELAY] = "0"
    ensure = an_ensure(an_identity(group))
    ask = asking(driver, operation, ensure)
    await driver.ensure_backend(ensure)
    emulator.keys["ASIANEW"] = emulator.keys[OURS]
    emulator.keys[OURS] = attrs.evolve(emulator.keys[OURS], expired=True)

    said = await told(ask)
    meanwhile = _state(group)
    write_credentials(credentials, "ASIANEW", emulator.keys["ASIANEW"].secret)
    await settled(ask)

    assert re.search("ExpiredToken: .*renew the driver's credentials", said), said
    assert ("in", AT_LAST[operation]) == (meanwhile, _state(group))
