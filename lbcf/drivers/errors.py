"""Why a call of a driver brought no valid answer.

    LbcfError
    `- DriverError
       |- NotSent         DriverUnreachable      no connection: nothing was sent
       |  |- NotAllowed      DriverUrlNotAllowed       its URL is outside of our limits
       |  |- SecretMissing   DriverSecretNotFound      a Secret that it names is not there
       |  |- SecretUnread    DriverSecretUnread        ... has not been read, or may not be
       |  |- SecretUnusable  DriverSecretUnusable      ... does not hold what it should
       |  |- CaUnusable      DriverCaBundleUnusable    spec.tls.caBundle is no certificate
       |  |- NotTrusted      DriverNotTrusted          its certificate is not good
       |  |- WeRefused       DriverRefusesCertificate  ours is not good for it, or missing
       |  |- TooLate         DriverCallTooLate         what permitted it has run out
       |  `- NotCalled       DriverNotCalled           a dry run: nobody was asked
       |- TimedOut        DriverTimedOut         no whole answer in time
       |- ConnectionLost  DriverConnectionLost   the connection ended before the answer
       |- BadStatus       DriverBadStatus        an HTTP status other than 200
       |- TokenRefused    DriverUnauthorized     401 or 403: the bearer token is not good
       |- Redirected      DriverRedirected       a redirect, which is never followed
       |- TooLarge        DriverAnswerTooLarge   a body beyond the limit
       `- BadAnswer       DriverBadAnswer        200, but not the answer it should be

The second column is the reason that conditions show. No text holds anything of a body:
a driver's URL is a tenant's, and must not let the tenant read pages through us.
"""

# ruff: noqa: N818 - the names say what happened; the reasons are made of them

import ssl

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import ClassVar

from lbcf.core.errors import LbcfError
from lbcf.core.reasons import Reason


LONGEST_MESSAGE = 256
"""Characters; conditions take no more of a driver's trouble."""


class DriverError(LbcfError):
    """A call without a valid answer.

    Attributes:
        reason: CamelCase, for conditions and metrics.
        message: one sentence, at most 256 characters; also the text of the error.
        definite: True where the call surely had no effect and will have none.
    """

    reason: ClassVar[Reason]

    def __init__(self, message: str, *, definite: bool = False) -> None:
        self.message = message[:LONGEST_MESSAGE]
        self.definite = definite
        super().__init__(self.message)


class NotSent(DriverError):
    """No connection came about, so that nothing was sent."""

    reason = Reason.DRIVER_UNREACHABLE

    def __init__(self, message: str) -> None:
        super().__init__(message, definite=True)


class TooLate(NotSent):
    """What permitted the call ran out before it could be sent; to be permitted anew."""

    reason = Reason.DRIVER_CALL_TOO_LATE


class NotAllowed(NotSent):
    """The operator does not let drivers be there."""

    reason = Reason.DRIVER_URL_NOT_ALLOWED


class SecretMissing(NotSent):
    """A Secret that the driver names is not there."""

    reason = Reason.DRIVER_SECRET_NOT_FOUND


class SecretUnread(NotSent):
    """A Secret that the driver names has not been read yet, or cannot be.

    Attributes:
        is_told: the API server has said why it cannot be read.
    """

    reason = Reason.DRIVER_SECRET_UNREAD

    def __init__(self, message: str, *, is_told: bool = True) -> None:
        self.is_told = is_told
        super().__init__(message)


class SecretUnusable(NotSent):
    """A Secret that the driver names does not hold what it should."""

    reason = Reason.DRIVER_SECRET_UNUSABLE


class CaUnusable(NotSent):
    """The driver's own list of authorities cannot be used."""

    reason = Reason.DRIVER_CA_BUNDLE_UNUSABLE


class NotTrusted(NotSent):
    """The driver did not prove who it is: nothing was sent."""

    reason = Reason.DRIVER_NOT_TRUSTED


class WeRefused(NotSent):
    """The driver ended the TLS handshake because of our certificate, or for want of one.

    A server acts on nothing before the client's certificate is verified (RFC 8446, 4.4.4),
    although with TLS 1.3 the client may have sent its request by then.
    """

    reason = Reason.DRIVER_REFUSES_CERTIFICATE


class NotCalled(NotSent):
    """A dry run, and the driver takes no dryRun: nobody was asked."""

    reason = Reason.DRIVER_NOT_CALLED


