"""A driver that is killed in the middle of batches, again and again.

The driver is a process; behind it is a real HAProxy, or what its own tests emulate. Each time
a batch is on its way to put members there, or to take them out, the process is killed; another
one takes its port, and the turns ask again. Afterwards exactly those are there that are to be,
with the objects that each needs, and all of other people's.
"""

import asyncio
import contextlib
import random
import tempfile

from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from pathlib import Path

import attrs

from lbcf import sdk
from lbcf.core.model.operations import Operation
from lbcf.runtime.clock import SystemClock
from tests.elbv2.clients import an_identity as group_identity
from tests.elbv2.clients import write_credentials
from tests.elbv2.emulator import OURS, Emulator
from tests.elbv2.state import DELAY, EmulatedGroup
from tests.f5.requests import WEB
from tests.f5.rig import F5Rig
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import NO_CHECK, an_identity
from tests.lab.batches.caller import Caller, Member, as_object, members
from tests.lab.cluster.ports import free_ports
from tests.netscaler.rig import AUTHORITY, NetscalerRig
from tests.webhooks.processes import started
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.f5.driver import F5Driver
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.netscaler.driver import NetscalerDriver


MEMBERS = 24
STRANGER = "198.18.99.1:80"
CHANGE = 0.1
"""Seconds that an emulated appliance takes for a change: many kills meet one."""
_PART = 0.5
"""Of the members that are there, those that a batch takes out."""


@attrs.frozen
class Victim:
    """A driver that is to be killed, and what is behind it.

    Attributes:
        module: what `python -m` starts.
        flags: of it, beside where it listens.
        kind: of the driver.
        lb_info: identity of the load balancer.
        of: the members.
        objects: how many objects a member has on the load balancer.
        there: how many of them there are, by the member's record.
        strangers: what there is of other people, to be compared.
        longest: seconds after the beginning of a batch at which it is killed at the latest.
        ended: is called when it has been killed.
    """

    module: str
    flags: Sequence[str]
    kind: type[sdk.Driver]
    lb_info: Mapping[str, str]
    of: Sequence[Member]
    objects: int
    there: Callable[[], Awaitable[Mapping[str, int]]]
    strangers: Callable[[], Awaitable[object]]
    longest: float
    ended: Callable[[], object] = str


@contextlib.asynccontextmanager
async def haproxy(_folder: Path) -> AsyncIterator[Victim]:
    """Run a real HAProxy; members without health checks, at which nobody listens."""
    async with Haproxy.running() as proxy:

        async def there() -> Mapping[str, int]:
            return Counter(name.removeprefix("lbcf-") for name in await proxy.ours())

        of = [
            Member(f"00000000-0000-4000-8000-{n:012}", f"127.0.1.{n + 1}:80", NO_CHECK)
            for n in range(MEMBERS)
        ]
        flags = ("--allow-sockets", proxy.socket, "--allow-addresses", "127.0.0.0/8")
        yield Victim(
            *("webhooks.haproxy", flags, HaproxyDriver, an_identity(proxy), of),
            *(1, there, proxy.foreign, 0.08),
        )


@contextlib.asynccontextmanager
async def elbv2(folder: Path) -> AsyncIterator[Victim]:
    """Emulate ELBv2; the driver writes into a file which targets are its own."""
    clock, of = SystemClock(), members(MEMBERS)
    async with Emulator.running(clock) as emulator:
        group = emulator.add(EmulatedGroup(clock))
        group.attributes[DELAY] = "0"
        host, _, port = STRANGER.rpartition(":")
        emulator.register(group, (host, int(port)))
        write_credentials(folder, OURS, emulator.keys[OURS].secret)

        async def there() -> Mapping[str, int]:
            ours = [key for key, owner in group.owners.items() if owner == OURS]
            return _records(of, [host for host, _ in ours])

        async def strangers() -> object:
            return {key for key, owner in group.owners.items() if owner != OURS}

        flags = (
            *("--endpoint-url", emulator.url, "--credentials-dir", str(folder)),
            *("--claims-file", str(folder / "claims")),
        )
        yield Victim(
            *("webhooks.elbv2", flags, Elbv2Driver, group_identity(group), of),
            *(1, there, strangers, 0.2),
        )


@contextlib.asynccontextmanager
async def f5(folder: Path) -> AsyncIterator[Victim]:
    """Emulate a BIG-IP on which a change takes its time; a member has a node."""
    of = members(MEMBERS)
    async with F5Rig.running(folder) as rig:
        await rig.occupy(STRANGER)
        rig.bigip.faults.slow_changes = CHANGE

        async def there() -> Mapping[str, int]:
            names = [one.rpartition("/")[2] for one in await rig.left()]
            return _records(of, [one.partition(":")[0] for one in names])

        flags = ("--allow-devices", rig.bigip.url, "--credentials", str(folder))
        yield Victim(
            *("webhooks.f5", flags, F5Driver, rig.lb_info, of),
            *(2, there, rig.strangers, 0.8),
            # A unit keeps a hundred for twenty minutes.
            ended=rig.end_sessions,
        )
        assert WEB in rig.bigip.unit.running.pools


