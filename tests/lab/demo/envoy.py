"""Envoy as the demo runs it, and what its admin interface says about the members.

As with HAProxy nothing is hidden: no retries. Envoy starts with the address of its driver
alone (`tests.envoy.proxy.bootstrap`); listener and members come from the driver. A restart
is SIGKILL and a new process: requests under way are cut, and until Envoy has its
configuration again it listens nowhere.
"""

import asyncio
import json

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import attrs

from tests.envoy.proxy import BINARY, FLEET, bootstrap
from tests.lab.demo import children
from tests.lab.demo.errors import DemoError
from tests.lab.demo.ground import Ground
from tests.lab.demo.proxy import Member, Proxy, Snapshot


LIMIT = 2.0
LOG = "envoy.log"


@attrs.define(eq=False)
class Envoy(Proxy):
    """A running Envoy.

    Attributes:
        ground: where it runs.
        address: where its listener is to be.
        xds: where it finds its driver.
        child: its process.
    """

    cuts_requests: ClassVar[bool] = True
    http2: ClassVar[bool] = True

    ground: Ground
    address: str
    xds: str
    child: asyncio.subprocess.Process

    @classmethod
    async def start(cls, ground: Ground, address: str, xds: str) -> "Envoy":
        """Write its configuration and start it."""
        port = int(xds.rpartition(":")[2])
        said = bootstrap(port, str(_admin(ground)), None)
        _configuration(ground).write_text(json.dumps(said))
        return cls(ground, address, xds, await _process(ground))

    @property
    def lb_spec(self) -> Mapping[str, str]:
        """Its fleet and where it listens."""
        return {"fleet": FLEET, "listen": self.address}

    @property
    def attributes(self) -> Mapping[str, str]:
        """No retries: what fails shall be seen. A SYN may be lost twice on a busy machine.

        The log in the run's folder tells of each request what became of it.
        """
        seen = {"retries": "0", "accessLog": "stdout"}
        return {**seen, "connectTimeout": "4s", "upstreamProtocol": "client"}

    @property
    def driver(self) -> Sequence[str]:
        """Its management server."""
        return (
            "webhooks.envoy",
            *("--xds-address", self.xds),
            *("--state-directory", str(self.ground.folder / "envoy-state")),
            *("--allow-listeners", "*"),
        )

    async def look(self) -> Snapshot:
        """Ask for its members; none serves before Envoy listens.

        Envoy tells of listeners before their sockets are open: those that its configuration
        begins with open when the workers start.

        Raises:
            DemoError: it does not answer.
        """
        try:
            async with asyncio.timeout(LIMIT):
                started = await self._ask("stats?filter=workers_started&", "stats")
                listeners = await self._ask("listeners?", "listener_statuses")
                clusters = await self._ask("clusters?", "cluster_statuses")
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise DemoError(f"Envoy does not answer: {error}; see {LOG}") from error
        name = f"lbcf/{self.address}"
        listens = any(one.get("value") for one in started) and any(
            one["name"] == name for one in listeners
        )
        hosts = [
            host
            for one in clusters
            if one["name"] == name
            for host in one.get("host_statuses", ())
        ]
        found = tuple(read_member(host, listens=listens) for host in hosts)
        return Snapshot(str(self.child.pid), found)

    async def restart(self) -> None:
        """Kill it and start another."""
        self.child.kill()
        await self.child.wait()
        _admin(self.ground).unlink(missing_ok=True)
        self.child = await _process(self.ground)

    async def _ask(self, what: str, field: str) -> Sequence[dict[str, Any]]:
        """Ask the admin interface for a list."""
        connector = aiohttp.UnixConnector(str(_admin(self.ground)))
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(f"http://envoy/{what}format=json") as response,
        ):
            told = json.loads(await response.text())
        return list(told.get(field, ()))


def read_member(host: Mapping[str, Any], *, listens: bool) -> Member:
    """Read a host of `/clusters`; of an Envoy that listens nowhere yet, none serves."""
    where = host["address"]["socket_address"]
    address = f"{where['address']}:{where['port_value']}"
    stats = {one["name"]: int(one.get("value", 0)) for one in host.get("stats", ())}
    is_draining = host["health_status"].get("eds_health_status") == "DRAINING"
    status = "DRAIN" if is_draining else "UP" if listens else "no listener"
    return Member(address, address, status, stats.get("rq_active", 0))


async def _process(ground: Ground) -> asyncio.subprocess.Process:
    """Start the program."""
    argv = [
        *(str(BINARY), "--config-path", str(_configuration(ground))),
        *("--service-cluster", FLEET, "--service-node", "envoy-1"),
        *("--concurrency", "2", "--use-dynamic-base-id", "--log-level", "info"),
    ]
    return await children.start(ground, ground.folder / LOG, argv)


def _admin(ground: Ground) -> Path:
    """Where its admin interface is."""
    return ground.folder / "admin.sock"


def _configuration(ground: Ground) -> Path:
    """Where it reads whom to ask."""
    return ground.folder / "envoy.json"
