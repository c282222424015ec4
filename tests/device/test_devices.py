"""Which devices may be named, what they are shown, and what they say."""

from pathlib import Path

import hypothesis
import pytest

from hypothesis import strategies

from webhooks.device.devices import (
    AllowedDevices,
    Device,
    parse_device,
    parse_devices,
)
from webhooks.device.errors import InvalidInput, NoCredentials, Unreadable
from webhooks.device.replies import Reply
from webhooks.device.secrets import Login, Secrets


F5 = Device("10.1.1.1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.1.1.1", "https://10.1.1.1"),
        ("https://10.1.1.1/", "https://10.1.1.1"),
        ("https://10.1.1.1:8443", "https://10.1.1.1:8443"),
        ("HTTPS://Big.Example.COM", "https://big.example.com"),
        ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ],
)
def test_devices_are_read(text: str, expected: str) -> None:
    """A device is a scheme, a host and a port."""
    assert expected == str(parse_device(text))


@pytest.mark.parametrize(
    "text",
    ["", "https://", "ftp://a", "https://a/b", "https://u:p@a", "https://a?b", "a b"],
)
def test_what_is_no_device(text: str) -> None:
    """Nothing that a URL can have besides is taken."""
    with pytest.raises(InvalidInput, match="write https://HOST"):
        parse_device(text)


def test_several_devices() -> None:
    """Units are listed with commas, each counts once, and there is a limit."""
    assert [F5, Device("10.1.1.2")] == parse_devices("10.1.1.1, 10.1.1.2,10.1.1.1")
    with pytest.raises(InvalidInput, match="9 are more than 8"):
        parse_devices(",".join(f"10.1.1.{last}" for last in range(9)))


@pytest.mark.parametrize(
    ("pattern", "text", "allowed"),
    [
        ("https://10.1.1.*", "10.1.1.1", True),
        ("10.1.1.*", "10.1.1.1", True),
        ("10.1.1.*", "10.1.2.1", False),
        ("10.1.1.1", "10.1.1.1:8443", False),
        ("10.1.1.1:*", "10.1.1.1:8443", True),
        ("10.1.1.1", "http://10.1.1.1", False),
        ("https://[2001:db8::*]", "https://[2001:db8::1]", True),
        ("https://f5.example.com", "f5.example.com", True),
        ("https://*", "f5.example.com", False),
        ("https://10.*", "10.evil.example.com", False),
    ],
)
def test_only_listed_devices_are_allowed(
    pattern: str, text: str, *, allowed: bool
) -> None:
    """Wildcards stand for parts of addresses, and never for anybody's name."""
    allowlist = AllowedDevices((pattern,))
    if allowed:
        allowlist.check(parse_device(text))
        return
    with pytest.raises(InvalidInput, match="--allow-devices"):
        allowlist.check(parse_device(text))


def _write(folder: Path, files: dict[str, str]) -> None:
    """Write a Secret as a mounted volume shows it."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def test_credentials_are_read_anew(tmp_path: Path) -> None:
    """A changed Secret counts from the next look on."""
    _write(tmp_path, {"username": "lbcf\n", "password": "old"})
    secrets = Secrets(tmp_path)
    before = secrets.login(F5)

    _write(tmp_path, {"password": "new\n"})

    assert Login("lbcf", "old") == before
    assert Login("lbcf", "new") == secrets.login(F5)
    assert "old" not in repr(before)


def test_a_device_may_have_its_own(tmp_path: Path) -> None:
    """A folder that is called like the host counts for that device alone."""
    _write(tmp_path, {"username": "all", "password": "a"})
    own = {"username": "one", "password": "b", "provider": "local"}
    _write(tmp_path / "10.1.1.1", own)
    secrets = Secrets(tmp_path)

    assert Login("one", "b") == secrets.login(F5)
    assert Login("all", "a") == secrets.login(Device("10.1.1.2"))
    assert "local" == secrets.read_optional(F5, "provider", "tmos")
    assert "tmos" == secrets.read_optional(Device("10.1.1.2"), "provider", "tmos")


@pytest.mark.parametrize("text", [None, "", "\n", "x" * 70_000])
def test_what_cannot_be_credentials(tmp_path: Path, text: str | None) -> None:
    """What is missing, empty or huge is named, with the device that wanted it."""
    _write(tmp_path, {"username": "lbcf"})
    if text is not None:
        _write(tmp_path, {"password": text})

    with pytest.raises(NoCredentials, match="password"):
        Secrets(tmp_path).login(F5)


def test_a_page_of_html_is_no_document() -> None:
    """Its words are told, without its tags."""
    page = Reply(
        503, b"<html><body>The system\n is\x07 busy</body></html>", "text/html"
    )

    assert page.document is None
    with pytest.raises(
        Unreadable, match="HTTP 503 without a JSON object: 'The system is"
    ):
        page.expect_document(F5)


@hypothesis.given(strategies.binary(max_size=300))
def test_any_body_can_be_told(body: bytes) -> None:
    """Whatever comes is one short printable line."""
    gist = Reply(200, body).gist

    assert gist.isprintable()
    assert 130 > len(gist) or "\\" in gist
