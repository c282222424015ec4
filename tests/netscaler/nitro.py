"""NITRO over HTTP: one port of one appliance, and what goes wrong there.

Clients come in here; `operations` has what they may do. A test says by `Trouble` which
of the next requests are answered by something else.
"""

import asyncio
import json

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

import attrs

from aiohttp import web
from yarl import URL

from tests.netscaler.errors import (
    BULK_FAILED,
    INVALID_ARGUMENT,
    NO_SUCH_ARGUMENT,
    OTHERWISE,
    STATUS,
    NitroRefusal,
)
from tests.netscaler.operations import CONFIG, STAT, Asked, Operation
from tests.netscaler.unit import Unit


COOKIE = "NITRO_AUTH_TOKEN"

Fields = Mapping[str, object]


@attrs.frozen
class Heard:
    """A request that came in.

    Attributes:
        method: of HTTP.
        path: as it travelled, with the query.
        body: its JSON; empty where there was none.
    """

    method: str
    path: str
    body: Fields

    @property
    def resource(self) -> str:
        """The kind of resource that it is about."""
        return self.path.split("?", maxsplit=1)[0].split("/")[4]

    @property
    def items(self) -> list[dict[str, object]]:
        """The resources of a bulk request; none where it is of one."""
        said = self.body.get(self.resource)
        return said if isinstance(said, list) else []

    @property
    def args(self) -> dict[str, str]:
        """What `args=` says, by names in small letters."""
        text = URL(self.path, encoded=True).query.get("args", "")
        pairs = (part.partition(":") for part in text.split(",") if part)
        return {name.lower(): value for name, _, value in pairs}


@attrs.frozen
class Trouble:
    """Something that requests meet with.

    Attributes:
        answer: in place of the appliance's own; None hangs up.
        times: how many requests.
        on: which ones.
        late: whether the appliance did what it was asked before.
    """

    answer: Callable[[], web.Response] | None
    times: int = 1
    on: Callable[[Heard], bool] = lambda _heard: True
    late: bool = False


@attrs.frozen(eq=False)
class Held:
    """Requests that are held up until a test lets them go on.

    Attributes:
        on: which ones.
        late: whether the appliance did what it was asked before.
        begun: set when one is there.
        go: to be set when all may go on.
    """

    on: Callable[[Heard], bool]
    late: bool = False
    begun: asyncio.Event = attrs.field(factory=asyncio.Event)
    go: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def wait(self) -> None:
        """Wait for the test."""
        self.begun.set()
        await self.go.wait()


def html(status: int = 503) -> web.Response:
    """Return the page of a management interface that is restarting."""
    page = "<html><head><title>Error</title></head><body>Not now</body></html>"
    return web.Response(status=status, text=page, content_type="text/html")


def busy() -> web.Response:
    """Return what an appliance says while another operation is in progress."""
    return refused(NitroRefusal(293, "Operation already in progress"))


