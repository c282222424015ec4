"""An emulated BIG-IP's management interface: HTTP, who may ask, and faults on wish.

It is in front of a `unit`. Like real ones it takes a trailing slash, names without a
partition, PUT for PATCH, and a token or a password with each request.
"""

import asyncio
import base64
import contextlib
import itertools
import json
import ssl
import urllib.parse

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import attrs

from aiohttp import web

from tests.f5 import documents
from tests.f5.config import Refusal
from tests.f5.documents import Document
from tests.f5.faults import Faults
from tests.f5.routes import Routes
from tests.f5.unit import Unit


USER, PASSWORD = "lbcf", "secret"
GROUP = "/Common/pair"
"""The device group of a pair."""

MOST_TOKENS = 100
LONGEST_LIFE = 36000
PAGE = "<html><head><title>503</title></head><body><h1>Starting up</h1></body></html>"
LOGIN = "/mgmt/shared/authn/login"
SAVE = "/mgmt/tm/sys/config"
SYNCHRONIZE = "/mgmt/tm/cm"
CHANGES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
TRANSACTION = "/mgmt/tm/transaction"
COORDINATED = "X-F5-REST-Coordination-Id"


async def at_once(_request: str) -> None:
    """Hold no change up."""


@attrs.define(eq=False)
class Bigip:
    """A unit on a port of the loopback interface.

    Attributes:
        unit: what it does.
        faults: what goes wrong.
        password: of its user.
        life: seconds of a token; 0: they end at once.
        tokens: that are taken now, and whose they are.
        seen: `METHOD path` of each request.
        writes_at_once: the most changes that were under way together.
        save_begun: is set when somebody asks for a save.
        sync_begun: is set when somebody has other units brought up to date.
        before_login: may hold logins up.
        before_change: is told `METHOD path` of each change, and may hold it up.
        port: 0 until it was started.
    """

    unit: Unit = attrs.field(factory=Unit)
    faults: Faults = attrs.field(factory=Faults)
    password: str = PASSWORD
    life: int = 1200
    tokens: dict[str, str] = attrs.field(factory=dict)
    seen: list[str] = attrs.field(factory=list)
    writes_at_once: int = 0
    save_begun: asyncio.Event = attrs.field(factory=asyncio.Event)
    sync_begun: asyncio.Event = attrs.field(factory=asyncio.Event)
    before_login: Callable[[str], Awaitable[object]] = at_once
    before_change: Callable[[str], Awaitable[None]] = at_once
    port: int = 0
    _writing: int = 0
    _worker: asyncio.Lock = attrs.field(factory=asyncio.Lock)
    _numbers: "itertools.count[int]" = attrs.field(factory=lambda: itertools.count(1))
    _runner: web.AppRunner | None = None
    _tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        """Where it is, as load balancers name it."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        """Serve, always on the same port."""
        self._tls = tls or self._tls
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._tls)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Be gone."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def reboot(self, pages: int = 0) -> None:
        """Come up with what is on disk, forget tokens; be in pages for a while."""
        self.unit.reboot()
        self.tokens.clear()
        self.faults.pages = pages

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, or let it go wrong."""
        path = request.path.rstrip("/")
        self.seen.append(f"{request.method} {path}")
        body = await request.read()
        await self._hesitate(path)
        if self.faults.take("pages"):
            status = self.faults.page_status
            return web.Response(status=status, text=PAGE, content_type="text/html")
        changes = _changes(request, path)
        if changes and self.faults.take("unmade"):
            return _hung_up(request)
        if changes:
            await self.before_change(f"{request.method} {path}")
        self._writing += changes
        self.writes_at_once = max(self.writes_at_once, self._writing)
        try:
            await self._work(request, changes=changes)
            if path == LOGIN:
                await self.before_login(path)
            status, document = self._answered(request, path, body)
        finally:
            self._writing -= changes
        if changes and self.faults.take("lost"):
            return _hung_up(request)
        text = "" if document is None else json.dumps(document)
        return web.Response(status=status, text=text, content_type="application/json")

    async def _work(self, request: web.Request, *, changes: bool) -> None:
        """Take the time that a change takes, or a command of a transaction."""
        await asyncio.sleep(0)
        if changes and self.faults.slow_changes:
            async with self._worker:
                await asyncio.sleep(self.faults.slow_changes)
        elif COORDINATED in request.headers:
            await asyncio.sleep(self.faults.slow_commands)

    async def _hesitate(self, path: str) -> None:
        """Be as slow as is wished, and no longer than it is."""
        begun = {SAVE: self.save_begun, SYNCHRONIZE: self.sync_begun}.get(path)
        if begun is not None:
            begun.set()
        waited = 0.0
        while waited < (longest := self._slowness(path)):
            pause = min(longest - waited, 0.05)
            await asyncio.sleep(pause)
            waited += pause

    def _slowness(self, path: str) -> float:
        """Return how many seconds a request takes."""
        match path:
            case "/mgmt/tm/sys/config":
                return self.faults.slow_saves
            case "/mgmt/tm/cm":
                return self.faults.slow_syncs
            case _:
                return self.faults.slow

    def _answered(
        self, request: web.Request, path: str, body: bytes
    ) -> tuple[int, Document | None]:
        """Return status and body; None is an empty one."""
        try:
            said = json.loads(body) if body.strip() else {}
            if path == LOGIN:
                return 200, self._logged_in(said)
            self._authorize(request.headers)
            self._permit(request.method, path)
            return 200, self._routed(request, said)
        except Refusal as refusal:
            return refusal.status, refusal.document

    def _logged_in(self, said: Mapping[str, object]) -> Document:
        """Give a token."""
        self._permit("POST", LOGIN)
        user = str(said.get("username"))
        if (user, said.get("password")) != (USER, self.password):
            raise Refusal(401, "Authentication failed.", 0)
        if list(self.tokens.values()).count(user) >= MOST_TOKENS:
            text = f"user {user} has reached maximum active login tokens"
            raise Refusal(400, text, 0)
        token = f"TOKEN{next(self._numbers):021d}"
        if self.life:
            self.tokens[token] = user
        provider = str(said.get("loginProviderName", "local"))
        return documents.login_document(
            documents.token_document(token, user, provider, self.life or 1200)
        )

    def _authorize(self, headers: Mapping[str, str]) -> None:
        """Let pass who shows a token, or name and password."""
        token = headers.get("X-F5-Auth-Token")
        if token is not None:
            if token not in self.tokens:
                raise Refusal(401, "X-F5-Auth-Token does not exist.", 0)
            return
        shown = headers.get("Authorization", "").removeprefix("Basic ")
        if base64.b64decode(shown) != f"{USER}:{self.password}".encode():
            raise Refusal(401, "Authorization failed: no user authentication header", 0)

    def _permit(self, method: str, path: str) -> None:
        """Let pass what the user may do."""
        if f"{method} {path}".startswith(self.faults.forbidden):
            raise Refusal(401, self.faults.forbidding.format(path, method), 0)

    def _routed(self, request: web.Request, said: Document) -> Document | None:
        """Find what a request is about."""
        # Parts are taken apart before they are decoded, as `%2F` is no slash.
        raw = urllib.parse.urlsplit(request.raw_path).path
        parts = [urllib.parse.unquote(part) for part in raw.split("/") if part]
        match [request.method, *parts]:
            case [method, "mgmt", "shared", "authz", "tokens", token]:
                return self._token(method, token, said)
            case ["GET", "mgmt", "shared", "echo-query"]:
                return {"stage": "STARTED"}
            case [method, "mgmt", "tm", *rest]:
                number = request.headers.get(COORDINATED)
                if self.faults.take("busy"):
                    text = "There is an active asynchronous task executing."
                    raise Refusal(503, text, 32964609)
                routes = Routes(self.unit, self.faults)
                return routes.answer(method, rest, said, number)
            case _:
                raise Refusal(404, f"Public URI path not registered: {raw}", 1)

    def _token(self, method: str, token: str, said: Document) -> Document | None:
        """Lengthen or end a token."""
        if token not in self.tokens:
            raise Refusal(404, f"there is no token {token}", 0)
        if method == "DELETE":
            user = self.tokens.pop(token)
            return documents.token_document(token, user, "tmos", self.life)
        life = said.get("timeout", self.life)
        if method not in {"GET", "PATCH"} or not isinstance(life, int):
            raise Refusal(400, "only timeout can be changed", 0)
        if life > LONGEST_LIFE:
            raise Refusal(406, "absolute timeout exceeded", 0)
        return documents.token_document(token, self.tokens[token], "tmos", life)


