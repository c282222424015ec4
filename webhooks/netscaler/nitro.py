"""One unit's NITRO: sessions, and answers taken apart into documents and errors.

`pair` has one of these for each unit. Below it is `webhooks.device`: HTTP and its
limits, credentials, and asking again where the unit was only busy.

An error is a JSON object with an `errorcode` other than 0, whatever the HTTP status. A
management interface that restarts, or a proxy, answers with HTML: its 404 says nothing
about resources.
"""

import asyncio
import contextlib

import attrs
import structlog

from lbcf.sdk import Clock
from webhooks.device.connection import Connection
from webhooks.device.devices import Device
from webhooks.device.errors import Busy, DeviceError, Unreadable
from webhooks.device.logins import LONGEST, Logins
from webhooks.device.replies import Document, Reply
from webhooks.device.retries import until_free
from webhooks.device.secrets import Login, Secrets
from webhooks.netscaler.changes import Bulk, Call
from webhooks.netscaler.errors import (
    BUSY,
    NitroRefused,
    NotPermitted,
    SessionEnded,
    WrongLogin,
    refusal,
)
from webhooks.netscaler.replies import number_of, text_of


COOKIE = "NITRO_AUTH_TOKEN"

_CONFIG = "/nitro/v1/config/"
_STAT = "/nitro/v1/stat/"
_LOGOUT = Call("POST", _CONFIG + "logout", {"logout": {}})
_SERVER_ERROR = 500

MOST_ITEMS = 50
"""In one bulk request: a slow appliance, too, is to be through with it in the time that an
answer has."""

_log = structlog.get_logger(__name__)


@attrs.frozen
class Session:
    """A session with a unit.

    Attributes:
        login: whose it is.
        token: what is shown for it.
    """

    login: Login
    token: str = attrs.field(repr=False)


@attrs.define(eq=False)
class Nitro:
    """The NITRO interface of one unit.

    A session is opened with the first call and kept: the appliance bears few at a time
    (NITRO error 445), and logging in is slow. It ends after 30 minutes without a call.

    Attributes:
        connection: to the unit.
        secrets: who the driver is to it.
        clock: for pauses.
        changing: held, with that of the other unit of a pair, for a change and what it
            depends on; the management of an appliance bears few at a time, and servers
            are shared between members of whatever load balancer.
    """

    connection: Connection
    secrets: Secrets
    clock: Clock
    _logins: Logins[Session] = attrs.field(init=False)
    changing: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        """Begin without a session."""
        self._logins = Logins(
            self.device,
            self.secrets,
            self.clock,
            self._enter,
            self._leave,
            wrong=(WrongLogin,),
        )

    @property
    def device(self) -> Device:
        """Which unit it is."""
        return self.connection.device

    async def config(self, path: str) -> Document:
        """Read configuration; the path is encoded.

        Raises:
            DeviceError: as `call`.
        """
        return await self.call(Call("GET", path))

    async def stat(self, path: str) -> Document:
        """Read statistics; the path is encoded.

        Raises:
            DeviceError: as `call`.
        """
        return await self._asked(Call("GET", _STAT + path))

    async def call(self, call: Call) -> Document:
        """Change configuration. A call may be sent twice: the unit may end a session.

        Raises:
            NitroRefused: the unit said no.
            Busy: it cannot just now.
            DeviceError: it was not reached, or its answer cannot be read.
        """
        return await self._asked(attrs.evolve(call, path=_CONFIG + call.path))

    async def call_all(self, call: Bulk) -> bool:
        """Make bulk requests, one after the other; return whether all of it was done.

        What was not is found by the next reading, and told to whoever asks for one alone.

        Raises:
            WrongLogin, NotPermitted, SessionEnded: nothing else can be done either.
            Busy, DeviceError: as `call`.
        """
        parts = [await self._call_part(part) for part in call.parts(MOST_ITEMS)]
        return all(parts)

    async def _call_part(self, call: Call) -> bool:
        """Make one bulk request; return whether all of it was done."""
        try:
            await self.call(call)
        except (WrongLogin, NotPermitted, SessionEnded):
            raise
        except NitroRefused as error:
            _log.info("netscaler.bulk_refused", path=call.path, reason=str(error))
            return False
        return True

    async def close(self) -> None:
        """End the session, if the unit is there to hear it; there is none after it."""
        await self._logins.close()
        await self.connection.close()

    async def _asked(self, call: Call) -> Document:
        """Ask until the unit is free."""
        return await until_free(self.clock, lambda: self._asked_once(call))

    async def _asked_once(self, call: Call) -> Document:
        """Ask; where the session has ended, log in and ask again."""
        session = await self._logins.current()
        try:
            return await self._said(call, session)
        except SessionEnded:
            self._logins.forget(session)
            return await self._said(call, await self._logins.current())

    async def _enter(self, login: Login) -> Session:
        """Log in."""
        body = {"login": {"username": login.username, "password": login.password}}
        call = Call("POST", _CONFIG + "login", body, patience=LONGEST)
        return Session(login, text_of(await self._said(call, None), "sessionid"))

    async def _leave(self, session: Session) -> None:
        """Log out; unheard, a session ends by itself when nobody has used it for a while."""
        with contextlib.suppress(DeviceError):
            await self._said(_LOGOUT, session)

    async def _said(self, call: Call, session: Session | None) -> Document:
        """Send one request; return what the unit says if it is no error."""
        headers = {"Cookie": f"{COOKIE}={session.token}"} if session else {}
        if call.goes_on:
            headers["X-NITRO-ONERROR"] = "continue"
        reply = await self.connection.exchange(
            call.method, call.path, call.body, headers, call.patience
        )
        return read(self.device, reply)


def read(device: Device, reply: Reply) -> Document:
    """Return what a reply says.

    Raises:
        NitroRefused: an error of NITRO.
        Busy: an error that passes, or no NITRO at all.
        Unreadable: it is no answer of NITRO, and will not become one.
    """
    document = reply.document
    if document is None:
        if reply.status >= _SERVER_ERROR:
            raise Busy(
                f"{device} answered HTTP {reply.status} without NITRO ({reply.gist}): "
                "is its management restarting?"
            )
        raise Unreadable(
            f"{device} answered HTTP {reply.status} without NITRO ({reply.gist}): is "
            "it a Citrix ADC, and no proxy in between?"
        )
    code = number_of(document, "errorcode", 0)
    if code == 0 and reply.is_ok:
        return document
    said = text_of(document, "message", "")
    if code in BUSY or (code == 0 and reply.status >= _SERVER_ERROR):
        raise Busy(f"{device} is busy: error {code}, {said!r:.160}")
    raise refusal(device, reply.status, code, said)
