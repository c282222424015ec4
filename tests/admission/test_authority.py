"""The certificate that we make ourselves, looked at with TLS itself."""

import ssl

from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest

from lbcf.admission.authority import (
    AUTHORITY_LIFE,
    LEAF_LIFE,
    Bundle,
    Held,
    Renewal,
    end_of,
    read_bundle,
    renew_bundle,
    renewal_of,
)


NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("lbcf-admission.lbcf-system.svc", "127.0.0.1")
TODAY = datetime.now(UTC)


@pytest.fixture(name="made", scope="module")
def _made() -> Bundle:
    """Authority and certificate, good today."""
    return renew_bundle(Bundle(), Renewal.BOTH, NAMES, TODAY)


def _handshake(served: Bundle, trusted: bytes, folder: Path, host: str) -> None:
    """Shake hands in memory, as the API server would.

    Raises:
        ssl.SSLError: the client does not trust the server.
    """
    file = folder / "serving.pem"
    file.write_bytes(served.leaf + served.leaf_key)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(file)
    client = ssl.create_default_context(cadata=trusted.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(down, up, server_hostname=host)
    other = server.wrap_bio(up, down, server_side=True)
    for _ in range(3):
        for side in (one, other):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


@pytest.mark.parametrize("host", NAMES)
def test_api_server_trusts_what_we_make(
    made: Bundle, tmp_path: Path, host: str
) -> None:
    """For a name and for an address, by the strict rules of RFC 5280."""
    _handshake(made, made.authorities, tmp_path, host)


def test_other_names_and_authorities_are_not_trusted(
    made: Bundle, tmp_path: Path
) -> None:
    """The certificate is good for its names, the authority for its certificates."""
    stranger = renew_bundle(Bundle(), Renewal.BOTH, NAMES, TODAY)

    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(made, made.authorities, tmp_path, "elsewhere")
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(made, stranger.authorities, tmp_path, NAMES[0])


def test_change_of_authority_never_leaves_a_gap(made: Bundle, tmp_path: Path) -> None:
    """The old certificate is trusted beside the new authority, and so is the new one."""
    begun = renew_bundle(made, Renewal.AUTHORITY, NAMES, TODAY)
    assert made.leaf == begun.leaf
    assert Renewal.LEAF is renewal_of(read_bundle(begun), NAMES, TODAY)
    finished = renew_bundle(begun, Renewal.LEAF, NAMES, TODAY)

    _handshake(begun, begun.authorities, tmp_path, NAMES[0])
    _handshake(finished, finished.authorities, tmp_path, NAMES[0])
    _handshake(finished, begun.authorities, tmp_path, NAMES[0])
    assert Renewal.NOTHING is renewal_of(read_bundle(finished), NAMES, TODAY)


def test_authority_that_is_over_is_left_out() -> None:
    """The list of trusted ones does not grow."""
    first = renew_bundle(Bundle(), Renewal.BOTH, NAMES, NOW)
    later = NOW + AUTHORITY_LIFE + timedelta(days=1)
    second = renew_bundle(first, Renewal.BOTH, NAMES, later)

    assert 1 == second.authorities.count(b"BEGIN CERTIFICATE")
    assert 2 == renew_bundle(
        first, Renewal.AUTHORITY, NAMES, later - timedelta(days=2)
    ).authorities.count(b"BEGIN CERTIFICATE")


def test_what_is_held_is_read_back() -> None:
    """Validities, names and who signed."""
    made = renew_bundle(Bundle(), Renewal.BOTH, NAMES, NOW)
    held = read_bundle(made)

    assert held.leaf is not None
    assert NOW + LEAF_LIFE == held.leaf.end == end_of(made.leaf)
    assert set(NAMES) == set(held.leaf_names)
    assert held.is_signed


def test_what_is_broken_counts_as_missing(made: Bundle) -> None:
    """Garbage, and a key that belongs to another certificate."""
    stranger = renew_bundle(Bundle(), Renewal.BOTH, NAMES, TODAY)
    swapped = attrs.evolve(
        made, leaf_key=stranger.leaf_key, authority_key=stranger.authority_key
    )

    assert Held() == read_bundle(Bundle(b"x", b"x", b"x", b"x"))
    assert Held() == read_bundle(swapped)
    assert not read_bundle(
        attrs.evolve(
            made,
            authorities=stranger.authorities,
            authority_key=stranger.authority_key,
        )
    ).is_signed


def test_nothing_is_signed_without_an_authority() -> None:
    """It is a mistake of the caller."""
    with pytest.raises(ValueError, match="no authority"):
        renew_bundle(Bundle(), Renewal.LEAF, NAMES, NOW)
