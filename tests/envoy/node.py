"""An Envoy in a few lines, which answers as a test wants it to."""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Mapping
from typing import Any, Self

import attrs
import grpc

from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from google.rpc import status_pb2

from tests.envoy.proxy import FLEET
from webhooks.envoy.resources import Kind


@attrs.define(eq=False)
class Node:
    """One stream for configuration, of which all kinds are asked for.

    Attributes:
        refuses: a kind that it takes nothing of, and its own words for that.
        is_silent: whether it answers nothing. A write that meets the end of its stream hides
            the status of that end: gRPC says INTERNAL then.
    """

    _call: Any
    _name: base_pb2.Node
    refuses: tuple[Kind, str] | None = None
    is_silent: bool = False

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls,
        port: int,
        name: str,
        fleet: str = FLEET,
        refuses: tuple[Kind, str] | None = None,
        is_silent: bool = False,
    ) -> AsyncIterator[Self]:
        """Be connected for a block; take up what comes meanwhile."""
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel)
            call = stub.DeltaAggregatedResources()
            node = cls(call, base_pb2.Node(id=name, cluster=fleet), refuses, is_silent)
            await node._ask(Kind.CLUSTER)
            taking = asyncio.create_task(node._take())
            try:
                yield node
            finally:
                taking.cancel()
                call.cancel()
                await asyncio.gather(taking, return_exceptions=True)

    async def refused(self) -> tuple[str, str]:
        """Return the status that the stream ended with, and its text."""
        async with asyncio.timeout(20):
            code = await self._call.code()
            return code.name, str(await self._call.details())

    async def ask(self, kind: Kind, *names: str, has: Mapping[str, str]) -> None:
        """Subscribe to names, and say what is there from an earlier stream."""
        await self._call.write(
            discovery_pb2.DeltaDiscoveryRequest(
                type_url=str(kind),
                resource_names_subscribe=names,
                initial_resource_versions=has,
            )
        )

    async def _ask(self, kind: Kind, *names: str, nonce: str = "") -> None:
        """Subscribe to names, or to all of a kind; or acknowledge."""
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            await self._call.write(
                discovery_pb2.DeltaDiscoveryRequest(
                    node=self._name,
                    type_url=str(kind),
                    resource_names_subscribe=names,
                    response_nonce=nonce,
                )
            )

    async def _take(self) -> None:
        """Take what comes, and subscribe to the endpoints of each cluster."""
        is_served = False
        with contextlib.suppress(grpc.RpcError):
            async for response in self._call:
                if self.is_silent:
                    continue
                if not is_served:
                    is_served = True
                    await self._ask(Kind.LISTENER)
                kind = Kind(response.type_url)
                if self.refuses is not None and kind is self.refuses[0]:
                    await self._refuse(response, self.refuses[1])
                    continue
                await self._ask(kind, nonce=response.nonce)
                names = [one.name for one in response.resources]
                if kind is Kind.CLUSTER and names:
                    await self._ask(Kind.ENDPOINTS, *names)

    async def _refuse(self, response: Any, why: str) -> None:
        """Say no to one response."""
        await self._call.write(
            discovery_pb2.DeltaDiscoveryRequest(
                type_url=response.type_url,
                response_nonce=response.nonce,
                error_detail=status_pb2.Status(code=13, message=why),
            )
        )