@contextlib.asynccontextmanager
async def netscaler(folder: Path) -> AsyncIterator[Victim]:
    """Emulate a Citrix ADC on which a change takes its time; a member has a server."""
    of, authority = members(MEMBERS), folder / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(str(authority))
    async with NetscalerRig.running(folder) as rig:
        await rig.occupy(STRANGER)
        rig.site.nitro.slow_changes = CHANGE

        async def there() -> Mapping[str, int]:
            running = rig.site.unit.running
            ours = [
                one.server
                for one in running.members.values()
                if one.customserverid.startswith("lbcf-")
            ]
            servers = [s for n, s in running.servers.items() if "lbcf" in s.comment]
            at = {name: server.ipaddress for name, server in running.servers.items()}
            hosts = [one.ipaddress for one in servers] + [at[name] for name in ours]
            return _records(of, hosts)

        flags = (
            *("--allow-devices", rig.lb_info["devices"], "--credentials", str(folder)),
            *("--device-ca-file", str(authority), "--save-period", "1"),
        )
        yield Victim(
            *("webhooks.netscaler", flags, NetscalerDriver, rig.lb_info, of),
            *(2, there, rig.strangers, 0.6),
            ended=rig.end_sessions,
        )


VICTIMS = {"haproxy": haproxy, "elbv2": elbv2, "f5": f5, "netscaler": netscaler}


def _records(of: Sequence[Member], hosts: Collection[str]) -> Mapping[str, int]:
    """Return how many objects there are of each record; those of no member, too."""
    records = {one.address.partition(":")[0]: one.record for one in of}
    return Counter(records.get(host, host) for host in hosts)


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
    """A driver's process, and what is to be behind it.

    Attributes:
        victim: the driver.
        chance: when to kill, and whom to take out.
        port: where it listens.
        stay: records whose members are to be there.
        inside: kills that met calls under way.
    """

    victim: Victim
    chance: random.Random
    port: int
    stay: set[str] = attrs.field(factory=set)
    inside: int = 0
    _child: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the driver."""
        flags = ("--bind-address", f"127.0.0.1:{self.port}", *self.victim.flags)
        self._child = await started(self.victim.module, *flags)

    async def serves(self) -> None:
        """Wait until it says where it listens."""
        assert self._child is not None
        assert self._child.stderr is not None
        while b"addresses" not in (line := await self._child.stderr.readline()):
            assert line, f"{self.victim.module} has ended"

    async def stop(self) -> None:
        """Kill it."""
        assert self._child is not None
        self._child.kill()
        await self._child.wait()
        self.victim.ended()

    async def once(self, caller: Caller) -> list[str]:
        """Kill it in the middle of a batch; say what is not as it should be at the end."""
        of = self.victim.of
        comes = len(self.stay) < len(of)
        some = [one for one in of if comes or self.chance.random() < _PART]
        operation = Operation.ENSURE_BACKEND if comes else Operation.DEREGISTER_BACKEND
        await self.serves()
        batch = asyncio.create_task(caller.all(operation, some))
        await asyncio.sleep(self.chance.random() * self.victim.longest)
        self.inside += not batch.done()
        await self.stop()
        await self.start()
        await batch
        names = {one.record for one in some}
        self.stay = self.stay | names if comes else self.stay - names
        found = await self.victim.there()
        wrong = [
            f"lost {one}"
            for one in sorted(self.stay)
            if found.get(one, 0) != self.victim.objects
        ]
        return wrong + [f"left {one}" for one in sorted(found.keys() - self.stay)]


async def killed(name: str, kills: int, seed: int = 1) -> Toll:
    """Kill a driver so often; say what was lost, leaked or wrongly taken out."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        async with VICTIMS[name](Path(folder)) as victim:
            killer = Killer(victim, random.Random(seed), port)  # noqa: S311 - repeatable
            kind = as_object(victim.kind, f"http://127.0.0.1:{port}", batched=True)
            before, wrong = await victim.strangers(), list[str]()
            await killer.start()
            try:
                async with Caller.of(kind, victim.lb_info) as caller:
                    for number in range(kills):
                        found = await killer.once(caller)
                        wrong += [f"kill {number}: {one}" for one in found]
                if before != await victim.strangers():
                    wrong.append("what is of other people has changed")
            finally:
                await killer.stop()
    return Toll(kills, killer.inside, wrong)