@attrs.define(eq=False)
class Nitro:
    """The management interface of one appliance.

    Attributes:
        unit: the appliance.
        heard: all requests that came in.
        troubles: what the next ones meet with.
        holds: which of them wait for the test.
        silent: whether nothing is answered at all, as by a host that is dead.
        slow_changes: seconds that each changing request takes, one after the other.
        slow_items: seconds that each resource of a bulk request takes beside that.
        at_once: the most changing requests that were under way together.
    """

    unit: Unit
    heard: list[Heard] = attrs.field(factory=list)
    troubles: list[Trouble] = attrs.field(factory=list)
    holds: list[Held] = attrs.field(factory=list)
    silent: bool = False
    slow_changes: float = 0
    slow_items: float = 0
    at_once: int = 0
    _under_way: int = 0
    _worker: asyncio.Lock = attrs.field(factory=asyncio.Lock)

    def application(self) -> web.Application:
        """Return the endpoints."""
        app = web.Application()
        app.router.add_route("*", "/nitro/v1/{rest:.*}", self._serve)
        return app

    def changes(self) -> list[Heard]:
        """Return the requests that change configuration, beside sessions and saving."""
        return [one for one in self.heard if is_change(one)]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, or what stands in its way."""
        heard = Heard(request.method, request.raw_path, await _body(request))
        self.heard.append(heard)
        if self.silent:
            await asyncio.Event().wait()
        trouble = self._next_trouble(heard)
        await self._hold(heard, late=False)
        await self._work(heard)
        if trouble is None:
            answer = self._answer(request, heard)
            await self._hold(heard, late=True)
            return answer
        if trouble.late:
            self._answer(request, heard)
        if trouble.answer is None:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        return trouble.answer()

    async def _hold(self, heard: Heard, *, late: bool) -> None:
        """Wait for the test where it holds such requests."""
        for held in self.holds:
            if held.late is late and held.on(heard):
                await held.wait()

    async def _work(self, heard: Heard) -> None:
        """Take the time that a changing request takes."""
        if not is_change(heard):
            return
        seconds = self.slow_changes + self.slow_items * len(heard.items)
        self._under_way += 1
        self.at_once = max(self.at_once, self._under_way)
        if seconds:
            async with self._worker:
                await asyncio.sleep(seconds)
        self._under_way -= 1

    def _next_trouble(self, heard: Heard) -> Trouble | None:
        """Return what this request meets with, and count it."""
        for place, trouble in enumerate(self.troubles):
            if trouble.on(heard):
                left = attrs.evolve(trouble, times=trouble.times - 1)
                self.troubles[place : place + 1] = [left] if left.times else []
                return trouble
        return None

    def _answer(self, request: web.Request, heard: Heard) -> web.Response:
        """Answer a request."""
        try:
            return self._performed(request, heard)
        except NitroRefusal as refusal:
            return refused(refusal)

    def _performed(self, request: web.Request, heard: Heard) -> web.Response:
        """Do what is asked."""
        kind, resource, name = _taken_apart(heard.path)
        if (heard.method, resource) == ("POST", "login"):
            return self._log_in(heard.body)
        self._check_in(request)
        if (heard.method, resource) == ("POST", "logout"):
            self.unit.sessions.pop(_token(request) or "", None)
            return done({}, 201)
        operation = (
            STAT.get(resource)
            if kind == "stat"
            else CONFIG.get((heard.method, resource))
        )
        if operation is None:
            text = f"Invalid object type or method [{heard.method} {resource}]"
            raise NitroRefusal(INVALID_ARGUMENT, text)
        created = heard.method == "POST" and "action" not in request.query
        said = heard.body.get(resource)
        if isinstance(said, list):
            asked = [_asked(self.unit, name, request, heard, one) for one in said]
            return bulk(operation, asked, goes_on(request), 201 if created else 200)
        fields = _fields(heard.body, resource)
        found = operation(_asked(self.unit, name, request, heard, fields))
        return done({resource: found} if found else {}, 201 if created else 200)

    def _log_in(self, body: Fields) -> web.Response:
        """Open a session."""
        said = _fields(body, "login")
        token = self.unit.log_in(
            str(said.get("username", "")), str(said.get("password", ""))
        )
        response = done({"sessionid": token}, 201)
        response.set_cookie(COOKIE, token, path="/nitro/v1")
        return response

    def _check_in(self, request: web.Request) -> None:
        """Let in whoever has a session, or says a password with each request."""
        user = request.headers.get("X-NITRO-USER")
        if user is not None:
            self.unit.check_password(user, request.headers.get("X-NITRO-PASS", ""))
        else:
            self.unit.check_session(_token(request))


def is_change(heard: Heard) -> bool:
    """Tell whether a request changes configuration, beside sessions and saving."""
    kinds = {"login", "logout", "nsconfig"}
    return heard.method != "GET" and heard.resource not in kinds


def goes_on(request: web.Request) -> bool:
    """Tell whether a bulk request goes on behind an error; unsaid, it ends there."""
    return request.headers.get("X-NITRO-ONERROR", "exit").lower() == "continue"


def bulk(
    operation: Operation, asked: Sequence[Asked], continues: bool, status: int
) -> web.Response:
    """Perform an operation on each resource of a bulk request, in order.

    Where all are done the answer is that of one. Else it is 207 and has a result for each
    that was tried; or for the one that failed alone, where that ended it.
    """
    results: list[Fields] = []
    for one in asked:
        try:
            operation(one)
            results.append(said_of(None))
        except NitroRefusal as refusal:
            results.append(said_of(refusal))
            if not continues:
                results = results[-1:]
                break
    if not any(one["errorcode"] for one in results):
        return done({}, status)
    failed = said_of(NitroRefusal(BULK_FAILED, "Bulk operation failed"))
    body = {**failed, "response": results}
    return web.json_response(body, status=207, reason="Multi Status")


def said_of(refusal: NitroRefusal | None) -> Fields:
    """Return what is said of one operation."""
    if refusal is None:
        return {"errorcode": 0, "message": "Done", "severity": "NONE"}
    return {
        "errorcode": refusal.code,
        "message": refusal.text,
        "severity": "ERROR",
    }


def done(more: Fields, status: int) -> web.Response:
    """Return a success; what is empty is not in it."""
    return web.json_response({**said_of(None), **more}, status=status)


def refused(refusal: NitroRefusal) -> web.Response:
    """Return a refusal."""
    status, reason = STATUS.get(refusal.code, OTHERWISE)
    return web.json_response(said_of(refusal), status=status, reason=reason)


def _token(request: web.Request) -> str | None:
    """Return the session that a request shows.

    One public client sends it in a request header called Set-Cookie.
    """
    shown = request.cookies.get(COOKIE)
    odd = request.headers.get("Set-Cookie", "")
    return shown or (odd.removeprefix(f"{COOKIE}=") if COOKIE in odd else None)


async def _body(request: web.Request) -> Fields:
    """Return the JSON of a request, whatever type it says that it has."""
    try:
        said = json.loads(await request.read() or b"{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _fields(body: Fields, resource: str) -> Fields:
    """Return what the body says of the resource."""
    said = body.get(resource, {})
    if not isinstance(said, dict):
        raise NitroRefusal(INVALID_ARGUMENT, f"Invalid JSON input [{resource}]")
    return said


def _taken_apart(path: str) -> tuple[str, str, str]:
    """Return config or stat, the resource's kind and its name.

    Names come encoded twice from the official clients, once from others.
    """
    parts = path.split("?", maxsplit=1)[0].split("/")[3:]
    kind, resource, name = [*parts, "", "", ""][:3]
    if kind not in {"config", "stat"} or not resource:
        raise NitroRefusal(NO_SUCH_ARGUMENT, f"No such argument [{path}]")
    return kind, resource, unquote(unquote(name))


def _asked(
    unit: Unit, name: str, request: web.Request, heard: Heard, fields: Fields
) -> Asked:
    """Take a request apart."""
    return Asked(
        unit=unit,
        name=name,
        action=request.query.get("action", ""),
        fields=fields,
        args=heard.args,
        filter=request.query.get("filter", ""),
        statbindings=request.query.get("statbindings") == "yes",
    )
