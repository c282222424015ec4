"""Lets callers in: by their certificate, by their token, or not.

`lbcf.sdk.server` asks for each request, `lbcf.sdk.listening` puts new credentials in.
"""

import hmac
import ssl

from http import HTTPStatus

from aiohttp import web

from lbcf.sdk.credentials import Credentials


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
        """Tell whether a connection was made with earlier credentials."""
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
    """Return the caller's certificate, if it has shown one that was verified."""
    return _extra(request, "peercert")


def _extra(request: web.Request, name: str) -> object:
    """Ask the connection; None: it is closed, or has no such thing."""
    if request.transport is None:
        return None
    return request.transport.get_extra_info(name)


def _refused(status: HTTPStatus, text: str) -> web.Response:
    """Return an error that a person can read."""
    response = web.json_response({"error": text}, status=status)
    if status is HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response
