"""Who the driver is to one device: it logs in with the first request, and stays.

A device bears few sessions or tokens at a time, and logging in is slow. So a login that
was begun is brought to its end, though nobody may wait for it any more: else the device
would keep what nobody knows of.
"""

import asyncio

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

import attrs

from lbcf.runtime.tasks import note_error
from lbcf.sdk import Clock
from webhooks.device.devices import Device
from webhooks.device.errors import DeviceError, Unreachable
from webhooks.device.refused import RefusedLogin
from webhooks.device.secrets import Login, Secrets


LONGEST = timedelta(seconds=30)
"""A login's answer may take so long: a device may ask one RADIUS or TACACS server after
another. It is not cut short before, whoever has given up."""

LAST = timedelta(seconds=3)
"""How long one that is under way at the driver's end may take; a dead unit never ends it."""


class Pass(Protocol):
    """What a device gave for a login: a session or a token."""

    @property
    def login(self) -> Login:
        """What it was given for."""


_P = TypeVar("_P", bound=Pass)


@attrs.frozen(eq=False)
class _Entering(Generic[_P]):
    """A login that is under way, or was."""

    login: Login
    task: asyncio.Task[_P]


@attrs.define(eq=False)
class Logins(Generic[_P]):
    """What one device gave, one at a time.

    Attributes:
        device: which one.
        secrets: who the driver is to it.
        clock: for the pause after a login that was refused.
        enter: logs in, within `LONGEST`.
        leave: gives back what it gave.
        wrong: what `enter` raises where the device refuses the login.
        is_good: whether what it gave may be shown on; what is not is given back as soon
            as there is another.
    """

    device: Device
    secrets: Secrets
    clock: Clock
    enter: Callable[[Login], Awaitable[_P]]
    leave: Callable[[_P], Awaitable[None]]
    wrong: tuple[type[DeviceError], ...]
    is_good: Callable[[_P], bool] = lambda _: True
    _known: _P | None = attrs.field(default=None, init=False)
    _entering: _Entering[_P] | None = attrs.field(default=None, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _refused: RefusedLogin = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Begin with no login refused."""
        self._refused = RefusedLogin(self.clock)

    async def current(self) -> _P:
        """Return what the device gave to the user that the Secret says now.

        Raises:
            NoCredentials: the Secret is not complete.
            Unreachable: the driver stops.
            DeviceError: the device refuses the login, and is not asked again at once; or
                it could not be asked.
        """
        login = self.secrets.login(self.device)
        while True:
            known = self._known
            if known and known.login == login and self.is_good(known):
                return known
            entering = self._begun(login)
            try:
                # Shielded: it goes on without whoever gives up.
                given = await asyncio.shield(entering.task)
            except DeviceError:
                if entering.login == login:
                    raise
            else:
                if given.login == login:
                    return given

    def is_current(self, given: _P) -> bool:
        """Tell whether this is what would be shown next."""
        return self._known is given

    def forget(self, given: _P) -> None:
        """Show it no more: the device does not know it."""
        if self._known is given:
            self._known = None

    async def close(self) -> None:
        """Give back what the device gave; nobody logs in after it."""
        # A request that nobody waits for any more may go on: it must not log in again.
        self._closed = True
        if self._entering is not None:
            # What comes of a login that is under way has to be given back, too.
            task = self._entering.task
            await asyncio.wait([task], timeout=LAST.total_seconds())
            task.cancel()
        known, self._known = self._known, None
        if known is not None:
            await self.leave(known)

    def _begun(self, login: Login) -> _Entering[_P]:
        """Return the login that is under way; begin one where none is."""
        if self._entering is None or self._entering.task.done():
            if self._closed:
                raise Unreachable(f"{self.device} is not asked: the driver stops")
            self._refused.check(login)
            self._entering = _Entering(login, asyncio.create_task(self._enter(login)))
            self._entering.task.add_done_callback(note_error)
        return self._entering

    async def _enter(self, login: Login) -> _P:
        """Log in, keep what comes of it, and give back what was there before."""
        try:
            given = await self.enter(login)
        except self.wrong as error:
            self._refused.note(login, error)
            raise
        before, self._known = self._known, given
        if before is not None:
            await self.leave(before)
        return given
