"""A slot that another record owns is not taken over, however its backend is spelled."""

import hypothesis
import pytest

from hypothesis import strategies
from msgspec.structs import replace

from lbcf.sdk import EnsureBackendRequest, MemberKey, Succ
from tests.haproxy.conftest import patient
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import an_ensure, an_identity
from tests.webhooks.requests import RECORD, a_deregister, a_drain
from webhooks.haproxy import commands
from webhooks.haproxy.commands import Target
from webhooks.haproxy.load_balancers import parse_identity
from webhooks.haproxy.members import SlotName, parse_address
from webhooks.haproxy.slot_driver import SlotDriver
from webhooks.shared.identity import Owner


OTHER = "0f6ad1f4-3a52-4f0c-8d7e-77a1c2b3d4e5"
"""The uid of somebody else's record."""

ADDRESSES = ("198.18.0.1:80", "[2001:db8::1]:8080")


@pytest.fixture(name="driver")
def _driver() -> SlotDriver:
    """Return a driver that has never done anything."""
    return patient(SlotDriver)


def ensuring(
    lb_info: dict[str, str], address: str, record: str
) -> EnsureBackendRequest:
    """Return a request to ensure a member."""
    return an_ensure(lb_info, address, record, parameters={})


async def members(proxy: Haproxy) -> list[str]:
    """Return where slots are that somebody has."""
    rows = await proxy.rows("slots")
    slots = [rows[f"lbcf.{number}"] for number in range(1, 4)]
    places = [f"{row['srv_addr']}:{row['srv_port']}" for row in slots]
    return [place for place in places if place != "127.0.0.1:1"]


async def occupy(proxy: Haproxy) -> None:
    """Have a member in the first slot, and nowhere written down whose it is."""
    for line in (
        "set server slots/lbcf.1 addr 198.18.0.1 port 80",
        "set server slots/lbcf.1 state ready",
    ):
        await proxy.ask(line)


@pytest.mark.haproxy
async def test_a_slot_of_an_earlier_version_is_the_records_that_asks(
    driver: SlotDriver, proxy: Haproxy
) -> None:
    """Nobody wrote down whose it is: it is taken out as it was before."""
    await occupy(proxy)
    lb_info = an_identity(proxy, backend="slots")
    before = await members(proxy)

    request = a_deregister(lb_info, "198.18.0.1:80", RECORD, drained=False)
    answer = await driver.deregister_backend(request)

    assert isinstance(answer, Succ)
    assert (["198.18.0.1:80"], []) == (before, await members(proxy))


@pytest.mark.haproxy
async def test_a_slot_that_says_nobody_stays_where_addresses_are_not_locked(
    driver: SlotDriver, proxy: Haproxy
) -> None:
    """A restart has forgotten whose it is: it may be that of any record."""
    await occupy(proxy)
    lb_info = an_identity(proxy, backend="slots")
    key, slot = MemberKey.RECORD, "slots/lbcf.1"

    before = (await proxy.rows("slots"))["lbcf.1"]["srv_admin_state"]
    drain = replace(a_drain(lb_info, "198.18.0.1:80"), member_key=key)
    drained = await driver.drain_backend(drain)
    state = (await proxy.rows("slots"))["lbcf.1"]["srv_admin_state"]
    end = replace(a_deregister(lb_info, "198.18.0.1:80"), member_key=key)
    ended = await driver.deregister_backend(end)

    for answer in (drained, ended):
        assert isinstance(answer, Succ)
        assert f"left alone: {slot}" in str(answer.msg)
    assert (["198.18.0.1:80"], before) == (await members(proxy), state)


def test_one_backend_has_one_key() -> None:
    """Order and cookies do not matter; the HAProxys do."""
    spellings = (
        {"sockets": "/run/haproxy/a.sock, /run/haproxy/b.sock"},
        {"sockets": "/run/haproxy/b.sock,/run/haproxy/a.sock,/run/haproxy/b.sock"},
        {
            "sockets": "/run/haproxy/b.sock,/run/haproxy/a.sock",
            "dynamicCookies": "true",
        },
    )
    found = [parse_identity(one | {"backend": "web"}) for one in spellings]

    assert 1 == len({one.lock_key for one in found})
    assert found[0].render() == found[1].render()
    alone = parse_identity({"sockets": "/run/haproxy/a.sock", "backend": "web"})
    assert alone.lock_key != found[0].lock_key


@hypothesis.given(
    record=strategies.uuids().map(str), address=strategies.sampled_from(ADDRESSES)
)
def test_an_owner_is_read_as_it_is_written(record: str, address: str) -> None:
    """At another address the same words are nobody's."""
    owner, at = Owner(record, "0123456789abcdef"), parse_address(address)
    target = Target("slots", SlotName("lbcf", 1))
    line = commands.note_owner(target, owner, at).line
    answer = f"proc.x: type=str value=<{line.partition('str(')[2][:-1]}>"

    assert owner == commands.owner_at(answer, at)
    assert None is commands.owner_at(answer, parse_address("198.18.0.9:80"))
    assert None is commands.owner_at("Variable not found.", at)
