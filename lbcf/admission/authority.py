"""Makes the serving certificate, and the authority that the API server trusts.

`credentials` keeps what is made here in a Secret. ECDSA P-256 throughout. An authority is
replaced in two steps, a round apart: first its certificate is published beside the old
one's, then it signs. So nobody ever meets a certificate of an authority that was not made
known before.
"""

import ipaddress

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

import attrs

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


_USED = 2 / 3
"""The part of its life after which a certificate is replaced: there is a third left to
find out why that does not work."""


@attrs.frozen
class Validity:
    """From when until when a certificate is good."""

    begin: datetime
    end: datetime

    def is_due(self, now: datetime) -> bool:
        """Return whether it is to be replaced, or is not valid now."""
        due = self.begin + (self.end - self.begin) * _USED
        return not self.begin <= now < due


@attrs.frozen
class Held:
    """What the Secret holds, as far as it can be used.

    Attributes:
        authority: of the one that signs; None where there is none.
        leaf: of the serving certificate; None where there is none.
        leaf_names: the names that it is for.
        is_signed: the present authority has signed the serving certificate.
    """

    authority: Validity | None = None
    leaf: Validity | None = None
    leaf_names: Collection[str] = ()
    is_signed: bool = False


class Renewal(Enum):
    """What is to be made."""

    NOTHING = auto()
    AUTHORITY = auto()
    LEAF = auto()
    BOTH = auto()


def renewal_of(held: Held, names: Collection[str], now: datetime) -> Renewal:
    """Return what is to be made; `names` is what the certificate must be valid for."""
    if held.leaf is None or held.authority is None:
        return Renewal.BOTH if held.authority is None else Renewal.LEAF
    if held.authority.is_due(now):
        is_over = now >= held.authority.end
        return Renewal.BOTH if is_over else Renewal.AUTHORITY
    current = held.is_signed and set(names) <= set(held.leaf_names)
    return Renewal.NOTHING if current and not held.leaf.is_due(now) else Renewal.LEAF


AUTHORITY_LIFE: Final = timedelta(days=3650)
LEAF_LIFE: Final = timedelta(days=90)
_SKEW: Final = timedelta(hours=1)
"""Clocks of machines differ: what is new is good since a while."""
_LONGEST_NAME: Final = 64
"""Characters of a common name (RFC 5280, ub-common-name)."""


@attrs.frozen
class Bundle:
    """What a Secret holds, in PEM; each is empty where it is missing.

    Attributes:
        authorities: certificates to be trusted; the first one signs.
        authority_key: its key.
        leaf: the serving certificate.
        leaf_key: its key.
    """

    authorities: bytes = b""
    authority_key: bytes = b""
    leaf: bytes = b""
    leaf_key: bytes = b""


@attrs.frozen
class _Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def read_bundle(bundle: Bundle) -> Held:
    """Return what of a bundle can be used; what is broken counts as missing."""
    authority, leaf = _signer(bundle), _pair(bundle.leaf, bundle.leaf_key)
    return Held(
        authority=None if authority is None else _validity(authority.certificate),
        leaf=None if leaf is None else _validity(leaf.certificate),
        leaf_names=() if leaf is None else _names_in(leaf.certificate),
        is_signed=_has_signed(authority, leaf),
    )


def renew_bundle(
    bundle: Bundle, renewal: Renewal, names: Sequence[str], now: datetime
) -> Bundle:
    """Make what is to be made; an authority that is not over stays trusted beside."""
    if renewal in {Renewal.AUTHORITY, Renewal.BOTH}:
        bundle = _with_authority(bundle, now)
    if renewal in {Renewal.LEAF, Renewal.BOTH}:
        signer = _signer(bundle)
        if signer is None:
            raise ValueError("a certificate is to be signed, and there is no authority")
        leaf = _new_leaf(signer, names, now)
        bundle = attrs.evolve(
            bundle, leaf=_certificate_pem(leaf), leaf_key=_key_pem(leaf)
        )
    return bundle


def end_of(leaf: bytes) -> datetime:
    """Return the end of the first certificate of a PEM.

    Raises:
        ValueError: there is none.
    """
    return x509.load_pem_x509_certificate(leaf).not_valid_after_utc


def _with_authority(bundle: Bundle, now: datetime) -> Bundle:
    """Put a new authority first, and keep those that are not over."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject("lbcf admission authority")
    certificate = (
        _builder(subject, key, now, AUTHORITY_LIFE)
        .issuer_name(subject)
        .add_extension(_key_id_of(key), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    made = _Pair(certificate, key)
    old = [c for c in _certificates(bundle.authorities) if now < c.not_valid_after_utc]
    kept = b"".join(c.public_bytes(serialization.Encoding.PEM) for c in old)
    return attrs.evolve(
        bundle, authorities=_certificate_pem(made) + kept, authority_key=_key_pem(made)
    )


def _new_leaf(signer: _Pair, names: Sequence[str], now: datetime) -> _Pair:
    """Make a serving certificate for these names and addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_subject(names[0]), key, now, LEAF_LIFE)
        .issuer_name(signer.certificate.subject)
        .add_extension(
            # Authorities follow each other under one name: this tells them apart.
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                _key_id_of(signer.key)
            ),
            critical=False,
        )
        .add_extension(
            x509.SubjectAlternativeName([_general_name(n) for n in names]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        .sign(signer.key, hashes.SHA256())
    )
    return _Pair(certificate, key)


def _builder(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    """Begin a certificate."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_LONGEST_NAME])])


def _usage(*, authority: bool) -> x509.KeyUsage:
    """Return what a key may be used for."""
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _key_id_of(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names_in(certificate: x509.Certificate) -> Collection[str]:
    """Read for which names and addresses a certificate is."""
    try:
        names = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except x509.ExtensionNotFound:
        return ()
    return [str(name.value) for name in names]


def _validity(certificate: x509.Certificate) -> Validity:
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _has_signed(authority: _Pair | None, leaf: _Pair | None) -> bool:
    """Return whether this authority has signed the certificate."""
    if authority is None or leaf is None:
        return False
    try:
        leaf.certificate.verify_directly_issued_by(authority.certificate)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def _signer(bundle: Bundle) -> _Pair | None:
    return _pair(bundle.authorities, bundle.authority_key)


def _pair(certificates: bytes, key: bytes) -> _Pair | None:
    """Read a certificate, the first of its PEM, and its key; None if they are none."""
    found = _certificates(certificates)
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError):
        return None
    if not found or not isinstance(private, ec.EllipticCurvePrivateKey):
        return None
    fits = private.public_key() == found[0].public_key()
    return _Pair(found[0], private) if fits else None


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def _certificate_pem(pair: _Pair) -> bytes:
    return pair.certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(pair: _Pair) -> bytes:
    """Write a key."""
    return pair.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