class TimedOut(DriverError):
    """The time ran out; definite where it was spent on connecting."""

    reason = Reason.DRIVER_TIMED_OUT


class ConnectionLost(DriverError):
    """The connection ended after the request, or a part of it, may have arrived."""

    reason = Reason.DRIVER_CONNECTION_LOST


class BadStatus(DriverError):
    """An HTTP status other than 200; `status` is its number."""

    reason = Reason.DRIVER_BAD_STATUS

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)

    @property
    def is_unserved(self) -> bool:
        """Return whether the driver has no such operation: 404, as the SDK's drivers answer."""
        return self.status == HTTPStatus.NOT_FOUND


class TokenRefused(BadStatus):
    """HTTP status 401 or 403: the driver wants another bearer token."""

    reason = Reason.DRIVER_UNAUTHORIZED


class Redirected(BadStatus):
    """An HTTP status that points elsewhere."""

    reason = Reason.DRIVER_REDIRECTED


class TooLarge(DriverError):
    """The body of the answer is larger than answers may be."""

    reason = Reason.DRIVER_ANSWER_TOO_LARGE


class BadAnswer(DriverError):
    """Status 200, but no HTTP, no JSON, or not the operation's answer."""

    reason = Reason.DRIVER_BAD_ANSWER


_EXPIRED, _NOT_YET = 10, 9
_WRONG_NAMES = frozenset({62, 64})
_UNKNOWN_SIGNERS = frozenset({2, 18, 19, 20, 21})
"""X509_V_ERR_* of OpenSSL: dates, host or address, and chains that end nowhere."""

_ALERTS: Mapping[str, str] = {
    "CERTIFICATE_REQUIRED": "it wants a client certificate",
    "CERTIFICATE_UNKNOWN": "it does not accept our client certificate",
    "CERTIFICATE_EXPIRED": "it finds our client certificate expired",
    "CERTIFICATE_REVOKED": "it finds our client certificate revoked",
    "BAD_CERTIFICATE": "it does not accept our client certificate",
    "UNSUPPORTED_CERTIFICATE": "it does not accept our client certificate",
    "UNKNOWN_CA": "it does not know who signed our client certificate",
    "ACCESS_DENIED": "it does not accept our client certificate",
    "DECRYPT_ERROR": "it does not accept our client certificate",
}
"""What the server's alert says (RFC 8446, 6.2), by the end of OpenSSL's name of it."""

_HINT = "see spec.tls.clientCertificateSecretRef"


def tls_error(name: str, error: BaseException) -> NotTrusted | WeRefused | None:
    """Return the error of a TLS handshake that failed; None: it was something else.

    OpenSSL's own texts quote names of the certificate, which is the driver's to choose:
    only its numbers and our words get out. Of a refused client certificate a server with
    TLS 1.2 says only that the handshake failed, which may have other reasons.

    Args:
        name: of the call, for the message.
        error: as it came from aiohttp.
    """
    return _untrusted(name, error) or _refused_by_server(name, error)


def _untrusted(name: str, error: BaseException) -> NotTrusted | None:
    for cause in _causes(error):
        # aiohttp's own error is of the same class, but has no code.
        code = getattr(cause, "verify_code", None)
        if isinstance(cause, ssl.SSLCertVerificationError) and code is not None:
            return NotTrusted(f"{name}: {_certificate_fault(code)}")
    return None


def _refused_by_server(name: str, error: BaseException) -> WeRefused | None:
    for cause in _causes(error):
        reason = getattr(cause, "reason", None)
        if isinstance(cause, ssl.SSLError) and isinstance(reason, str):
            for ending, words in _ALERTS.items():
                if reason.endswith(f"ALERT_{ending}"):
                    return WeRefused(f"{name}: {words}: {_HINT}")
    return None


def _certificate_fault(code: int) -> str:
    if code == _EXPIRED:
        return "its certificate has expired"
    if code == _NOT_YET:
        return "its certificate is not valid yet"
    if code in _WRONG_NAMES:
        return "its certificate is for another name: see spec.tls.serverName"
    if code in _UNKNOWN_SIGNERS:
        return "its certificate is not signed by anybody trusted: see spec.tls.caBundle"
    return f"its certificate is not valid (OpenSSL's verification error {code})"


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[BaseException] = [error]
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        related = (one.__cause__, one.__context__, getattr(one, "os_error", None))
        waiting += [other for other in related if isinstance(other, BaseException)]
