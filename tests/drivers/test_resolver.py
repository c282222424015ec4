"""Addresses of a driver: kept while nobody answers, and refused where no driver may be."""

import asyncio
import contextlib
import socket
import struct

from collections.abc import AsyncIterator, Sequence
from typing import cast

import aiohttp
import attrs
import pytest

from aiohttp.abc import AbstractResolver, ResolveResult

from lbcf.drivers.errors import NotAllowed
from lbcf.drivers.resolver import FRESH, LONGEST, PATIENCE, STALE, DriverResolver
from lbcf.drivers.url_allowlist import may_reach, parse_allowed_url
from tests.fakes.loop import run_virtual
from tests.patience import PATIENCE as LONG


URL = "http://driver.test"


@attrs.define
class NameServer(AbstractResolver):
    """Answers what a test has it answer; None: it hangs."""

    answer: Sequence[str] | OSError | None = ("192.0.2.1",)
    asked: int = 0

    async def resolve(
        self, host: str, port: int = 0, family: int = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Answer."""
        self.asked += 1
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, OSError):
            raise self.answer
        return [
            ResolveResult(
                hostname=host, host=one, port=port, family=family, proto=0, flags=0
            )
            for one in self.answer or ()
        ]

    async def close(self) -> None:
        """Nothing is open."""


def a_resolver(server: NameServer, *patterns: str) -> DriverResolver:
    """Return the resolver of a driver."""
    allowed_urls = [parse_allowed_url(pattern) for pattern in patterns]
    return DriverResolver(lambda found: may_reach(URL, found, allowed_urls), server)


async def hosts(resolver: DriverResolver) -> list[str]:
    """Look the driver up."""
    return [found["host"] for found in await resolver.resolve("driver.test", 80)]


def test_addresses_are_looked_up_once_in_a_while() -> None:
    """A call does not look up what another has just looked up."""

    async def story() -> tuple[int, int, int]:
        server = NameServer()
        resolver = a_resolver(server)
        await asyncio.gather(*(hosts(resolver) for _ in range(8)))
        at_once = server.asked
        await hosts(resolver)
        fresh = server.asked
        await asyncio.sleep(FRESH + 1)
        await hosts(resolver)
        return at_once, fresh, server.asked

    assert (1, 1, 2) == run_virtual(story())


@pytest.mark.parametrize("answer", [None, OSError("SERVFAIL")])
def test_addresses_of_before_serve_while_nobody_answers(
    answer: OSError | None,
) -> None:
    """A name server that hangs, or fails, costs the first call a moment, others nothing."""

    async def story() -> tuple[list[str], float, float]:
        server = NameServer()
        resolver = a_resolver(server)
        await hosts(resolver)
        server.answer = answer
        await asyncio.sleep(FRESH + 1)
        began = asyncio.get_running_loop().time()
        found = await hosts(resolver)
        first = asyncio.get_running_loop().time()
        if answer is None:
            await hosts(resolver)
        second = asyncio.get_running_loop().time()
        await resolver.close()
        return found, first - began, second - first

    found, first, second = run_virtual(story())

    assert ["192.0.2.1"] == found
    assert first == pytest.approx(PATIENCE if answer is None else 0)
    assert 0 == second


A, AAAA = 1, 28
NOBODY, FAILS, NONE = "NXDOMAIN", "SERVFAIL", "NODATA"
_CODES = {NOBODY: 3, FAILS: 2}
TRIES = 2
"""How often the resolver of these tests asks a server that fails."""


class Dns(asyncio.DatagramProtocol):
    """A name server (RFC 1035) whose answers are for the moment: their TTL is 0.

    Attributes:
        says: by kind of question, an address or one of the words above.
        first: asked for so often before anything is said of the other kind.
    """

    def __init__(self) -> None:
        self.says: dict[int, str] = {}
        self.first: tuple[int, int] = (0, 0)
        self._held: list[tuple[bytes, tuple[str, int]]] = []
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer, now or once the other kind was asked for often enough."""
        question = data[12 : data.index(0, 12) + 5]
        kind = struct.unpack(">H", question[-4:-2])[0]
        reply = data[:2] + self._rest(kind, question)
        before, times = self.first
        if times and kind != before:
            self._held.append((reply, addr))
            return
        self._send(reply, addr)
        if times:
            self.first = (before, times - 1)
            while times == 1 and self._held:
                self._send(*self._held.pop())

    def _send(self, reply: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        self._transport.sendto(reply, addr)

    def _rest(self, kind: int, question: bytes) -> bytes:
        said = self.says[kind]
        flags = b"\x85" + bytes([0x80 | _CODES.get(said, 0)])
        if said in {NOBODY, FAILS, NONE}:
            return flags + struct.pack(">4H", 1, 0, 0, 0) + question
        family = socket.AF_INET if kind == A else socket.AF_INET6
        ip = socket.inet_pton(family, said)
        found = struct.pack(">HHHIH", 0xC00C, kind, 1, 0, len(ip)) + ip
        return flags + struct.pack(">4H", 1, 1, 0, 0) + question + found


@contextlib.asynccontextmanager
async def looking_up(
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[tuple[Dns, DriverResolver]]:
    """Give a name server, and a resolver that asks it before each call."""
    monkeypatch.setattr("lbcf.drivers.resolver.FRESH", 0.0)
    monkeypatch.setattr("lbcf.drivers.resolver.PATIENCE", LONG)
    loop = asyncio.get_running_loop()
    transport, dns = await loop.create_datagram_endpoint(
        Dns, local_addr=("127.0.0.1", 0)
    )
    server = "{}:{}".format(*transport.get_extra_info("sockname"))

    def asking() -> aiohttp.AsyncResolver:
        return aiohttp.AsyncResolver(
            nameservers=[server], domains=[], tries=TRIES, timeout=LONG
        )

    resolver = DriverResolver(lambda found: may_reach(URL, found, ()), asking(), asking)
    try:
        yield dns, resolver
    finally:
        await resolver.close()
        transport.close()


@pytest.mark.parametrize("told", [NOBODY, NONE])
@pytest.mark.parametrize(
    "before", [{A: "192.0.2.1", AAAA: NONE}, {A: NONE, AAAA: "2001:db8::1"}]
)
async def test_a_name_that_has_none_any_more_is_heard(
    before: dict[int, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another pod may have its old address by now: nobody is sent there (RFC 8767, 4)."""
    async with looking_up(monkeypatch) as (dns, resolver):
        dns.says = before
        first, again = await hosts(resolver), await hosts(resolver)
        dns.says = {A: told, AAAA: told}
        for _ in range(2):
            with pytest.raises(OSError, match=r"not found|no data"):
                await hosts(resolver)
        dns.says = before
        assert first == again == await hosts(resolver)


@pytest.mark.parametrize(
    ("says", "first"),
    [
        pytest.param({A: FAILS, AAAA: FAILS}, (0, 0), id="fails"),
        pytest.param({A: NONE, AAAA: FAILS}, (0, 0), id="the other kind fails"),
        pytest.param({A: FAILS, AAAA: NONE}, (A, TRIES), id="its kind fails first"),
    ],
)
async def test_addresses_of_before_serve_while_one_kind_cannot_be_told(
    says: dict[int, str], first: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said of the other kind of address tells nothing of this one."""
    async with looking_up(monkeypatch) as (dns, resolver):
        dns.says = {A: "192.0.2.1", AAAA: "2001:db8::1"}
        before = await hosts(resolver)
        dns.says, dns.first = says, first
        for _ in range(2):
            assert before == await hosts(resolver)


def test_addresses_are_not_kept_for_ever() -> None:
    """After an hour without an answer there may be somebody else."""

    async def story() -> None:
        server = NameServer()
        resolver = a_resolver(server)
        await hosts(resolver)
        server.answer = OSError("SERVFAIL")
        await asyncio.sleep(STALE + 1)
        await hosts(resolver)

    with pytest.raises(OSError, match="SERVFAIL"):
        run_virtual(story())


def test_a_hanging_name_is_looked_up_once_at_a_time() -> None:
    """However many calls wait for it and give up."""

    async def story() -> tuple[int, int]:
        server = NameServer(answer=None)
        resolver = a_resolver(server)
        ended = 0
        for _ in range(10):
            try:
                async with asyncio.timeout(2):
                    await hosts(resolver)
            except TimeoutError:
                ended += 1
        await resolver.close()
        return ended, server.asked

    assert (10, 1) == run_virtual(story())


def test_a_look_up_that_hangs_is_given_up() -> None:
    """Nobody waits for it for ever: the next call asks anew, and has the answer."""

    async def story() -> list[str]:
        server = NameServer(answer=None)
        resolver = a_resolver(server)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await hosts(resolver)
        server.answer = ("192.0.2.1",)
        await asyncio.sleep(LONGEST)
        async with asyncio.timeout(2):
            return await hosts(resolver)

    assert ["192.0.2.1"] == run_virtual(story())


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "::1",
        "169.254.169.254",
        "fe80::1%eth0",
        "::",
        "::ffff:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "::7f00:1",
    ],
)
def test_a_name_that_leads_beside_us_is_refused(address: str) -> None:
    """A tenant's name server says what it likes."""
    with pytest.raises(NotAllowed, match="--driver-url-allow") as raised:
        run_virtual(hosts(a_resolver(NameServer([address]), "*://*")))

    assert raised.value.definite


def test_an_address_that_is_named_may_be_reached_by_name() -> None:
    """The operator knows what is there."""
    resolver = a_resolver(NameServer(["127.0.0.1"]), "http://127.0.0.1", "*://*")

    assert ["127.0.0.1"] == run_virtual(hosts(resolver))


def test_only_addresses_that_are_refused_are_left_out() -> None:
    """A host may have others as well."""
    server = NameServer(["127.0.0.1", "192.0.2.1"])

    assert ["192.0.2.1"] == run_virtual(hosts(a_resolver(server)))