def _changes(request: web.Request, path: str) -> bool:
    """Tell whether a request changes something now: queued ones do with their commit."""
    if path.startswith(TRANSACTION):
        return request.method == "PATCH"
    is_queued = COORDINATED in request.headers
    return (
        request.method in CHANGES and path.startswith("/mgmt/tm/ltm") and not is_queued
    )


def _hung_up(request: web.Request) -> web.Response:
    """Close the connection in place of an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


@contextlib.asynccontextmanager
async def a_bigip(tls: ssl.SSLContext | None = None) -> AsyncIterator[Bigip]:
    """Serve a unit with a pool for a block."""
    bigip = Bigip()
    bigip.unit.add_pool("/Common/web")
    await bigip.start(tls)
    try:
        yield bigip
    finally:
        await bigip.stop()


@contextlib.asynccontextmanager
async def a_pair() -> AsyncIterator[tuple[Bigip, Bigip]]:
    """Serve two units of one device group for a block; the first is active."""
    async with a_bigip() as first, a_bigip() as second:
        second.unit.name, second.unit.failover = "bigip2", "standby"
        both = [first.unit, second.unit]
        first.unit.peers = second.unit.peers = both
        first.unit.groups = second.unit.groups = [GROUP]
        yield first, second


def fail_over(loser: Bigip, winner: Bigip) -> None:
    """Have the other unit become active."""
    loser.unit.failover, winner.unit.failover = "standby", "active"
