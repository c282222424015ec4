"""Keys, certificates and kubeconfigs of one cluster.

`lifecycle` makes them before anything starts; later calls sign more client
certificates with the cluster's own authority. ECDSA P-256 throughout.
"""

import base64
import datetime as dt
import ipaddress
import json

from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile

import attrs

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@attrs.frozen
class Pair:
    """A certificate and the key that belongs to it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def key_pem(self) -> bytes:
        """The private key as PEM."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )

    @property
    def public_pem(self) -> bytes:
        """The public key alone as PEM."""
        return self.key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    @property
    def certificate_pem(self) -> bytes:
        """The certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def save(self, stem: Path) -> None:
        """Write `stem`.key, `stem`.pub and `stem`.crt."""
        write_private(stem.with_name(stem.name + ".key"), self.key_pem)
        write_private(stem.with_name(stem.name + ".pub"), self.public_pem)
        write_private(stem.with_name(stem.name + ".crt"), self.certificate_pem)

    @staticmethod
    def load(stem: Path) -> "Pair":
        """Read back what `save` wrote.

        Raises:
            TypeError: The key is not an elliptic curve key.
        """
        pem = stem.with_name(stem.name + ".key").read_bytes()
        key = serialization.load_pem_private_key(pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{stem}.key: {type(key).__name__} where EC was written")
        pem = stem.with_name(stem.name + ".crt").read_bytes()
        return Pair(key, x509.load_pem_x509_certificate(pem))


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read; who reads it meanwhile finds the old one.

    The kubeconfig of a user is made anew while the process that was started with it reads it.
    """
    with NamedTemporaryFile(dir=path.parent, delete=False) as stream:
        stream.write(content)
    Path(stream.name).replace(path)


def _subject(user: str, groups: Iterable[str]) -> x509.Name:
    """A subject as Kubernetes reads it: O are the groups, CN is the user."""
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _usage(*, authority: bool) -> x509.KeyUsage:
    """What a key may be used for."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not authority,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, authority: bool
) -> x509.CertificateBuilder:
    """What authorities and leaves have in common; valid for a year from an hour ago."""
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=365))
        .add_extension(x509.BasicConstraints(authority, None), critical=True)
        .add_extension(_usage(authority=authority), critical=True)
    )


def new_authority(name: str) -> Pair:
    """A new certificate authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name, ())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _builder(subject, key, authority=True)
        .issuer_name(subject)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(key, certificate)


def _alternative(name: str) -> x509.GeneralName:
    """An address or a DNS name, whichever the text is."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def new_leaf(
    authority: Pair, user: str, groups: Iterable[str] = (), names: Iterable[str] = ()
) -> Pair:
    """A certificate for a client, and for a server when `names` are given."""
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(
        authority.key.public_key()
    )
    builder = (
        _builder(_subject(user, groups), key, authority=False)
        .issuer_name(authority.certificate.subject)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(issuer, critical=False)
    )
    if alternatives := [_alternative(name) for name in names]:
        builder = builder.add_extension(
            x509.SubjectAlternativeName(alternatives), critical=False
        )
    return Pair(key, builder.sign(authority.key, hashes.SHA256()))


def render_kubeconfig(server: str, authority: Pair, user: str, client: Pair) -> bytes:
    """A kubeconfig with everything inline (JSON, which YAML readers accept)."""

    def inline(pem: bytes) -> str:
        return base64.b64encode(pem).decode()

    cluster = {
        "server": server,
        "certificate-authority-data": inline(authority.certificate_pem),
    }
    keys = {
        "client-certificate-data": inline(client.certificate_pem),
        "client-key-data": inline(client.key_pem),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "cluster",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": user, "user": keys}],
        "contexts": [
            {"name": "cluster", "context": {"cluster": "cluster", "user": user}}
        ],
    }
    return json.dumps(config, indent=1).encode() + b"\n"
