"""Bind addresses: what a flag may say."""

import pytest

from lbcf.runtime.flags import BindAddress, parse_bind_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8080", BindAddress("127.0.0.1", 8080)),
        ("localhost:0", BindAddress("localhost", 0)),
        (":9090", BindAddress(None, 9090)),
        ("[::1]:65535", BindAddress("::1", 65535)),
    ],
)
def test_address_is_read_and_written_alike(text: str, expected: BindAddress) -> None:
    """Each form is understood, and written back as it was."""
    assert expected == parse_bind_address(text)
    assert text == str(expected)


def test_zero_means_off() -> None:
    """A lone 0 is no address."""
    assert parse_bind_address("0") is None


@pytest.mark.parametrize(
    "text",
    ["", "8080", "host", "host:", "host:http", "host:65536", ":-1", "::1:80", ":²"],
)
def test_nonsense_is_refused_with_the_forms_that_exist(text: str) -> None:
    """The message repeats what was given and says what would do."""
    with pytest.raises(ValueError, match="write HOST:PORT") as raised:
        parse_bind_address(text)

    assert repr(text) in str(raised.value)
