"""The processes of one role: one with all of the work, or one for each shard and a standby."""

import asyncio
import signal
import time

import attrs

from lbcf.core.model.shards import Shard, ending_shard, record_labels
from lbcf.core.model.values import ObjectKey
from tests.e2e.stage import Process
from tests.lab.shards.ground import Ground
from tests.lab.shards.meters import Load, load


_HELD = 2.0
"""Seconds for which a new standby has been waiting before its leader is killed."""


@attrs.define
class Replicas:
    """Those of one role.

    Attributes:
        ground: the cluster.
        role: controller or deregistrar.
        count: of shards; 1: there are none, and no standby.
    """

    ground: Ground
    role: str
    count: int
    _running: list[Process] = attrs.Factory(list)

    async def start(self) -> None:
        """Start all; returns when each shard is led."""
        for _ in range(self.count + 1 if self.count > 1 else 1):
            await self.add()
        await self.until_led()

    async def add(self) -> None:
        """Start one more."""
        stage, flags = self.ground.stage, ("--shards", str(self.count))
        process = await stage.start(self.role, *flags)
        name = f"{self.role}-{len(stage.processes)}"
        stage.processes[name] = stage.processes.pop(self.role)
        self._running.append(process)
        await stage.until_logged(process, "process.started")

    async def until_led(self) -> None:
        """Wait until each shard has a leader that has read everything."""

        async def all_led() -> bool:
            return len(self._leaders()) == self.count

        await self.ground.stage.until(f"each {self.role} works", all_led)

    def _leaders(self) -> dict[int, Process]:
        """Return who works, by shard."""
        found = {}
        for one in self._running:
            if one.runs and one.events("work.started"):
                taken = one.events("shard.taken")
                found[taken[-1]["shard"] if taken else 0] = one
        return found

    def loads(self) -> tuple[Load, ...]:
        """Return what each leader bears, in the order of the shards."""
        return tuple(load(one.pid) for _, one in sorted(self._leaders().items()))

    def standby(self) -> Load:
        """Return what the one bears that leads nothing."""
        leaders = self._leaders().values()
        return next(load(o.pid) for o in self._running if o.runs and o not in leaders)

    async def end(self) -> None:
        """End all."""
        await asyncio.gather(*(one.end() for one in self._running if one.runs))

    async def hand_over(self, shard: int) -> None:
        """End the leader of a shard as a rollout does; returns when another one works."""
        await self._leaders()[shard].end()
        await self.until_led()
        await self.add()

    async def kill(self, shard: int) -> float:
        """Kill the leader of a shard while an address of its goes.

        Returns:
            The seconds until the driver is first called for that.
        """
        await asyncio.sleep(_HELD)
        namespace, address = self._of_shard(shard)
        killed = time.time()
        await self._leaders()[shard].end(signal.SIGKILL)
        await self.ground.take_out(namespace, address)
        called = await self.ground.driver.heard_of(address)
        await self.until_led()
        await self.add()
        return called - killed

    def _of_shard(self, shard: int) -> tuple[str, str]:
        """Find an address that a shard of this role works on."""
        part = Shard(shard, self.count)
        for namespace, addresses in self.ground.addresses.items():
            for address in addresses:
                labels = record_labels(ObjectKey(namespace, ""), address)
                ends = ending_shard(labels, self.count) == shard
                if part.has_namespace(namespace) if self.role == "controller" else ends:
                    return namespace, address
        raise LookupError(f"no address is of shard {shard}")
