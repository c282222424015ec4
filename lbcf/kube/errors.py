"""Errors of the API server, told apart by what a caller can do about them.

    KubeError
    |- NotFound          404: the API server itself says that there is no such object
    |- Conflict          409: the object is another version or another uid by now
    |- AlreadyExists     409 on create: the name is taken
    |- Expired           410: the version or the page is too old, list again
    |- Invalid           400, 413, 415, 422: the same request will be refused again
    |- Unauthorized      401: who we are is not believed
    |- Forbidden         403: we may not
    |- Throttled         429: surely not applied, come later
    |- Unavailable       5xx, no connection, no time, an answer that is no API answer
    |- AnswerTooLarge    the answer has more bytes than the asker takes: ask for less
    `- UnreadableAnswer  an API answer that cannot be read

`Transport` raises them, chained from what aiohttp raised. Their text repeats what a
peer wrote only where the answer is a `Status`: any other body may be a page of some
proxy with things in it that are nobody's business.
"""

# ruff: noqa: N818 - the names say what the server said; all end in `except` clauses

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Final

import msgspec

from lbcf.core.errors import LbcfError


TEXT_LIMIT: Final = 256
"""Characters of a peer's text that go into a message."""


class KubeError(LbcfError):
    """The API server did not do what it was asked to.

    Attributes:
        status: the HTTP status, None without an answer.
        reason: the machine-readable reason of a `Status`, or empty.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class NotFound(KubeError):
    """The object does not exist; said by a `Status` that names it."""


class Conflict(KubeError):
    """The uid or resourceVersion asked for is no longer the object's: read again."""


class AlreadyExists(KubeError):
    """An object of that name exists, ours or a stranger's: read it."""


class Expired(KubeError):
    """The server has forgotten the version or the page: list again."""


class Invalid(KubeError):
    """The request breaks a rule; it must change before it is sent again."""


class Unauthorized(KubeError):
    """The credentials are wrong or have expired."""


class Forbidden(KubeError):
    """The credentials are good, but RBAC or an admission rule says no."""


class Throttled(KubeError):
    """Too many requests: this one was not looked at."""


class Unavailable(KubeError):
    """No answer that counts.

    Attributes:
        sent: False: the request never reached the server; True: it did, and was
            answered with trouble; None: nobody knows.
    """

    def __init__(
        self,
        message: str,
        *,
        sent: bool | None,
        status: int | None = None,
        reason: str = "",
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(message, status=status, reason=reason, retry_after=retry_after)
        self.sent = sent

    @property
    def maybe_applied(self) -> bool:
        """Return whether a write may have taken place: then read before writing again."""
        return self.sent is not False

    @property
    def is_unknown_kind(self) -> bool:
        """Return whether the server does not serve the kind at all."""
        return self.status == HTTPStatus.NOT_FOUND


answer_lost: Final = partial(Unavailable, sent=None)
"""Makes the error of a request whose answer a failpoint keeps back."""


class AnswerTooLarge(KubeError):
    """The answer was longer than `Request.most`, and was not read to its end."""


class UnreadableAnswer(KubeError):
    """The server answered, and a write has taken place, but the answer is unreadable."""


class _Details(msgspec.Struct):
    """The part of a `Status` that says when to come again, and what it is about."""

    retry_after_seconds: int = msgspec.field(name="retryAfterSeconds", default=0)
    name: str = ""


class ApiStatus(msgspec.Struct):
    """The API server's own report on a request."""

    kind: str
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


_BY_STATUS: Final[Mapping[int, type[KubeError]]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: Throttled,
}
_SAID_WITHOUT_STATUS: Final = (Unauthorized, Throttled)
"""What may be believed of anybody on the way, since it lets nothing be forgotten."""
_CLIENT_ERRORS = range(400, 500)
_LONGEST_WISH = 3600
_decode_status = msgspec.json.Decoder(ApiStatus).decode


def read_status(body: bytes) -> ApiStatus | None:
    """Read the answer's `Status`; None when it is anything else."""
    try:
        status = _decode_status(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return status if status.kind == "Status" else None


def error_of(
    asked: str, code: int, body: bytes, retry_after: str | None = None
) -> KubeError:
    """Make the error of an answer that is not a success.

    Args:
        asked: the method and path, for the message.
        code: HTTP status, or the code of a watch's ERROR event.
        body: the answer; its words are used only if it is a `Status`.
        retry_after: the header; only seconds are understood, not dates.
    """
    status = read_status(body)
    wish = _delay(retry_after, status)
    kind = _kind_of(code, status)
    told = status.message[:TEXT_LIMIT] if status else ""
    reason = status.reason if status else ""
    if kind is None:
        text = f"{asked}: {code} {told or 'from something that is no API server'}"
        return Unavailable(
            text, sent=True, status=code, reason=reason, retry_after=wish
        )
    text = f"{asked}: {code} {told or 'without a word'}"
    return kind(text, status=code, reason=reason, retry_after=wish)


def _kind_of(code: int, status: ApiStatus | None) -> type[KubeError] | None:
    """Return the class of the error; None where nothing may be concluded from the answer."""
    kind = _BY_STATUS.get(code)
    if status is None:
        # A proxy's "404" must not be taken for an object that is gone.
        return kind if kind in _SAID_WITHOUT_STATUS else None
    if kind is NotFound and not (status.details and status.details.name):
        # The kind is not served (yet, or any more): says nothing about the object.
        return None
    if kind is Conflict and status.reason == "AlreadyExists":
        return AlreadyExists
    return kind or (KubeError if code in _CLIENT_ERRORS else None)


def _delay(header: str | None, status: ApiStatus | None) -> timedelta | None:
    if header is not None and header.isascii() and header.isdigit():
        return timedelta(seconds=min(int(header), _LONGEST_WISH))
    wish = status.details.retry_after_seconds if status and status.details else 0
    return timedelta(seconds=min(wish, _LONGEST_WISH)) if wish > 0 else None
