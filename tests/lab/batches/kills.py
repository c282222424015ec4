"""A driver that is killed in the middle of batches, again and again.

The driver for HAProxy is a process, HAProxy a real one. Each time a batch is on its way to
put members there, or to take them out, the process is killed; another one takes its port, and
the turns ask again. Afterwards exactly those are there that are to be, and all of other people's.
"""

import asyncio
import random

from collections.abc import Sequence

import attrs

from lbcf.core.model.operations import Operation
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import NO_CHECK, an_identity
from tests.lab.batches.caller import Caller, Member, as_object
from tests.lab.cluster.ports import free_ports
from tests.webhooks.processes import started
from webhooks.haproxy.driver import HaproxyDriver


MEMBERS = 24
LONGEST = 0.08
"""Seconds after the beginning of a batch at which the driver is killed at the latest."""
_PART = 0.5
"""Of the members that are there, those that a batch takes out."""


@attrs.frozen
class Toll:
    """What came of the kills.

    Attributes:
        kills: how many there were.
        inside: those of them that met calls under way.
        wrong: what was not as it should be after one.
    """

    kills: int
    inside: int
    wrong: Sequence[str]


@attrs.define(eq=False)
class Killer:
    """A driver's process, and what is to be at its HAProxy.

    Attributes:
        proxy: the HAProxy.
        chance: when to kill, and whom to take out.
        stay: records whose members are to be there.
        inside: kills that met calls under way.
    """

    proxy: Haproxy
    chance: random.Random
    port: int
    stay: set[str] = attrs.field(factory=set)
    inside: int = 0
    _child: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the driver, and wait until it says where it listens."""
        flags = ("--bind-address", f"127.0.0.1:{self.port}", *_flags(self.proxy))
        self._child = await started("webhooks.haproxy", *flags)

    async def serves(self) -> None:
        """Wait until it says where it listens."""
        assert self._child is not None
        assert self._child.stderr is not None
        await self._child.stderr.readline()

    async def stop(self) -> None:
        """Kill it."""
        assert self._child is not None
        self._child.kill()
        await self._child.wait()

    async def once(self, caller: Caller, of: Sequence[Member]) -> list[str]:
        """Kill it in the middle of a batch; say what is not as it should be at the end."""
        comes = len(self.stay) < len(of)
        some = [one for one in of if comes or self.chance.random() < _PART]
        operation = Operation.ENSURE_BACKEND if comes else Operation.DEREGISTER_BACKEND
        await self.serves()
        batch = asyncio.create_task(caller.all(operation, some))
        await asyncio.sleep(self.chance.random() * LONGEST)
        self.inside += not batch.done()
        await self.stop()
        await self.start()
        await batch
        names = {one.record for one in some}
        self.stay = self.stay | names if comes else self.stay - names
        found = {name.removeprefix("lbcf-") for name in await self.proxy.ours()}
        wrong = [f"lost {one}" for one in sorted(self.stay - found)]
        return wrong + [f"left {one}" for one in sorted(found - self.stay)]


async def killed(proxy: Haproxy, kills: int, seed: int = 1) -> Toll:
    """Kill the driver so often; say what was lost, leaked or wrongly taken out."""
    (port,) = free_ports(1)
    killer = Killer(proxy, random.Random(seed), port)  # noqa: S311 - repeatable
    of = [
        Member(f"00000000-0000-4000-8000-{n:012}", f"127.0.1.{n + 1}:80", NO_CHECK)
        for n in range(MEMBERS)
    ]
    kind = as_object(HaproxyDriver, f"http://127.0.0.1:{port}", batched=True)
    before, wrong = await proxy.foreign(), list[str]()
    await killer.start()
    try:
        async with Caller.of(kind, an_identity(proxy)) as caller:
            for number in range(kills):
                found = await killer.once(caller, of)
                wrong += [f"kill {number}: {one}" for one in found]
        if before != await proxy.foreign():
            wrong.append("servers of other people have changed")
    finally:
        await killer.stop()
    return Toll(kills, killer.inside, wrong)


def _flags(proxy: Haproxy) -> Sequence[str]:
    return (
        *("--allow-sockets", proxy.socket),
        *("--allow-addresses", "127.0.0.0/8"),
    )
