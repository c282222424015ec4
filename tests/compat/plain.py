"""A driver as LBCF's documents describe one: no new field, no new operation, no SDK.

It knows members by their address, finds addresses itself, answers what a test tells it
to answer, and remembers every request as it came.
"""

import time

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any

import attrs

from aiohttp import web


Json = dict[str, Any]
Spelling = Callable[[Json], Json]


@attrs.frozen
class Call:
    """A request as it came; `at` is monotonic seconds."""

    operation: str
    body: Json
    at: float


def as_documented(answer: Json) -> Json:
    """Spell an answer as LBCF's document does: the delay is a string."""
    if "minRetryDelayInSeconds" not in answer:
        return answer
    rest = {k: v for k, v in answer.items() if k != "minRetryDelayInSeconds"}
    return {**rest, "minRetryDelayinSeconds": str(answer["minRetryDelayInSeconds"])}


def as_go_does(answer: Json) -> Json:
    """Spell an answer as Go programs without field tags do."""
    return {key[0].upper() + key[1:]: value for key, value in answer.items()}


def in_capitals(answer: Json) -> Json:
    """Spell an answer in capitals."""
    return {key.upper(): value for key, value in answer.items()}


def in_turn() -> Spelling:
    """Spell each answer in the next of all ways."""
    ways: Iterator[Spelling] = cycle([dict, as_documented, as_go_does, in_capitals])

    def spelled(answer: Json) -> Json:
        """Spell one answer."""
        spelling = next(ways)
        return spelling(answer)

    return spelled


class PlainDriver:
    """Keeps members by load balancer and address.

    Attributes:
        url: where it serves.
        calls: all requests, in order.
        members: parameters by load balancer and address.
        balancers: the load balancers that it was asked to create, and their attributes.
        kept: names of pods that judgePodDeregister keeps.
        spelling: how answers are written.
        identity: what createLoadBalancer says; empty leaves the identity to lbSpec.
        by_record: it names members after records: the one thing that is not LBCF's.
    """

    def __init__(self, url: str = "") -> None:
        self.url = url
        self.calls: list[Call] = []
        self.members: dict[tuple[str, str], Json] = {}
        self.balancers: dict[str, Json] = {}
        self.kept: set[str] = set()
        self.spelling: Spelling = dict
        self.identity: Json = {}
        self.by_record = False
        self._scripts: defaultdict[str, deque[Json]] = defaultdict(deque)

    def script(self, operation: str, *answers: Json) -> None:
        """Let the next calls of an operation be answered so, without effect."""
        self._scripts[operation].extend(answers)

    def unscript(self, operation: str) -> None:
        """Forget what was to be answered."""
        self._scripts[operation].clear()

    def of(self, operation: str) -> list[Call]:
        """The requests of one operation."""
        return [call for call in self.calls if call.operation == operation]

    @property
    def addresses(self) -> set[str]:
        """The addresses of all members."""
        return {address for _, address in self.members}

    async def serve(self, request: web.Request) -> web.Response:
        """Answer any operation."""
        operation = request.match_info["operation"]
        body: Json = await request.json()
        self.calls.append(Call(operation, body, time.monotonic()))
        script = self._scripts[operation]
        if script:
            return web.json_response(self.spelling(script.popleft()))
        work: Callable[[Json], Json] | None = getattr(self, f"_{operation}", None)
        if work is None:
            raise web.HTTPNotFound
        return web.json_response(self.spelling(work(body)))

    def _healthz(self, _body: Json) -> Json:
        """Be well."""
        return {"healthy": True}

    def _validateLoadBalancer(self, body: Json) -> Json:  # noqa: N802 - the wire's name
        """Refuse an attribute `refuse`; its value is the reason."""
        return _verdict(body["attributes"])

    def _validateBackend(self, body: Json) -> Json:  # noqa: N802
        """Refuse a parameter `refuse`; its value is the reason."""
        return _verdict(body["parameters"])

    def _createLoadBalancer(self, body: Json) -> Json:  # noqa: N802
        """Take in a load balancer."""
        info = self.identity or body["lbSpec"]
        self.balancers[_name(info)] = body["attributes"] or {}
        return {"status": "Succ", "msg": "", "lbInfo": self.identity}

    def _ensureLoadBalancer(self, body: Json) -> Json:  # noqa: N802
        """Give it its attributes."""
        self.balancers[_name(body["lbInfo"])] = body["attributes"] or {}
        return {"status": "Succ", "msg": ""}

    def _deleteLoadBalancer(self, body: Json) -> Json:  # noqa: N802
        """Let it go."""
        self.balancers.pop(_name(body["lbInfo"]), None)
        return {"status": "Succ", "msg": ""}

    def _generateBackendAddr(self, body: Json) -> Json:  # noqa: N802
        """Find the address of a pod, or of a service on a node."""
        if pod := body.get("podBackend"):
            host, port = pod["pod"]["status"]["podIP"], pod["port"]["portNumber"]
        else:
            service = body["serviceBackend"]
            host = next(
                a["address"]
                for a in service["nodeAddresses"]
                if a["type"] == "InternalIP"
            )
            port = service["service"]["spec"]["ports"][0]["nodePort"]
        return {"status": "Succ", "msg": "", "backendAddr": f"{host}:{port}"}

    def _ensureBackend(self, body: Json) -> Json:  # noqa: N802
        """Put a member in."""
        key = self._member(body)
        self.members[key] = body["parameters"] or {}
        return {"status": "Succ", "msg": "", "injectedInfo": {"id": "-".join(key)}}

    def _deregisterBackend(self, body: Json) -> Json:  # noqa: N802
        """Take a member out."""
        self.members.pop(self._member(body), None)
        return {"status": "Succ", "msg": ""}

    def _member(self, body: Json) -> tuple[str, str]:
        """Say which member is meant."""
        balancer = _name(body["lbInfo"])
        if self.by_record:
            balancer = f"{balancer},record={body['recordID']}"
        return balancer, body["backendAddr"]

    def _judgePodDeregister(self, body: Json) -> Json:  # noqa: N802
        """Keep the pods that a test told to keep."""
        pods = body["notReadyPods"]
        kept = [pod for pod in pods if pod["metadata"]["name"] in self.kept]
        return {"succ": True, "msg": "", "doNotDeregister": kept}


def _verdict(wishes: Json | None) -> Json:
    """Answer a validation."""
    why = (wishes or {}).get("refuse")
    return {"succ": why is None, "msg": why or ""}


def _name(info: Json) -> str:
    """Name a load balancer."""
    return ",".join(f"{key}={info[key]}" for key in sorted(info))


@asynccontextmanager
async def serving() -> AsyncIterator[PlainDriver]:
    """Serve on a free port of the loopback interface."""
    driver = PlainDriver()
    app = web.Application(client_max_size=64 * 1024**2)
    app.router.add_post("/{operation}", driver.serve)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        driver.url = f"http://{host}:{port}"
        yield driver
    finally:
        await runner.cleanup()
