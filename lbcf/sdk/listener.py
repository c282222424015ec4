"""Listens for callers, and follows changes of the files that secure it.

Between `lbcf.sdk.run` and aiohttp. A new certificate, authority or token counts for all
that comes after it; connections that exist finish their call and are then closed.
"""

import asyncio
import contextlib
import socket
import ssl

from datetime import timedelta
from typing import NoReturn

import structlog

from aiohttp import web

from lbcf.runtime.clock import Clock
from lbcf.runtime.flags import BindAddress
from lbcf.runtime.tasks import CutError, cut_is_error
from lbcf.sdk.credentials import (
    Contents,
    CredentialFiles,
    Credentials,
    CredentialsUnusable,
    Guard,
)


PERIOD = timedelta(seconds=5)
"""Between two looks at the files; the kubelet takes up to a minute to change them."""

_HANDSHAKE = 10.0
"""Seconds that a caller may take for one."""

_log = structlog.get_logger(__name__)


class Listener:
    """The listening sockets of a driver.

    Args:
        server: takes the connections.
        guard: is given new credentials.
        files: where these come from.
        clock: for the pauses between looks.

    Raises:
        CredentialsUnusable: the files are not fit to begin with.
    """

    def __init__(
        self, server: web.Server, guard: Guard, files: CredentialFiles, clock: Clock
    ) -> None:
        self._server = server
        self._guard = guard
        self._files = files
        self._clock = clock
        self._contents = files.read()
        self._guard.credentials = files.credentials(self._contents)
        self._servers: list[asyncio.Server] = []

    @property
    def addresses(self) -> list[str]:
        """Return where it listens in fact, the system's choice in place of port 0."""
        sockets = [one for server in self._servers for one in server.sockets]
        names = [one.getsockname() for one in sockets]
        return [str(BindAddress(name[0], name[1])) for name in names]

    async def open(self, address: BindAddress) -> None:
        """Begin to listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        loop, tls = asyncio.get_running_loop(), self._guard.credentials.tls
        self._servers = [
            await loop.create_server(
                self._server,
                address.host,
                address.port,
                ssl=tls,
                ssl_handshake_timeout=_HANDSHAKE if tls else None,
            )
        ]

    def close(self) -> None:
        """Take no more connections; those that there are stay."""
        for server in self._servers:
            server.close()

    async def follow(self, period: timedelta = PERIOD) -> NoReturn:
        """Read the files periodically, until cancelled."""
        while True:
            await self._clock.sleep(period)
            await self.look()

    async def look(self) -> None:
        """Take new files if there are any; a look that fails changes nothing."""
        try:
            with cut_is_error("a look at the credentials"):
                contents = self._files.read()
                if contents != self._contents:
                    await self._take(contents, self._files.credentials(contents))
        except (CredentialsUnusable, OSError, CutError) as error:
            _log.error("credentials.not_reloaded", error=str(error))
        except Exception:  # noqa: BLE001  (else nobody would look again, or tell)
            _log.exception("credentials.not_reloaded")

    async def _take(self, contents: Contents, credentials: Credentials) -> None:
        """Serve with new credentials from now on.

        The sockets stay open: nobody who connects meanwhile is turned away.

        Raises:
            OSError: a file descriptor is missing; all is as it was.
        """
        if credentials.tls is not None:
            beside = await self._all_beside(credentials.tls)
            old, self._servers = self._servers, beside
            for server in old:
                server.close()
        self._contents = contents
        self._guard.credentials = credentials
        _log.info("credentials.reloaded")

    async def _all_beside(self, tls: ssl.SSLContext) -> list[asyncio.Server]:
        """Listen on all sockets once more; on none if one of them cannot be had."""
        made: list[asyncio.Server] = []
        with contextlib.ExitStack() as stack:
            for server in self._servers:
                for one in server.sockets:
                    again = stack.enter_context(one.dup())
                    made.append(await self._beside(again, tls))
                    stack.callback(made[-1].close)
            stack.pop_all()
        return made

    async def _beside(
        self, listening: socket.socket, tls: ssl.SSLContext
    ) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            self._server, sock=listening, ssl=tls, ssl_handshake_timeout=_HANDSHAKE
        )
