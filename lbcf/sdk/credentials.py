"""Who may call a driver: files with certificates and tokens, and the check of a caller.

    files -> contents -> credentials -> `Guard`, which `lbcf.sdk.server` asks per request

Kubernetes changes mounted Secrets in place; so do people who rotate by hand:
`lbcf.sdk.listener` reads the files again and puts new credentials in.
"""

import hmac
import ssl

from http import HTTPStatus
from pathlib import Path

import attrs

from aiohttp import web

from lbcf.runtime.certificates import load_authorities, load_pair


class CredentialsUnusable(ValueError):  # noqa: N818 - the rest says it is an error
    """A file is missing, or does not hold what it should; the text names it."""


@attrs.frozen
class Credentials:
    """How callers are served, and which.

    Attributes:
        tls: with the driver's certificate; None: plain HTTP.
        asks_certificate: callers must show a certificate that `tls` has verified.
        tokens: any of them lets a caller in; none: no token is asked for.
    """

    tls: ssl.SSLContext | None = None
    asks_certificate: bool = False
    tokens: tuple[bytes, ...] = attrs.field(default=(), repr=False)


@attrs.frozen
class Contents:
    """What the files hold; equal as long as nothing has changed."""

    certificate: bytes = attrs.field(repr=False)
    key: bytes = attrs.field(repr=False)
    clients: bytes = attrs.field(repr=False)
    tokens: bytes = attrs.field(repr=False)


@attrs.frozen
class CredentialFiles:
    """Files with a driver's credentials and those of its callers; None: not used.

    Attributes:
        certificate: of the driver, with the chain, and its key unless that is apart.
        key: of the certificate.
        clients: authorities of callers' certificates, which are asked for.
        tokens: one bearer token per line; a rotation has two for a while.
    """

    certificate: Path | None = None
    key: Path | None = None
    clients: Path | None = None
    tokens: Path | None = None

    def check(self) -> None:
        """Refuse combinations of flags that mean nothing.

        Raises:
            CredentialsUnusable: a flag needs another one.
        """
        if self.certificate is None and (self.key or self.clients):
            text = "--tls-key-file and --client-ca-file need --tls-cert-file"
            raise CredentialsUnusable(text)

    def read(self) -> Contents:
        """Read all of them.

        Raises:
            CredentialsUnusable: one cannot be read.
        """
        files = (self.certificate, self.key, self.clients, self.tokens)
        return Contents(*map(read_file, files))

    def credentials(self, contents: Contents) -> Credentials:
        """Make credentials of what was read.

        Raises:
            CredentialsUnusable: it is not what it should be.
        """
        tokens = tuple(line.strip() for line in contents.tokens.split(b"\n"))
        tokens = tuple(token for token in tokens if token)
        if self.tokens is not None and not tokens:
            # An empty file must not mean that everybody may call.
            raise CredentialsUnusable(f"{self.tokens}: there is no token in it")
        return Credentials(
            tls=self._tls(contents),
            asks_certificate=self.clients is not None,
            tokens=tokens,
        )

    def _tls(self, contents: Contents) -> ssl.SSLContext | None:
        """Return how TLS is done; None: not at all."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        where: object = self.certificate
        try:
            load_pair(context, contents.certificate, contents.key)
            if self.clients is not None:
                where = self.clients
                load_authorities(context, contents.clients)
                # Who shows none is let in so far, and refused by `Guard`: at the end
                # of a handshake Python says nothing (measured, 3.11), and probes pass.
                context.verify_mode = ssl.CERT_OPTIONAL
        except ValueError as error:
            raise CredentialsUnusable(f"{where}: {error}") from error
        return context


def read_file(path: Path | None) -> bytes:
    """Read a file; nothing where none is named.

    Raises:
        CredentialsUnusable: it cannot be read.
    """
    if path is None:
        return b""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CredentialsUnusable(f"{path}: {error.strerror}") from error


_SCHEME = "bearer"


class Guard:
    """Compares callers with the credentials of this moment.

    Attributes:
        credentials: may be replaced at any time.
    """

    def __init__(self, credentials: Credentials | None = None) -> None:
        self.credentials = credentials or Credentials()

    def refusal(self, request: web.Request) -> web.Response | None:
        """Return the answer to a caller who may not call; None: it may."""
        if self.credentials.asks_certificate and not _peer(request):
            text = "callers of this driver must show a client certificate"
            return _refused(HTTPStatus.FORBIDDEN, text)
        header = request.headers.get("Authorization", "")
        if self.credentials.tokens and not self._knows(header):
            text = "callers of this driver must send Authorization: Bearer TOKEN"
            return _refused(HTTPStatus.UNAUTHORIZED, text)
        return None

    def is_outdated(self, request: web.Request) -> bool:
        """Return whether a connection was made with earlier credentials."""
        tls = _extra(request, "ssl_object")
        context = tls.context if isinstance(tls, ssl.SSLObject) else None
        return context is not self.credentials.tls

    def _knows(self, header: str) -> bool:
        """Compare with each token in the same time, whatever it is."""
        scheme, _, token = header.partition(" ")
        if scheme.lower() != _SCHEME:
            return False
        given = token.strip().encode("utf-8", "surrogateescape")
        checked = [hmac.compare_digest(given, one) for one in self.credentials.tokens]
        return any(checked)


def _peer(request: web.Request) -> object:
    return _extra(request, "peercert")


def _extra(request: web.Request, name: str) -> object:
    if request.transport is None:
        return None
    return request.transport.get_extra_info(name)


def _refused(status: HTTPStatus, text: str) -> web.Response:
    response = web.json_response({"error": text}, status=status)
    if status is HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response
