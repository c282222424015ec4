"""Who the driver is to a unit: a token, gotten rarely and given back.

A user may have 100 of them (`admin` any number), and each lives 20 minutes unless the
unit says otherwise: one per call would lock the driver out. `session` shows it.
"""

import contextlib
import math
import urllib.parse

import attrs
import structlog

from lbcf.sdk import Clock
from webhooks.device.connection import Connection
from webhooks.device.errors import DeviceError, Unreadable
from webhooks.device.logins import LONGEST, Logins
from webhooks.device.refused import PAUSE
from webhooks.device.replies import Document
from webhooks.device.secrets import Login, Secrets
from webhooks.f5.errors import Denied, Forbidden, check


HEADER = "X-F5-Auth-Token"
LOGIN = "/mgmt/shared/authn/login"
TOKENS = "/mgmt/shared/authz/tokens/"

USUAL_LIFE = 1200
"""Seconds, where a unit does not say."""

RENEWED_AT = 0.8
"""Part of its life after which a token is replaced."""

_log = structlog.get_logger(__name__)


@attrs.frozen
class Token:
    """What a unit gave for name and password.

    Attributes:
        text: what is shown.
        login: what it was given for.
        renewal: monotonic seconds from which on another is wanted.
    """

    text: str = attrs.field(repr=False)
    login: Login
    renewal: float


@attrs.define(eq=False)
class Tokens:
    """The token for one unit, one at a time."""

    connection: Connection
    secrets: Secrets
    clock: Clock
    _logins: Logins[Token] = attrs.field(init=False)
    _taken: Token | None = attrs.field(default=None, init=False)
    _kept_until: float = attrs.field(default=-math.inf, init=False)

    def __attrs_post_init__(self) -> None:
        """Begin without a token."""
        self._logins = Logins(
            self.connection.device,
            self.secrets,
            self.clock,
            self._fetched,
            self._end,
            wrong=(Denied, Forbidden),
            is_good=self._is_good,
        )

    async def current(self) -> Token:
        """Return a token that should be taken; get one where there is none.

        Raises:
            NoCredentials: the Secret is not complete.
            Denied, Forbidden: the unit refuses the login; it is not asked again at once.
            DeviceError: it could not be asked.
        """
        return await self._logins.current()

    def note_taken(self, token: Token) -> None:
        """Note that the unit knows a token."""
        # The answer may be late, and another token be current by now.
        if self._logins.is_current(token):
            self._taken = token

    async def give_up(self, token: Token, said: str) -> None:
        """Show a token no more that was refused, unless it is none of its fault.

        One that the unit took before, and does not know now, has ended: another one counts.
        Whatever else is said may be said of the next one, too: it is fetched once a minute.
        """
        if not self._logins.is_current(token):
            return
        now = self.clock.monotonic()
        has_ended = self._taken is token and HEADER in said
        if not has_ended and now < self._kept_until:
            return
        if not has_ended:
            self._kept_until = now + PAUSE.total_seconds()
        self._logins.forget(token)
        # It may be good, and refused for something else: the unit would keep it.
        await self._end(token)

    async def close(self) -> None:
        """Give the token back."""
        await self._logins.close()

    def _is_good(self, token: Token) -> bool:
        """Tell whether it is too early for another one."""
        return self.clock.monotonic() < token.renewal

    async def _fetched(self, login: Login) -> Token:
        """Log in."""
        device = self.connection.device
        provider = self.secrets.read_optional(device, "loginProviderName", "tmos")
        body = {
            "username": login.username,
            "password": login.password,
            "loginProviderName": provider,
        }
        answer = await self.connection.exchange("POST", LOGIN, body, patience=LONGEST)
        text, life = _read_token(check(device, answer).expect_document(device))
        _log.info("f5.logged_in", device=str(device), username=login.username)
        return Token(text, login, self.clock.monotonic() + life * RENEWED_AT)

    async def _end(self, token: Token) -> None:
        """Have the unit forget a token; one that is gone, or stays, expires."""
        path = TOKENS + urllib.parse.quote(token.text, safe="")
        with contextlib.suppress(DeviceError):
            await self.connection.exchange("DELETE", path, headers={HEADER: token.text})


def _read_token(document: Document) -> tuple[str, float]:
    """Return a token and how many seconds it lives.

    Raises:
        Unreadable: there is none.
    """
    match document.get("token"):
        case {"token": str(text), **more} if text:
            life = more.get("timeout")
            return text, life if isinstance(life, int) and life > 0 else USUAL_LIFE
        case _:
            raise Unreadable("the answer to the login has no token")
