"""A driver as people wrote them for LBCF: nothing is known of what came later.

No SDK, maps as they come, the old names of fields, delays in a string, field names of
one answer in another letter case, as Go programs without tags write them.
"""

import asyncio

from aiohttp import web


Json = dict[str, object]


class PlainLbcfDriver:
    """Keeps members by load balancer and address.

    Attributes:
        members: what there is.
    """

    def __init__(self) -> None:
        self.members: set[tuple[str, str]] = set()
        self._lock = asyncio.Lock()

    def application(self) -> web.Application:
        """Return the endpoints of LBCF."""
        app = web.Application()
        app.router.add_post("/healthz", self._healthz)
        app.router.add_post("/validateLoadBalancer", self._validate)
        app.router.add_post("/createLoadBalancer", self._create)
        app.router.add_post("/ensureLoadBalancer", self._succeed)
        app.router.add_post("/deleteLoadBalancer", self._succeed)
        app.router.add_post("/validateBackend", self._validate_backend)
        app.router.add_post("/generateBackendAddr", self._generate)
        app.router.add_post("/ensureBackend", self._ensure)
        app.router.add_post("/deregisterBackend", self._deregister)
        app.router.add_post("/judgePodDeregister", self._judge)
        return app

    async def _healthz(self, _request: web.Request) -> web.Response:
        """Be well."""
        return web.json_response({"Healthy": True})

    async def _validate(self, _request: web.Request) -> web.Response:
        """Take any load balancer."""
        return web.json_response({"succ": True, "msg": ""})

    async def _validate_backend(self, request: web.Request) -> web.Response:
        """Demand the old parameters of an update, by their name in LBCF's code."""
        body = await request.json()
        fine = body["operation"] == "Create" or "OldParameters" in body
        return web.json_response({"succ": fine, "msg": ""})

    async def _create(self, _request: web.Request) -> web.Response:
        """Leave the identity to the spec."""
        return web.json_response({"status": "Succ"})

    async def _succeed(self, _request: web.Request) -> web.Response:
        """Have nothing to do."""
        return web.json_response({"status": "Succ", "minRetryDelayinSeconds": "5"})

    async def _generate(self, request: web.Request) -> web.Response:
        """Read the port by its old name."""
        backend = (await request.json())["podBackend"]
        port = backend["port"].get("portNumber", 0)
        address = f"{backend['pod']['status']['podIP']}:{port}"
        return web.json_response({"status": "Succ", "backendAddr": address})

    async def _ensure(self, request: web.Request) -> web.Response:
        """Put it there."""
        async with self._lock:
            self.members.add(await _key(request))
        return await self._succeed(request)

    async def _deregister(self, request: web.Request) -> web.Response:
        """Take it out."""
        async with self._lock:
            self.members.discard(await _key(request))
        return await self._succeed(request)

    async def _judge(self, request: web.Request) -> web.Response:
        """Keep all pods."""
        pods = (await request.json())["notReadyPods"]
        return web.json_response({"succ": True, "doNotDeregister": pods})


async def _key(request: web.Request) -> tuple[str, str]:
    """Return load balancer and address.

    Raises:
        HTTPBadRequest: the body is not what it should be.
    """
    try:
        body = await request.json()
        address, lb_info = body["backendAddr"], body.get("lbInfo") or {}
        if isinstance(address, str) and isinstance(lb_info, dict):
            return (str(sorted(lb_info.items())), address)
    except (KeyError, TypeError, ValueError):
        pass  # told below
    raise web.HTTPBadRequest(text="not a request")
