"""Each operation under each fault: what is said meanwhile, and what is there at last."""

import re

from collections.abc import AsyncIterator

import attrs
import pytest

from lbcf.sdk import RetryAfter
from tests.haproxy.proxy import Haproxy
from tests.haproxy.relay import Relay, Spoil, changes_cut, cut, honest, nothing
from tests.haproxy.requests import a_deregister, a_drain, an_ensure
from tests.webhooks.requests import RECORD, a_list
from tests.webhooks.troubled import OPERATIONS, Ask, settled, told
from webhooks.haproxy.driver import HaproxyDriver


pytestmark = pytest.mark.haproxy

ADDRESS = "127.0.1.1:80"
PAGE = b"HTTP/1.1 400 Bad request\r\n\r\n<html><body>Bad request</body></html>\n"

AT_LAST = {"ensure": "in", "drain": "out", "deregister": "absent", "list": "in"}
"""What a member is once its operation is done: in service, out of it, or not there."""


@attrs.frozen
class Fault:
    """Something that goes wrong with each command.

    Attributes:
        text: what is said of it, a pattern; it names the socket, too.
        spoil: what becomes of HAProxy's answers.
        stranger: what is answered by somebody who is no HAProxy; None: HAProxy answers.
        refused: whether nobody listens.
    """

    text: str
    spoil: Spoil = honest
    stranger: bytes | None = None
    refused: bool = False


READABLE = "answered cannot be read .*: is it HAProxy 2.6 or newer that listens there"

FAULTS = {
    "refused": Fault("cannot be reached .*: is it running", refused=True),
    "page": Fault(READABLE, stranger=PAGE),
    "garbage": Fault(READABLE, stranger=b"\x00\xff{]\n"),
    "nothing": Fault("hung up without an answer", spoil=nothing),
    "cut": Fault("hung up in the middle of an answer", spoil=cut),
}


@pytest.fixture(name="relay")
async def _relay(proxy: Haproxy) -> AsyncIterator[Relay]:
    """Return what is between the driver and HAProxy."""
    async with Relay.running(proxy) as relay:
        yield relay


async def _state(proxy: Haproxy) -> str:
    """Tell what the member is."""
    row = (await proxy.rows()).get(f"lbcf-{RECORD}")
    if row is None:
        return "absent"
    return "in" if row["srv_admin_state"] == "0" else "out"


def _asked(driver: HaproxyDriver, relay: Relay, operation: str) -> Ask:
    """Return an operation on the member."""
    lb_info = {"sockets": relay.path, "backend": "web"}
    asks: dict[str, Ask] = {
        "ensure": lambda: driver.ensure_backend(an_ensure(lb_info, ADDRESS)),
        "drain": lambda: driver.drain_backend(a_drain(lb_info)),
        "deregister": lambda: driver.deregister_backend(a_deregister(lb_info)),
        "list": lambda: driver.list_backends(a_list(lb_info)),
    }
    return asks[operation]


async def _begin(relay: Relay, fault: Fault) -> None:
    """Have something go wrong."""
    relay.spoil, relay.stranger = fault.spoil, fault.stranger
    if fault.refused:
        await relay.refuse()


async def _end(relay: Relay) -> None:
    """Have it end."""
    relay.spoil, relay.stranger = honest, None
    await relay.listen()


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", FAULTS)
async def test_told_meanwhile_and_right_at_last(
    driver: HaproxyDriver, proxy: Haproxy, relay: Relay, name: str, operation: str
) -> None:
    """It says what is wrong and changes nothing; then it is done without a restart."""
    ask = _asked(driver, relay, operation)
    if operation != "ensure":
        await settled(_asked(driver, relay, "ensure"))
    before = await _state(proxy)

    await _begin(relay, FAULTS[name])
    said = await told(ask)
    meanwhile = await _state(proxy)
    await _end(relay)
    answer = await settled(ask)

    assert re.search(FAULTS[name].text, said), said
    assert relay.path in said
    assert before == meanwhile
    assert AT_LAST[operation] == await _state(proxy)
    assert (operation == "list") == bool(answer and answer.backends)


@pytest.mark.parametrize("operation", ["ensure", "drain", "deregister"])
async def test_a_change_whose_answer_was_cut(
    driver: HaproxyDriver, proxy: Haproxy, relay: Relay, operation: str
) -> None:
    """It was made, and the driver cannot know: it answers Running, and looks again."""
    ask = _asked(driver, relay, operation)
    if operation != "ensure":
        await settled(_asked(driver, relay, "ensure"))
    before = await _state(proxy)

    relay.spoil = changes_cut
    with pytest.raises(RetryAfter, match="hung up") as said:
        await ask()
    meanwhile = await _state(proxy)
    await _end(relay)
    await settled(ask)

    assert relay.path in said.value.msg
    assert before != meanwhile
    assert AT_LAST[operation] == await _state(proxy)
