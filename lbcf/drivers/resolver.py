"""From a driver's host name to its addresses, without a thread and for each driver alone.

`lbcf.drivers.client` gives one to its connections. aiodns asks as the system would: by
/etc/hosts and by the search domains and `ndots` of /etc/resolv.conf. One look-up at a time is all
that a driver gets, and a name that answers no more keeps its last addresses for a while, so that
neither a hanging name nor a name server that fails for a moment stops anybody.
"""

import asyncio
import contextlib
import ipaddress
import socket

from collections.abc import Callable, Sequence

import aiohttp
import attrs

from aiohttp.abc import AbstractResolver, ResolveResult

from lbcf.drivers.errors import NotAllowed
from lbcf.drivers.url_allowlist import Address


FRESH = 10.0
"""Seconds for which addresses are taken without another look-up."""

STALE = 3600.0
"""Seconds after which addresses that nobody could look up again count no more."""

PATIENCE = 0.5
"""Seconds that a look-up may take where older addresses are known (RFC 8767, 5)."""

LONGEST = 30.0
"""Seconds after which a look-up is given up, whoever waits for it."""

MayReach = Callable[[Address], bool]
"""Tells whether a driver may be at this address."""


@attrs.frozen
class _Found:
    """The addresses that a look-up brought, and when."""

    addresses: Sequence[ResolveResult]
    moment: float


class DriverResolver(AbstractResolver):
    """Looks up the one host name of a driver's URL. Make it and close it in one event loop.

    Args:
        may_reach: which of its addresses may be used.
        inner: what asks the name servers; by default one for the whole process.
    """

    def __init__(
        self, may_reach: MayReach, inner: AbstractResolver | None = None
    ) -> None:
        self._may_reach = may_reach
        self._inner = inner or aiohttp.AsyncResolver()
        self._found: _Found | None = None
        self._task: asyncio.Task[_Found] | None = None
        self._since = 0.0

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,
    ) -> list[ResolveResult]:
        """Return the addresses of the host that may be used.

        Raises:
            NotAllowed: there are some, but none that drivers may have.
            OSError: it has none, or nobody says which.
        """
        found = await self._addresses(host, port, family)
        allowed = [
            one for one in found if self._may_reach(ipaddress.ip_address(_bare(one)))
        ]
        if not allowed:
            text = f"{host} has the address {_bare(found[0])}, where no driver may be"
            raise NotAllowed(f"{text}: see --driver-url-allow")
        return allowed

    async def close(self) -> None:
        """Cancel the look-up under way."""
        if self._task is not None:
            self._task.cancel()
        await self._inner.close()

    async def _addresses(
        self, host: str, port: int, family: socket.AddressFamily
    ) -> Sequence[ResolveResult]:
        """Return what is known, or wait for what is looked up."""
        known, now = self._found, asyncio.get_running_loop().time()
        if known is not None and now < known.moment + FRESH:
            return known.addresses
        if self._task is None:
            self._since = now
            self._task = asyncio.create_task(self._look_up(host, port, family))
            self._task.add_done_callback(self._looked_up)
        # Others may wait for the same look-up: no caller's time-out ends it.
        if known is None or now > known.moment + STALE:
            return (await asyncio.shield(self._task)).addresses
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(max(0, self._since + PATIENCE - now)):
                return (await asyncio.shield(self._task)).addresses
        return known.addresses

    async def _look_up(
        self, host: str, port: int, family: socket.AddressFamily
    ) -> _Found:
        async with asyncio.timeout(LONGEST):
            addresses = await self._inner.resolve(host, port, family)
        return _Found(addresses, asyncio.get_running_loop().time())

    def _looked_up(self, task: asyncio.Task[_Found]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is None:
            self._found = task.result()


def _bare(found: ResolveResult) -> str:
    return found["host"].partition("%")[0]
