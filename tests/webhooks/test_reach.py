"""Which addresses members may have, as tables."""

import argparse
import ipaddress

import hypothesis
import pytest

from hypothesis import strategies

from lbcf.runtime.addresses import plain
from webhooks.shared.addresses import Address, read_address
from webhooks.shared.reach import AllowedAddresses, add_flag, read_flag, spelling


def an_address(text: str) -> Address:
    """Read an address."""
    address = read_address(text)
    assert address is not None
    return address


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("127.0.0.1:22", "loopback"),
        ("127.255.0.9:80", "loopback"),
        ("[::1]:80", "loopback"),
        ("[::ffff:127.0.0.1]:80", "loopback"),
        ("[::ffff:7f00:1]:80", "loopback"),
        ("[::7f00:1]:80", "loopback"),
        ("[2002:7f00:1::]:80", "loopback"),
        ("[64:ff9b::7f00:1]:80", "loopback"),
        ("169.254.169.254:80", "link-local"),
        ("[::ffff:169.254.169.254]:80", "link-local"),
        ("[64:ff9b::a9fe:a9fe]:80", "link-local"),
        ("[fe80::1]:80", "link-local"),
        ("0.0.0.0:80", "unspecified"),
        ("[::]:80", "unspecified"),
        ("[::ffff:0.0.0.0]:80", "unspecified"),
        ("0.1.2.3:80", "0.0.0.0/8"),
        ("224.0.0.1:80", "multicast"),
        ("[ff02::1]:80", "multicast"),
        ("255.255.255.255:80", "reserved"),
        ("240.0.0.1:80", "reserved"),
        ("[fd00:ec2::254]:80", "metadata service"),
        ("168.63.129.16:80", "metadata service"),
        ("100.100.100.200:80", "metadata service"),
    ],
)
def test_what_no_member_may_have(text: str, kind: str) -> None:
    """Unless its network was opened; the message says how."""
    address = an_address(text)

    why = AllowedAddresses().objection(address)

    assert kind in why
    assert "--allow-addresses" in why
    network = ipaddress.ip_network(plain(address.ip))
    assert "" == AllowedAddresses((network,)).objection(address)


@pytest.mark.parametrize(
    "text",
    ["10.0.0.1:80", "192.168.1.1:1", "198.18.0.1:80", "6.6.6.6:80", "[2001:db8::1]:80",
     "[fd00::1]:443", "100.64.0.1:80", "[2002:a00:1::]:80"],
)  # fmt: skip
def test_what_any_machine_may_have(text: str) -> None:
    """Private ones as well: pods have them."""
    assert "" == AllowedAddresses().objection(an_address(text))


@pytest.mark.parametrize("text", ["192.0.2.1:9999", "[::ffff:192.0.2.1]:9999"])
def test_control_endpoints_are_nobodys(text: str) -> None:
    """However they are written, and in networks that were opened, too."""
    control = [an_address("192.0.2.1:9999")]
    opened = AllowedAddresses((ipaddress.ip_network("0.0.0.0/0"),))

    why = opened.objection(an_address(text), control)

    assert "is where the load balancer itself is operated" in why
    assert "" == opened.objection(an_address("192.0.2.1:9998"), control)


@hypothesis.given(ip=strategies.ip_addresses(), port=strategies.integers(1, 65535))
def test_an_address_has_one_spelling(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int
) -> None:
    """That in which it is written; others are refused with it."""
    address = Address(ip, port)
    text = str(address)
    padded = text.replace(f":{port}", f":0{port}")

    assert "" == spelling(text, address)
    assert f"as {text}" in spelling(padded, address)


def test_the_flag() -> None:
    """It may be repeated; what is no network is refused by name."""
    parser = argparse.ArgumentParser()
    add_flag(parser)
    words = ["--allow-addresses", "127.0.0.0/8", "--allow-addresses", "fe80::/10"]

    networks = read_flag(parser.parse_args(words)).networks

    assert ["127.0.0.0/8", "fe80::/10"] == [str(one) for one in networks]
    assert () == read_flag(parser.parse_args([])).networks
    with pytest.raises(ValueError, match=r"--allow-addresses '127\.0\.0\.1/8'"):
        read_flag(parser.parse_args(["--allow-addresses", "127.0.0.1/8"]))
