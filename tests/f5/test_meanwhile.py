"""Each operation under each fault: what is said meanwhile, and what is there at last."""

import re

from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import pytest

from tests.f5.requests import MEMBER, WEB, an_ensure, an_identity
from tests.f5.server import Bigip
from tests.webhooks.troubled import OPERATIONS, asking, settled, told
from webhooks.f5.driver import F5Driver


AT_LAST = {
    "ensure": "user-enabled",
    "drain": "user-disabled",
    "deregister": "absent",
    "list": "user-enabled",
}
"""What a member is once its operation is done."""


@attrs.frozen
class Ground:
    """What faults happen to."""

    bigip: Bigip
    secret: Path


@attrs.frozen
class Fault:
    """Something that goes wrong.

    Attributes:
        text: what is said of it, a pattern.
        begin: makes it.
        end: takes it away.
    """

    text: str
    begin: Callable[[Ground], Awaitable[None]]
    end: Callable[[Ground], Awaitable[None]]


def _failing(text: str, **faults: int) -> Fault:
    """Return a fault of the management interface; `text` is said of it."""

    async def begin(ground: Ground) -> None:
        """Have it."""
        for name, value in faults.items():
            setattr(ground.bigip.faults, name, value)

    async def end(ground: Ground) -> None:
        """Have none."""
        ground.bigip.faults.busy = ground.bigip.faults.pages = 0

    return Fault(text, begin, end)


async def _go(ground: Ground) -> None:
    """Be down."""
    await ground.bigip.stop()


async def _come(ground: Ground) -> None:
    """Be up."""
    await ground.bigip.start()


async def _change_password(ground: Ground) -> None:
    """Have another password than the Secret, and end all tokens."""
    ground.bigip.password = "another"  # noqa: S105  (nobody's)
    ground.bigip.tokens.clear()


async def _tell_password(ground: Ground) -> None:
    """Write the password into the Secret."""
    (ground.secret / "password").write_text(ground.bigip.password)


async def _use_tokens_up(ground: Ground) -> None:
    """Have all tokens taken by somebody else."""
    ground.bigip.tokens = {f"T{number}": "lbcf" for number in range(100)}


async def _free_tokens(ground: Ground) -> None:
    """Have them expire."""
    ground.bigip.tokens.clear()


FAULTS = {
    "busy": _failing(
        r"is busy \(HTTP 503\): There is an active asynchronous task executing",
        busy=99,
    ),
    "page-503": _failing(r"is busy \(HTTP 503\): '503 Starting up'", pages=99),
    "page-404": _failing(r"HTTP 404\): '503 Start", pages=99, page_status=404),
    "page-200": _failing(r"HTTP 200\): '503 Start", pages=99, page_status=200),
    "down": Fault("cannot be reached", _go, _come),
    "password": Fault(
        "check username and password in the driver's Secret",
        _change_password,
        _tell_password,
    ),
    "tokens": Fault(
        "maximum active login tokens; waiting for some to expire",
        _use_tokens_up,
        _free_tokens,
    ),
}


def _state(bigip: Bigip) -> str:
    """Tell what the member is."""
    if MEMBER not in bigip.unit.running.pool(WEB).members:
        return "absent"
    return str(bigip.unit.member(WEB, MEMBER)["session"])


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", FAULTS)
async def test_told_meanwhile_and_right_at_last(
    driver: F5Driver, bigip: Bigip, secret: Path, name: str, operation: str
) -> None:
    """It says what is wrong and changes nothing; then it is done without a restart."""
    fault, ground = FAULTS[name], Ground(bigip, secret)
    ensure = an_ensure(an_identity(bigip))
    ask = asking(driver, operation, ensure)
    if operation != "ensure":
        await driver.ensure_backend(ensure)
    before = _state(bigip)

    await fault.begin(ground)
    said = await told(ask)
    meanwhile = _state(bigip)
    await fault.end(ground)
    answer = await settled(ask)

    assert re.search(fault.text, said), said
    assert before == meanwhile
    assert AT_LAST[operation] == _state(bigip)
    assert (operation == "list") == bool(answer and answer.backends)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_token_that_ended_is_not_noticed(
    driver: F5Driver, bigip: Bigip, operation: str
) -> None:
    """Expired or revoked in the middle of the work: the work goes on with another."""
    ensure = an_ensure(an_identity(bigip))
    await driver.ensure_backend(ensure)
    bigip.tokens.clear()

    await settled(asking(driver, operation, ensure))

    assert AT_LAST[operation] == _state(bigip)
    assert 2 == bigip.seen.count("POST /mgmt/shared/authn/login")
