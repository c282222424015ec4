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


_READ = 0.005
"""Seconds more that are waited for each record there is; many times what a list of them takes."""
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
        """Start all; returns when each shard is led.

        One after another: where all read everything at once, an API server that shares two
        processors with them answers no renewal of a Lease in time.
        """
        for number in range(1, self.count + 1):
            await self.add()
            await self.until_led(number)
        if self.count > 1:
            await self.add()

    async def add(self) -> None:
        """Start one more."""
        stage, flags = self.ground.stage, ("--shards", str(self.count))
        process = await stage.start(self.role, *flags)
        name = f"{self.role}-{len(stage.processes)}"
        stage.processes[name] = stage.processes.pop(self.role)
        self._running.append(process)
        await stage.until_logged(process, "process.started")

    async def until_led(self, count: int | None = None) -> None:
        """Wait until each shard, or so many, have a leader that has read everything."""
        wanted = self.count if count is None else count

        async def are_led() -> bool:
            return len(self._leaders()) == wanted

        read = self.ground.count * _READ
        told = f"{wanted} of the {self.role} work"
        await self.ground.stage.until(told, are_led, read)

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
        group, address = self._of_shard(shard)
        killed = time.time()
        await self._leaders()[shard].end(signal.SIGKILL)
        await self.ground.take_out(group, address)
        called = await self.ground.driver.heard_of(address)
        await self.until_led()
        await self.add()
        return called - killed

    def _of_shard(self, shard: int) -> tuple[ObjectKey, str]:
        """Find an address that a shard of this role works on, and its group."""
        part = Shard(shard, self.count)
        for group, addresses in self.ground.groups.items():
            for address in addresses:
                labels = record_labels(group, address)
                ends = ending_shard(labels, self.count) == shard
                has = part.has_namespace(group.namespace)
                if has if self.role == "controller" else ends:
                    return group, address
        raise LookupError(f"no address is of shard {shard}")
