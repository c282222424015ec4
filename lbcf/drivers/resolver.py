"""From a driver's host name to its addresses, without a thread and for each driver alone.

`lbcf.drivers.client` gives one to its connections. aiodns asks as the system would: by
/etc/hosts and by the search domains and `ndots` of /etc/resolv.conf. One look-up at a time is all
that a driver gets, and a name that answers no more keeps its last addresses for a while, so that
neither a hanging name nor a name server that fails for a moment stops anybody. Where a name
server says that there are none, they are forgotten (RFC 8767, 4): they may be somebody else's.
"""

import asyncio
import ipaddress
import socket

from collections.abc import Callable, Sequence

import aiodns
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

_NO_NAME, _NO_DATA = aiodns.error.ARES_ENOTFOUND, aiodns.error.ARES_ENODATA
"""Answers of a name server: there is no such name, or no address of these kinds."""

MayReach = Callable[[Address], bool]
"""Tells whether a driver may be at this address."""


@attrs.frozen
class _Found:
    """The addresses that a look-up brought, and when."""

    addresses: Sequence[ResolveResult]
    moment: float


def _unknowing() -> AbstractResolver:
    """Return a resolver of its own: without arguments aiohttp gives the one of the process."""
    return aiohttp.AsyncResolver(nameservers=None)


class DriverResolver(AbstractResolver):
    """Looks up the one host name of a driver's URL. Make it and close it in one event loop.

    Args:
        may_reach: which of its addresses may be used.
        inner: what asks the name servers; by default one for the whole process.
        unknowing: makes another one, which remembers no answers.
    """

    def __init__(
        self,
        may_reach: MayReach,
        inner: AbstractResolver | None = None,
        unknowing: Callable[[], AbstractResolver] = _unknowing,
    ) -> None:
        self._may_reach = may_reach
        self._inner = inner or aiohttp.AsyncResolver()
        self._unknowing = unknowing
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
        try:
            async with asyncio.timeout(max(0, self._since + PATIENCE - now)):
                return (await asyncio.shield(self._task)).addresses
        except OSError:  # a TimeoutError, too
            if self._found is None:
                raise
            return known.addresses

    async def _look_up(
        self, host: str, port: int, family: socket.AddressFamily
    ) -> _Found:
        async with asyncio.timeout(LONGEST):
            try:
                addresses = await self._inner.resolve(host, port, family)
            except OSError as error:
                if _answer(error) != _NO_DATA:
                    raise
                addresses = await self._looked_up_anew(host, port)
        return _Found(addresses, asyncio.get_running_loop().time())

    async def _looked_up_anew(self, host: str, port: int) -> list[ResolveResult]:
        """Ask for each kind of address, where nobody has any for both together.

        c-ares tells of what came last: there is no IPv6 address, say, although the question
        for IPv4 ones had failed. And it remembers that for longer than the name server
        says (1.34).
        """
        resolver, found = self._unknowing(), list[ResolveResult]()
        none: OSError | None = None
        try:
            for family in (socket.AF_INET, socket.AF_INET6):
                try:
                    found += await resolver.resolve(host, port, family)
                except OSError as error:
                    if _answer(error) not in {_NO_NAME, _NO_DATA}:
                        raise
                    none = error
        finally:
            await resolver.close()
        if not found and none is not None:
            raise none
        return found

    def _looked_up(self, task: asyncio.Task[_Found]) -> None:
        self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._found = task.result()
        elif _answer(error) in {_NO_NAME, _NO_DATA}:
            self._found = None


def _answer(error: BaseException) -> int | None:
    """Return the number of c-ares' error; None: the look-up ended otherwise."""
    cause = error.__cause__
    return cause.args[0] if isinstance(cause, aiodns.error.DNSError) else None


def _bare(found: ResolveResult) -> str:
    return found["host"].partition("%")[0]
