"""What drivers read and answer alike."""

from typing import Never

import pytest

from lbcf.sdk import Fail
from webhooks.shared.addresses import read_address
from webhooks.shared.gathering import gathered
from webhooks.shared.parameters import check_no_attributes, wrong_field


@pytest.mark.parametrize("text", ["198.18.0.1:80", "[2001:db8::1]:65535"])
def test_an_address_is_written_as_it_was_read(text: str) -> None:
    """IPv6 has brackets, IPv4 has none."""
    assert text == str(read_address(text))


@pytest.mark.parametrize(
    "text",
    [
        "198.18.0.1",
        "198.18.0.1:",
        "198.18.0.1:0",
        "198.18.0.1:65536",
        "198.18.0.1:\uff180",
        "[198.18.0.1]:80",
        "2001:db8::1:80",
        "[fe80::1%eth0]:80",
        "web.example:80",
        "198.18.0.1:+80",
        " 198.18.0.1:80",
    ],
)
def test_whatever_is_no_address_is_none(text: str) -> None:
    """No half of it is taken for the whole."""
    assert read_address(text) is None


def test_the_last_port_can_be_another_one() -> None:
    """What a product keeps for itself is no port of a member."""
    assert read_address("198.18.0.1:65535", 65534) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "224.0.0.1", "[::]", "[ff02::1]"])  # noqa: S104
def test_everybodys_address_is_nobodys(host: str) -> None:
    """No single machine has it."""
    address = read_address(f"{host}:80")

    assert address is not None
    assert address.is_nobodys


def test_a_field_that_is_empty_is_missing() -> None:
    """What nobody knows is told first, for it may be what was meant."""
    known = ("pool", "zone")

    assert "pool is missing" == wrong_field({"pool": ""}, known[:1], known)
    assert "'poll' is unknown" == wrong_field({"poll": "web"}, known[:1], known)
    assert not wrong_field({"pool": "web"}, known[:1], known)


def test_attributes_are_refused() -> None:
    """They are what a load balancer is like, which is its operator's to say."""
    check_no_attributes({})

    with pytest.raises(Fail, match="'idle' is unknown"):
        check_no_attributes({"idle": "60"})


async def test_one_failure_stops_no_other() -> None:
    """Those that came about are there beside what failed."""
    asked: list[int] = []

    async def ask(number: int) -> int:
        """Fail for one."""
        asked.append(number)
        if number == 1:
            raise LookupError("one")
        return number

    values, failures = await gathered(ask, [0, 1, 2], LookupError)

    assert [0, 1, 2] == asked
    assert [0, 2] == values
    assert ["one"] == [str(failure) for failure in failures]


async def test_what_nobody_expects_is_raised() -> None:
    """A mistake of the driver is no answer of a load balancer."""

    async def ask(_: int) -> Never:
        """Be wrong."""
        raise TypeError("wrong")

    with pytest.raises(TypeError, match="wrong"):
        await gathered(ask, [0], LookupError)
