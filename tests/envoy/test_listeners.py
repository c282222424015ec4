"""Where load balancers may listen: rules of fleet, address and port, as a table."""

import pytest

from webhooks.envoy.balancers import parse_identity
from webhooks.envoy.driver import ANY_LISTENER, is_listener


@pytest.mark.parametrize(
    ("rule", "listen", "is_meant"),
    [
        ("*/*:8???", "0.0.0.0:8080", True),
        ("*/*:8???", "[::]:8080", True),
        ("*/*:8???", "10.0.0.1:8053/udp", True),
        ("*/*:8???", "[2001:db8::8]:9", False),
        ("*/*:8???", "[2001:db8::80]:9", False),
        ("*/*:8???", "[2001:db8:8::]:1", False),
        ("*/*:80", "[2001:db8::80]:8000", False),
        ("edge/*8:*", "[2001:db8:8:1::]:9", False),
        ("edge/198.51.100.*:*", "198.51.100.7:9", True),
        ("edge/198.51.100.*:*", "198.51.101.7:9", False),
        ("edge/[[]::]:80", "[::]:80", True),
        ("edge/[[]::]:80", "[::1]:80", False),
        ("edge/[[]2001:db8:*]:443", "[2001:db8::1]:443", True),
        ("ed??/0.0.0.0:80", "0.0.0.0:80", True),
        ("ed?/0.0.0.0:80", "0.0.0.0:80", False),
        ("other/*:*", "0.0.0.0:80", False),
        ("*", "[2001:db8::8]:9", True),
        ("edge/*", "[2001:db8::8]:9", True),
        ("edge*", "0.0.0.0:80", True),
        ("other/*", "0.0.0.0:80", False),
    ],
)
def test_what_a_rule_means(rule: str, listen: str, is_meant: bool) -> None:
    """Fleet, address and port each for itself: `?` is a digit of a port, and no part of an IP."""
    known = parse_identity({"fleet": "edge", "listen": listen})

    assert is_meant == is_listener(known, rule)


def test_what_is_open_by_default() -> None:
    """Ports 80, 443 and 8000 to 8999, of any address."""
    meant = [
        port
        for port in (9, 80, 443, 800, 8000, 8999, 18000, 80000)
        for listen in (f"[2001:db8::8]:{port}",)
        if port < 65536
        and any(
            is_listener(parse_identity({"fleet": "edge", "listen": listen}), rule)
            for rule in ANY_LISTENER
        )
    ]

    assert [80, 443, 8000, 8999] == meant
