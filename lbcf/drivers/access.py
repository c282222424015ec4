"""Which drivers may be called, and with which credentials.

`lbcf.drivers.pool` asks before each call: an edited Secret counts from the next call on.
What is missing or broken is an error before anything is sent: no call goes out without
the token or the certificate that it should have.
"""

import ssl

from collections.abc import Callable, Hashable, Mapping

import attrs

from lbcf.core.model.access import Lack, NoSecret, Secret
from lbcf.core.model.resources import LoadBalancerDriver, Security
from lbcf.core.model.values import ObjectKey
from lbcf.drivers.errors import (
    CaUnusable,
    NotAllowed,
    SecretMissing,
    SecretUnread,
    SecretUnusable,
)
from lbcf.drivers.url_allowlist import AllowedUrl, is_allowed, is_exposed
from lbcf.runtime.certificates import load_pair, trusting


FindSecret = Callable[[ObjectKey], Secret | NoSecret]
"""Looks a Secret up."""

TLS_KIND = "kubernetes.io/tls"
TOKEN_KIND = "Opaque"  # noqa: S105 - a type of Secrets, no secret
"""The only type that tokens are taken from: who may write a driver must not be able to
have a service account's token, or a registry's password, sent to an address of theirs."""


@attrs.frozen
class Access:
    """How one driver is called.

    Attributes:
        tls: how https is verified; None: by the system's authorities.
        server_name: that the certificate must carry; None: the URL's host.
        shows_certificate: a client certificate is shown.
        token: of `Authorization: Bearer`; empty: not sent.
    """

    tls: ssl.SSLContext | None = None
    shows_certificate: bool = False
    server_name: str | None = None
    token: str = attrs.field(default="", repr=False)


def no_secrets(_key: ObjectKey) -> NoSecret:
    """Find no Secret: there are none where there is no cluster."""
    return NoSecret(Lack.MISSING)


def secrets_of(driver: LoadBalancerDriver, find: FindSecret) -> dict[str, Secret]:
    """Return the Secrets that a driver names, by name.

    Raises:
        SecretMissing: one of them is not there.
        SecretUnread: one of them has not been read, or cannot be.
    """
    found = {}
    for key in sorted(driver.secrets):
        secret = find(key)
        if isinstance(secret, NoSecret):
            raise _lacking(key, secret)
        found[key.name] = secret
    return found


def stamp_of(driver: LoadBalancerDriver, secrets: Mapping[str, Secret]) -> Hashable:
    """Return what changes whenever connections are to be made anew."""
    versions = ((s.meta.uid, s.meta.resource_version) for s in secrets.values())
    return (driver.url, driver.security, *versions)


def access_of(driver: LoadBalancerDriver, secrets: Mapping[str, Secret]) -> Access:
    """Make of a driver's words and its Secrets how it is called.

    Raises:
        CaUnusable: its authorities are no certificates.
        SecretUnusable: a Secret does not hold what it should.
    """
    security = driver.security
    context = None
    if security.ca_bundle or security.client_certificate:
        context = _context(security)
    if context is not None and security.client_certificate:
        _load(context, secrets[security.client_certificate])
    token = ""
    if security.token is not None:
        token = _token(secrets[security.token.name], security.token.key)
    return Access(
        tls=context,
        shows_certificate=bool(security.client_certificate),
        server_name=security.server_name or None,
        token=token,
    )


@attrs.frozen
class DriverAllowlist:
    """The drivers that the operator lets this process call.

    Attributes:
        allowed_urls: where they may be; if there are none, anywhere but at loopback,
            link-local and other special addresses.
        namespaces: in which they may be; in all if there are none.
    """

    allowed_urls: tuple[AllowedUrl, ...] = ()
    namespaces: frozenset[str] = frozenset()

    def check(self, driver: LoadBalancerDriver) -> None:
        """Refuse a driver that is not on the list.

        Raises:
            NotAllowed: it is not.
        """
        namespace = driver.meta.key.namespace
        if self.namespaces and namespace not in self.namespaces:
            text = f"drivers of namespace {namespace} are not called"
            raise NotAllowed(f"{text}: --driver-namespaces does not name it")
        if not is_allowed(driver.url, self.allowed_urls):
            text = "its spec.url is not among what --driver-url-allow lets drivers have"
            raise NotAllowed(text)
        if driver.security.token is not None and is_exposed(
            driver.url, self.allowed_urls
        ):
            text = "its token would go unencrypted over the network: use https"
            raise NotAllowed(f"{text}, or name its http:// URL in --driver-url-allow")


ALLOW_ALL = DriverAllowlist()


def _lacking(key: ObjectKey, lack: NoSecret) -> SecretMissing | SecretUnread:
    """Return the error of a Secret that was not found."""
    where = f"Secret {key}"
    if lack.lack is Lack.MISSING:
        return SecretMissing(f"{where} is not there: create it")
    said = f": {lack.text}" if lack.text else ""
    text = f"{where} has not been read yet{said}"
    return SecretUnread(text, is_told=bool(lack.text))


def _context(security: Security) -> ssl.SSLContext:
    """Return how a driver's certificate is verified."""
    if not security.ca_bundle:
        return ssl.create_default_context()
    try:
        return trusting(security.ca_bundle)
    except ValueError as error:
        text = "spec.tls.caBundle must be PEM certificates, base64-encoded"
        raise CaUnusable(text) from error


def _load(context: ssl.SSLContext, secret: Secret) -> None:
    """Load the client certificate of a Secret.

    Raises:
        SecretUnusable: it has none, or not its key.
    """
    _check_kind(secret, TLS_KIND)
    certificate, key = (_value(secret, k) for k in ("tls.crt", "tls.key"))
    try:
        load_pair(context, certificate, key)
    except ValueError as error:
        text = f"tls.crt and tls.key are {error}"
        raise _unusable(secret, text) from error


def _token(secret: Secret, key: str) -> str:
    """Return the token of a Secret, without the newline that editors leave.

    Raises:
        SecretUnusable: it has none.
    """
    _check_kind(secret, TOKEN_KIND)
    token = _value(secret, key).decode("latin-1").strip("\r\n")
    if not token or not all("!" <= char <= "~" for char in token):
        text = f"the token in {key} must be of visible ASCII characters"
        raise _unusable(secret, text)
    return token


def _check_kind(secret: Secret, kind: str) -> None:
    if secret.kind != kind:
        text = f"its type is {secret.kind or 'unsaid'}, it must be {kind}"
        raise _unusable(secret, text)


def _value(secret: Secret, key: str) -> bytes:
    if key not in secret.values:
        raise _unusable(secret, f"it has no key {key}")
    return secret.values[key]


def _unusable(secret: Secret, text: str) -> SecretUnusable:
    # Conditions show it: never quotes of the Secret.
    return SecretUnusable(f"Secret {secret.meta.key}: {text}")
