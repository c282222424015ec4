"""An Envoy that costs little: one stream for configuration, another one for load reports."""

import asyncio
import contextlib

from collections.abc import AsyncIterator
from typing import Any, Self

import attrs
import grpc

from envoy.config.core.v3 import base_pb2
from envoy.config.endpoint.v3 import load_report_pb2
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from envoy.service.load_stats.v3 import lrs_pb2, lrs_pb2_grpc

from tests.envoy.proxy import FLEET
from webhooks.envoy.resources import Kind


_OPTIONS = (("grpc.use_local_subchannel_pool", 1),)
"""Each Envoy has a connection of its own."""


def report_of(clusters: list[load_report_pb2.ClusterStats], name: str) -> Any:
    """Return a load report of an Envoy."""
    node = base_pb2.Node(id=name, cluster=FLEET)
    return lrs_pb2.LoadStatsRequest(node=node, cluster_stats=clusters)


def stats_of(cluster: str, addresses: list[tuple[str, int]]) -> Any:
    """Return what a cluster has, with a request under way at each address."""
    stats = load_report_pb2.ClusterStats(cluster_name=cluster)
    locality = stats.upstream_locality_stats.add(
        total_requests_in_progress=len(addresses)
    )
    for host, port in addresses:
        one = locality.upstream_endpoint_stats.add(total_requests_in_progress=1)
        one.address.socket_address.address = host
        one.address.socket_address.port_value = port
    return stats


@attrs.define(eq=False)
class Envoy:
    """Both streams.

    Attributes:
        name: its `node.id`.
        report: what it reports.
        reports: how many it has sent.
    """

    name: str
    report: Any
    reports: int = 0
    _interval: float = attrs.field(default=0.0, init=False)
    _wished: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, port: int, name: str, report: Any) -> AsyncIterator[Self]:
        """Be connected for a block."""
        envoy = cls(name, report)
        target = f"127.0.0.1:{port}"
        async with grpc.aio.insecure_channel(target, _OPTIONS) as channel:
            tasks = [
                asyncio.create_task(envoy._configured(channel)),
                asyncio.create_task(envoy._reporting(channel)),
            ]
            try:
                yield envoy
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _configured(self, channel: Any) -> None:
        """Take up all that comes."""
        call = ads_pb2_grpc.AggregatedDiscoveryServiceStub(
            channel
        ).DeltaAggregatedResources()

        async def ask(kind: Kind, *names: str, nonce: str = "") -> None:
            await call.write(
                discovery_pb2.DeltaDiscoveryRequest(
                    node=base_pb2.Node(id=self.name, cluster=FLEET),
                    type_url=str(kind),
                    resource_names_subscribe=names,
                    response_nonce=nonce,
                )
            )

        for kind in (Kind.CLUSTER, Kind.LISTENER):
            await ask(kind)
        async for response in call:
            kind = Kind(response.type_url)
            await ask(kind, nonce=response.nonce)
            if kind is Kind.CLUSTER:
                await ask(Kind.ENDPOINTS, *(one.name for one in response.resources))

    async def _reporting(self, channel: Any) -> None:
        """Report as often as the driver wishes; a wish begins a period anew."""
        call = lrs_pb2_grpc.LoadReportingServiceStub(channel).StreamLoadStats()
        await call.write(report_of([], self.name))
        wishing = asyncio.create_task(self._wishes(call))
        try:
            await self._wished.wait()
            while True:
                self._wished.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._interval):
                        await self._wished.wait()
                    continue
                await call.write(self.report)
                self.reports += 1
        finally:
            wishing.cancel()
            await asyncio.gather(wishing, return_exceptions=True)

    async def _wishes(self, call: Any) -> None:
        """Hear how often."""
        async for wish in call:
            every = wish.load_reporting_interval
            self._interval = every.seconds + every.nanos / 1e9
            self._wished.set()
