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
       |- Unauthorized    DriverUnauthorized     401 or 403: the bearer token is not good
       |- Redirected      DriverRedirected       a redirect, which is never followed
       |- TooLarge        DriverAnswerTooLarge   a body beyond the limit
       `- BadAnswer       DriverBadAnswer        200, but not the answer it should be

The second column is the reason that conditions show. No text holds anything of a body:
a driver's URL is a tenant's, and must not let the tenant read pages through us.
"""

# ruff: noqa: N818 - the names say what happened; the reasons are made of them

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
        """Tell whether the driver has no such operation: so the SDK's drivers say it."""
        return self.status == HTTPStatus.NOT_FOUND


class Unauthorized(BadStatus):
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
