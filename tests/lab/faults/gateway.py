"""Stands between one of our processes and the real API server, and tells tales.

    process --http--> Gateway --https--> kube-apiserver

It shows its process one namespace as if there were no other, so that many runs share a
control plane. It notes every record on its way (`history`), and may be told to do what
networks, proxies and API servers do now and then (`troubles`).
"""

import asyncio
import contextlib
import json
import time

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import attrs

from aiohttp import web

from lbcf.kube.connection import Connection
from tests.lab.faults.history import Journal, Release, Sight
from tests.lab.faults.troubles import Trouble, Troubles


LONGEST_LINE = 1 << 22
BEHIND = 1.5
"""Seconds that a process lives in the past, once it was given an old list."""
RECORDS = "backendrecords"
WHOLE_CLUSTER = frozenset({"nodes", "namespaces", "customresourcedefinitions"})
PASSED_ON = ("Content-Type", "Accept", "User-Agent")

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: gateway
clusters: [{{name: gateway, cluster: {{server: "{url}"}}}}]
users: [{{name: nobody, user: {{}}}}]
contexts: [{{name: gateway, context: {{cluster: gateway, user: nobody}}}}]
"""


@attrs.frozen
class Asked:
    """What a request is about.

    Attributes:
        path: as the API server gets it.
        name: of the object; empty for a collection.
        sub: the subresource.
    """

    method: str
    path: str
    resource: str
    name: str = ""
    sub: str = ""
    watch: bool = False

    @property
    def is_list(self) -> bool:
        """Whether a collection is read."""
        return self.method == "GET" and not self.name and not self.watch

    @property
    def is_write(self) -> bool:
        """Whether something is to change; elections, which go on all the time, not."""
        return self.method != "GET" and self.resource != "leases"


def asked_for(method: str, path: str, *, watch: bool, namespace: str) -> Asked:
    """Read a path, and narrow it to the namespace if it is about all of them."""
    parts = path.strip("/").split("/")
    size = 2 if parts[0] == "api" else 3
    base, rest = parts[:size], parts[size:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    elif rest and rest[0] in WHOLE_CLUSTER:
        return Asked(method, path, rest[0], watch=watch)
    resource, name, sub = (*rest, "", "", "")[:3]
    narrowed = "/".join(["", *base, "namespaces", namespace, *rest])
    return Asked(method, narrowed, resource, name, sub, watch)


class Gateway:
    """One of them; `opened` makes it.

    Attributes:
        troubles: what it is to do wrong.
        url: where it listens.
    """

    def __init__(
        self, upstream: aiohttp.ClientSession, namespace: str, journal: Journal
    ) -> None:
        self.troubles = Troubles()
        self.url = ""
        self._upstream = upstream
        self._namespace = namespace
        self._journal = journal
        self._lists: dict[str, dict[str, str]] = {}
        self._old: dict[str, bytes] = {}
        self._under_way: set[asyncio.Task[tuple[int, bytes]]] = set()

    def write_kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig that leads here; returns its path."""
        path.write_text(KUBECONFIG.format(url=self.url))
        return path

    async def age(self) -> None:
        """Keep the lists of now, to be told as the present to the next who asks."""
        for path, query in self._lists.items():
            async with self._upstream.get(path, params=query) as answer:
                self._old[path] = await answer.read()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on, or not, and its answer, or not."""
        watch = request.query.get("watch") == "true"
        asked = asked_for(
            request.method, request.path, watch=watch, namespace=self._namespace
        )
        if asked.watch:
            return await self._watch(request, asked)
        if asked.resource != "leases" and self.troubles.take(Trouble.THROTTLED):
            return _status(429, "TooManyRequests", {"Retry-After": "1"})
        if asked.is_list and (old := self._old.pop(asked.path, None)) is not None:
            self.troubles.met[Trouble.OLD_LIST] += 1
            self.troubles.hold(BEHIND)
            self._journal_list(old)
            return web.Response(body=old, content_type="application/json")
        sent = await request.read()
        forward = asyncio.create_task(self._forward(request, asked, sent))
        self._under_way.add(forward)
        forward.add_done_callback(self._under_way.discard)
        # What a process has sent before it was killed is not called back by that.
        status, body = await asyncio.shield(forward)
        return await self._answer(request, asked, status, body)

    async def settle(self) -> None:
        """Wait for what has been sent."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _forward(
        self, request: web.Request, asked: Asked, sent: bytes
    ) -> tuple[int, bytes]:
        """Bring it to the API server; note what its answer tells."""
        began = time.monotonic()
        async with self._upstream.request(
            asked.method,
            asked.path,
            params=request.query,
            data=sent or None,
            headers=_passed_on(request),
        ) as answer:
            body = await answer.read()
        if answer.status < 300 and asked.resource == RECORDS:
            self._note(asked, body, began)
        if answer.status < 300 and asked.is_list:
            self._lists[asked.path] = dict(request.query)
        return answer.status, body

    async def _answer(
        self, request: web.Request, asked: Asked, status: int, body: bytes
    ) -> web.StreamResponse:
        """Bring the answer back, if nothing is to go wrong with it."""
        if asked.is_write and self.troubles.take(Trouble.APPLIED_504):
            return _status(504, "Timeout")
        if asked.resource != "leases" and self.troubles.take(Trouble.RESET_BODY):
            response = web.StreamResponse(status=status)
            response.content_type, response.content_length = _JSON, len(body)
            await response.prepare(request)
            await response.write(body[: len(body) // 2])
            _abort(request)
            return response
        return web.Response(status=status, body=body, content_type=_JSON)

    async def _watch(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        """Pass a watch on, line by line."""
        if self.troubles.take(Trouble.GONE):
            return _status(410, "Expired")
        async with self._upstream.get(
            asked.path,
            params=request.query,
            headers=_passed_on(request),
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            response = web.StreamResponse(status=answer.status)
            response.content_type = _JSON
            await response.prepare(request)
            cutting = self.troubles.cutting(lambda: _abort(request))
            with cutting, contextlib.suppress(ConnectionError):
                async for line in answer.content:
                    await self._tell(request, response, asked, line)
        return response

    async def _tell(
        self,
        request: web.Request,
        response: web.StreamResponse,
        asked: Asked,
        line: bytes,
    ) -> None:
        """Pass one event on, in time or later, whole or half, or not at all."""
        await self.troubles.flowing()
        if self.troubles.swallows:
            return
        if self.troubles.take(Trouble.HALF_LINE):
            await response.write(line[: len(line) // 2])
            _abort(request)
            return
        if asked.resource == RECORDS:
            event = json.loads(line)
            if event["type"] in {"ADDED", "MODIFIED", "DELETED"}:
                self._see(event["object"])
        await response.write(line)

    def _note(self, asked: Asked, body: bytes, began: float) -> None:
        """Note what an answer about records tells."""
        if asked.is_list:
            self._journal_list(body)
            return
        record = json.loads(body)
        if record.get("kind") == "Status":
            return
        sight = self._see(record)
        if asked.method == "PATCH" and sight.deleting and not sight.held:
            release = Release(sight.uid, began, time.monotonic())
            self._journal.releases.append(release)

    def _journal_list(self, body: bytes) -> None:
        """Note all records of a list."""
        page = json.loads(body)
        if page["kind"] == "BackendRecordList":
            for record in page["items"]:
                self._see(record)

    def _see(self, record: Mapping[str, Any]) -> Sight:
        """Note a record that is on its way."""
        sight = Sight.of(time.monotonic(), record)
        self._journal.sights.append(sight)
        return sight


_JSON = "application/json"


def _passed_on(request: web.Request) -> dict[str, str]:
    """Choose the headers that the API server gets."""
    found = request.headers
    return {name: found[name] for name in PASSED_ON if name in found}


def _abort(request: web.Request) -> None:
    """Reset the connection."""
    if request.transport is not None:
        request.transport.abort()


def _status(
    code: int, reason: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Answer in the API server's name."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    told = {**body, "reason": reason, "message": "told to"}
    return web.json_response(told, status=code, headers=headers)


@contextlib.asynccontextmanager
async def opened(
    connection: Connection, namespace: str, journal: Journal
) -> AsyncIterator[Gateway]:
    """Give a gateway to an API server, as the user of the connection."""
    async with aiohttp.ClientSession(
        connection.host,
        connector=aiohttp.TCPConnector(ssl=connection.tls() or True, limit=0),
        read_bufsize=LONGEST_LINE,
        auto_decompress=True,
    ) as upstream:
        gateway = Gateway(upstream, namespace, journal)
        app = web.Application(client_max_size=LONGEST_LINE)
        app.router.add_route("*", "/{path:.*}", gateway.serve)
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            gateway.url = f"http://{host}:{port}"
            yield gateway
        finally:
            gateway.troubles.end()
            await runner.cleanup()
            await gateway.settle()
