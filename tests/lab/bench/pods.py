"""Plays the users and the kubelets: pods come, become ready, go, at a given pace."""

import asyncio
import json

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import attrs

from tests.e2e import objects
from tests.lab.bench.pipes import Pipes


READY_RATE: Final = 300.0
"""Pods made ready per second in a storm."""
DELETE_RATE: Final = 600.0
"""Pods deleted per second in a storm."""

_MERGE: Final = "application/merge-patch+json"
_GRACE: Final = json.dumps({"gracePeriodSeconds": 0})


@attrs.frozen
class Batch:
    """Pods of consecutive names and addresses.

    Attributes:
        prefix: of the names; no two batches of a cluster have the same.
        first: number of the first address in 10.0.0.0/8.
        count: how many.
    """

    prefix: str
    first: int
    count: int

    def name(self, index: int) -> str:
        """Name one."""
        return f"{self.prefix}{index}"

    def address(self, index: int) -> str:
        """Say where one is."""
        number = self.first + index
        return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"

    def addresses(self, port: int = 80) -> dict[str, str]:
        """Return host:port by name."""
        return {self.name(i): f"{self.address(i)}:{port}" for i in range(self.count)}


class Pods:
    """The pods of one namespace."""

    def __init__(self, pipes: Pipes, namespace: str, labels: dict[str, str]) -> None:
        self.pipes = pipes
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._labels = labels

    async def make(self, batch: Batch, index: int) -> None:
        """Create a pod and make it ready, as a kubelet would."""
        name = batch.name(index)
        body = objects.a_pod(name)
        body["metadata"]["labels"] = self._labels
        await self.pipes.send("POST", self._path, json.dumps(body))
        status = json.dumps(objects.pod_status(batch.address(index)))
        await self.pipes.send("PATCH", f"{self._path}/{name}/status", status, _MERGE)

    async def delete(self, batch: Batch, index: int) -> None:
        """Delete a pod; without a node it is gone at once."""
        await self.pipes.send("DELETE", f"{self._path}/{batch.name(index)}", _GRACE)

    async def make_all(self, batch: Batch, rate: float = READY_RATE) -> None:
        """Make all pods of a batch, so many per second."""
        await paced(range(batch.count), rate, lambda i: self.make(batch, i))

    async def delete_all(self, batch: Batch, rate: float = DELETE_RATE) -> None:
        """Delete all pods of a batch, so many per second."""
        await paced(range(batch.count), rate, lambda i: self.delete(batch, i))

    async def replace_all(self, old: Batch, new: Batch, rate: float) -> None:
        """Make each new pod before its predecessor goes, so many per second."""

        async def replace(index: int) -> None:
            """Replace one."""
            await self.make(new, index)
            await self.delete(old, index)

        await paced(range(old.count), rate, replace)


async def paced(
    indexes: Iterable[int], rate: float, act: Callable[[int], Awaitable[None]]
) -> None:
    """Begin so many acts per second, and wait for the end of all."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    async with asyncio.TaskGroup() as group:
        for position, index in enumerate(indexes):
            ahead = start + position / rate - loop.time()
            if ahead > 0:
                await asyncio.sleep(ahead)
            group.create_task(_awaited(act(index)))


async def _awaited(act: Awaitable[None]) -> None:
    """Make a coroutine of any awaitable."""
    await act
