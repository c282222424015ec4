"""One unit's NITRO: sessions, and answers taken apart into documents and errors.

`pair` has one of these for each unit. Below it is `webhooks.device`: HTTP and its
limits, credentials, and asking again where the unit was only busy.

An error is a JSON object with an `errorcode` other than 0, whatever the HTTP status. A
management interface that restarts, or a proxy, answers with HTML: its 404 says nothing
about resources.
"""

import asyncio
import contextlib

from datetime import timedelta

import attrs
import structlog

from lbcf.sdk import Clock
from webhooks.device.connection import Connection
from webhooks.device.devices import Device
from webhooks.device.errors import Busy, DeviceError, Unreachable, Unreadable
from webhooks.device.refused import RefusedLogin
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
from webhooks.netscaler.reading import looked_at
from webhooks.netscaler.replies import number_of, text_of


COOKIE = "NITRO_AUTH_TOKEN"

_CONFIG = "/nitro/v1/config/"
_STAT = "/nitro/v1/stat/"
_LOGOUT = Call("POST", _CONFIG + "logout", {"logout": {}})
_SERVER_ERROR = 500

MOST_ITEMS = 50
"""In one bulk request: a slow appliance, too, is to be through with it in the time that an
answer has."""

LAST_LOGIN = timedelta(seconds=3)
"""How long one that is under way at the driver's end may take; a dead unit never ends it."""

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


@attrs.frozen(eq=False)
class _Entering:
    """A login that is under way, or was."""

    login: Login
    task: asyncio.Task[None]


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
    _session: Session | None = attrs.field(default=None, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _entering: _Entering | None = attrs.field(default=None, init=False)
    _refused: RefusedLogin = attrs.field(init=False)
    changing: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        """Begin with no login refused."""
        self._refused = RefusedLogin(self.clock)

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
        # A reading that nobody waits for any more may go on: it must not log in again.
        self._closed = True
        if self._entering is not None:
            # What comes of a login that is under way has to be given back, too.
            login, seconds = self._entering.task, LAST_LOGIN.total_seconds()
            await asyncio.wait([login], timeout=seconds)
            login.cancel()
        session, self._session = self._session, None
        if session is not None:
            # Unheard, it ends by itself when nobody has used it for a while.
            with contextlib.suppress(DeviceError):
                await self._said(_LOGOUT, session)
        await self.connection.close()

    async def _asked(self, call: Call) -> Document:
        """Ask until the unit is free."""
        return await until_free(self.clock, lambda: self._asked_once(call))

    async def _asked_once(self, call: Call) -> Document:
        """Ask; where the session has ended, log in and ask again."""
        session = await self._entered()
        try:
            return await self._said(call, session)
        except SessionEnded:
            if self._session is session:
                self._session = None
            return await self._said(call, await self._entered())

    async def _entered(self) -> Session:
        """Return a session of the user that the Secret says now."""
        login = self.secrets.login(self.device)
        while self._session is None or self._session.login != login:
            entering = self._begun(login)
            try:
                # Shielded: where one gives up in the middle of a login, the unit would
                # keep a session that nobody knows of.
                await asyncio.shield(entering.task)
            except DeviceError:
                if entering.login == login:
                    raise
        return self._session

    def _begun(self, login: Login) -> _Entering:
        """Return the login that is under way; begin one where none is."""
        if self._entering is None or self._entering.task.done():
            if self._closed:
                raise Unreachable(f"{self.device} is not asked: the driver stops")
            self._refused.check(login)
            self._entering = _Entering(login, asyncio.create_task(self._enter(login)))
            self._entering.task.add_done_callback(looked_at)
        return self._entering

    async def _enter(self, login: Login) -> None:
        """Log in, and keep the session."""
        body = {"login": {"username": login.username, "password": login.password}}
        try:
            answer = await self._said(Call("POST", _CONFIG + "login", body), None)
        except WrongLogin as error:
            self._refused.note(login, error)
            raise
        self._session = Session(login, text_of(answer, "sessionid"))

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
