"""Patterns of URLs: what they let through, and what only looks alike."""

import pytest

from lbcf.drivers.url_allowlist import is_allowed, is_exposed, parse_allowed_url


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("https://driver.test", "https://driver.test/path"),
        ("https://driver.test", "https://driver.test:8443"),
        ("https://driver.test", "https://DRIVER.test."),
        ("https://Driver.Test:443", "https://driver.test"),
        ("*://*.svc", "http://a.b.svc:80"),
        ("http://10.0.*:9000", "http://10.0.3.4:9000"),
        ("http://[fd00::1]:90", "http://[fd00::1]:90/"),
        ("*://*", "http://anything"),
        ("http://10.0.7.*", "http://10.0.7.3"),
        ("*://127.*", "http://127.0.0.1:9002"),
        ("*://[::1]", "http://[::1]:9002"),
        ("http://169.254.7.7", "http://169.254.7.7"),
        ("*://*", "http://[64:ff9b::c000:201]"),
    ],
)
def test_what_is_allowed(pattern: str, url: str) -> None:
    """Scheme, host and port each match."""
    assert is_allowed(url, (parse_allowed_url(pattern),))


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("https://driver.test", "http://driver.test"),
        ("https://driver.test", "https://driver.test.evil"),
        ("https://driver.test", "https://evil/driver.test"),
        ("https://driver.test", "https://driver.test@evil"),
        ("https://*.svc", "https://evil/?x=.svc"),
        ("https://*.svc", "https://evil#.svc"),
        ("https://*.svc", "https://svc"),
        ("https://driver.test:443", "https://driver.test:444"),
        ("http://10.0.0.1", "http://10.0.0.11"),
        ("http://driver.test", "ftp://driver.test"),
        ("*://*", "not a url"),
        ("http://10.0.7.*", "http://10.0.7.evil.com"),
        ("http://[fd00:*]", "http://fd00.evil.com"),
        ("*://*", "http://127.0.0.1"),
        ("*://*", "http://169.254.169.254/latest"),
        ("*://*", "http://[::1]"),
        ("*://*", "http://[::ffff:127.0.0.1]"),
        ("*://*", "http://[::7f00:1]"),
        ("*://*", "http://[64:ff9b::a9fe:a9fe]/"),
        ("*://*", "http://[2002:a9fe:a9fe::]"),
        ("*://*", "http://[fe80::1]"),
        ("*://*", "http://0.0.0.0"),
        ("*://*", "http://224.0.0.1"),
        ("http://127.0.0.1:80", "http://127.0.0.1:81"),
    ],
)
def test_what_is_not(pattern: str, url: str) -> None:
    """Nothing but the host counts as the host."""
    assert not is_allowed(url, (parse_allowed_url(pattern),))


def test_one_of_several_is_enough_and_none_is_anywhere() -> None:
    """Patterns add up; an operator who gives none restricts nothing."""
    allowed_urls = (parse_allowed_url("https://a"), parse_allowed_url("https://b"))

    assert is_allowed("https://b", allowed_urls)
    assert not is_allowed("https://c", allowed_urls)
    assert is_allowed("https://c", ())


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1", "http://[::1]:80", "http://169.254.169.254", "http://[::]"],
)
def test_what_is_beside_us_has_to_be_named(url: str) -> None:
    """An operator who restricts nothing does not mean our own pod, or its host."""
    assert not is_allowed(url, ())


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        ("https://driver.test", "*://*"),
        ("http://driver.web.svc:80", "*://*"),
        ("http://driver.web.svc.cluster.local", "*://*"),
        ("http://127.0.0.1:80", "*://*"),
        ("http://localhost:80", "*://*"),
        ("http://driver.test", "http://*.test"),
    ],
)
def test_where_a_token_may_go(url: str, pattern: str) -> None:
    """Encrypted, inside of the cluster, or where the operator says http."""
    assert not is_exposed(url, (parse_allowed_url(pattern),))


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        ("http://driver.test", "*://*"),
        ("http://10.0.0.7", "*://10.0.0.7"),
        ("http://driver.svc.evil", "*://*"),
        ("http://driver.test", "http://other.test"),
    ],
)
def test_where_a_token_may_not_go(url: str, pattern: str) -> None:
    """Whoever is on the way could read it."""
    assert is_exposed(url, (parse_allowed_url(pattern),))


@pytest.mark.parametrize(
    "text",
    [
        "driver.test",
        "ftp://driver.test",
        "https://",
        "https://a/path",
        "https://user@a",
        "https://a:b",
        "https://[::1",
        "https://[::1]x",
        "",
    ],
)
def test_patterns_that_are_none(text: str) -> None:
    """What is wrong is said with an example."""
    with pytest.raises(ValueError, match=r"such as https://\*"):
        parse_allowed_url(text)
