"""The drivers that are measured, each before what it changes in its own tests."""

import contextlib
import tempfile

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import attrs
import trustme

from lbcf import sdk
from lbcf.runtime.clock import SystemClock
from tests.elbv2.clients import an_identity, write_credentials
from tests.elbv2.emulator import OURS, Emulator
from tests.elbv2.state import DELAY, EmulatedGroup
from tests.envoy.stage import Stage as EnvoyStage
from tests.f5.requests import an_identity as unit_identity
from tests.f5.rig import write_login
from tests.f5.server import a_bigip
from tests.haproxy.conftest import ANYWHERE, HERE
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import NO_CHECK
from tests.haproxy.requests import an_identity as proxy_identity
from tests.lab.batches.caller import Member, members
from tests.lab.batches.traffic import Traffic, told
from tests.netscaler.appliances import a_site
from webhooks.device.devices import AllowedDevices
from webhooks.device.flags import Ground
from webhooks.device.secrets import Secrets
from webhooks.device.trust import read_trust
from webhooks.elbv2 import changes
from webhooks.elbv2.balancer import LoadBalancers as TargetGroups
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.elbv2.regions import Aws, Settings
from webhooks.f5.driver import F5Driver
from webhooks.f5.load_balancers import LoadBalancers as Pools
from webhooks.f5.units import Units, connect
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.load_balancers import LoadBalancers


CHANGE = 0.15
"""Seconds that an appliance takes for a change: one by itself, a commit, a bulk request."""

QUIET = 8.0
"""Seconds of traffic beside which nothing goes on."""


@attrs.define
class Pace:
    """How slow appliances are.

    Attributes:
        item: seconds that each change takes in a transaction, or in a bulk request, beside
            `CHANGE` for all of it. No vendor says how long that is.
    """

    item: float = 0.005


PACE = Pace()


Poison = Callable[[Member], Awaitable[Member]]
"""Has a member refused that is to come; returns what to register in its place."""


@attrs.frozen
class Scene:
    """A driver, and what is behind it.

    Attributes:
        driver: as it ships.
        lb_info: identity of the load balancer.
        of: the members.
        behind: how many calls the load balancer has had, by what they are about.
        phase: is told what is done from now on.
        poisons: ways to have one member refused, by what happens to it.
    """

    driver: sdk.Driver
    lb_info: Mapping[str, str]
    of: Sequence[Member]
    behind: Callable[[], Mapping[str, int]] = dict
    phase: Callable[[str], object] = str
    poisons: Mapping[str, Poison] = attrs.field(factory=dict)


Stage = Callable[[int], contextlib.AbstractAsyncContextManager[Scene]]


@contextlib.asynccontextmanager
async def elbv2(number: int) -> AsyncIterator[Scene]:
    """Emulate ELBv2 that throttles as AWS says: 4 changing calls a second, 20 at once."""
    clock = SystemClock()
    with tempfile.TemporaryDirectory() as folder:
        async with Emulator.running(clock) as emulator:
            emulator.throttles = True
            group = emulator.add(EmulatedGroup(clock, quota=max(1000, number)))
            group.attributes[DELAY] = "0"
            write_credentials(Path(folder), OURS, emulator.keys[OURS].secret)
            settings = Settings(endpoint_url=emulator.url, credentials=Path(folder))
            driver = Elbv2Driver(TargetGroups(Aws(settings, clock)))

            def behind() -> Mapping[str, int]:
                made = ("RegisterTargets", "DeregisterTargets", "DescribeTargetHealth")
                counted = {
                    one: sum(call.action == one for call in emulator.calls)
                    for one in made
                }
                return counted | {"throttled": emulator.throttled}

            async def outside(member: Member) -> Member:
                return attrs.evolve(member, address="203.0.113.7:80")

            yield Scene(
                driver,
                an_identity(group),
                members(number),
                behind,
                poisons={"AWS refuses the call that it is in": outside},
            )
            await driver.stop()


@contextlib.asynccontextmanager
async def elbv2_ungathered(number: int) -> AsyncIterator[Scene]:
    """The same with a driver that makes a call of AWS for each member."""
    usual, changes.MOST_TARGETS = changes.MOST_TARGETS, 1
    try:
        async with elbv2(number) as scene:
            yield scene
    finally:
        changes.MOST_TARGETS = usual


@contextlib.asynccontextmanager
async def haproxy(number: int) -> AsyncIterator[Scene]:
    """Run a real HAProxy; members without health checks, at which nobody listens.

    Beside it requests go through another backend of the same HAProxy.
    """
    async with Haproxy.running() as proxy, Traffic.running() as traffic:
        driver = HaproxyDriver(LoadBalancers(ANYWHERE, addresses=HERE))
        await driver.ensure_backend(
            sdk.EnsureBackendRequest(
                record_id="00000000-0000-4000-9000-000000000000",
                lb_info=proxy_identity(proxy, backend="cookies"),
                backend_addr=traffic.address,
                parameters=NO_CHECK,
            )
        )
        traffic.say(f"http://127.0.0.1:{proxy.ports['cookies']}/")
        traffic.say("nothing beside it")
        await SystemClock().sleep(timedelta(seconds=QUIET))
        of = [
            Member(
                f"00000000-0000-4000-8000-{n:012}",
                f"127.0.{2 + n // 250}.{n % 250 + 1}:80",
                NO_CHECK,
            )
            for n in range(number)
        ]

        async def taken(member: Member) -> Member:
            await proxy.ask(f"add server web/lbcf-{member.record} 127.0.1.1:1")
            return member

        yield Scene(
            driver,
            proxy_identity(proxy),
            of,
            phase=traffic.say,
            poisons={"its name has another address": taken},
        )
        print(f"  requests through that HAProxy: {told(await traffic.end())}")
        await driver.stop()


@contextlib.asynccontextmanager
async def f5(number: int) -> AsyncIterator[Scene]:
    """Emulate a BIG-IP on which a change takes its time."""
    clock = SystemClock()
    with tempfile.TemporaryDirectory() as folder:
        write_login(Path(folder))
        async with a_bigip() as bigip:
            bigip.faults.slow_changes = CHANGE
            bigip.faults.slow_commands = PACE.item
            ground = Ground(
                allowed=AllowedDevices(("http://127.0.0.1:*",)),
                secrets=Secrets(Path(folder)),
                tls=read_trust(insecure=True),
            )
            units = Units(lambda device: connect(device, ground, clock))
            driver = F5Driver(Pools(ground.allowed, units, clock), clock)

            def behind() -> Mapping[str, int]:
                commits = [
                    one for one in bigip.seen if one.startswith("PATCH /mgmt/tm/tr")
                ]
                return {"requests": len(bigip.seen), "commits": len(commits)}

            of = members(number)

            def spoilt(said: str) -> Poison:
                async def spoil(member: Member) -> Member:
                    host = member.address.partition(":")[0]
                    bigip.unit.spoilt[host] = said.format(host)
                    return member

                return spoil

            poisons = {
                "the refusal names it": spoilt(
                    "01070704:3: Pool member /Common/{} 80 cannot be used here."
                ),
                "the refusal names nobody": spoilt("01070734:3: Configuration error."),
            }
            yield Scene(driver, unit_identity(bigip), of, behind, poisons=poisons)
            await driver.stop()


@contextlib.asynccontextmanager
async def netscaler(number: int) -> AsyncIterator[Scene]:
    """Emulate a Citrix ADC on which a changing request takes its time."""
    with tempfile.TemporaryDirectory() as folder:
        async with a_site(Path(folder), trustme.CA()) as site:
            site.nitro.slow_changes = CHANGE
            site.nitro.slow_items = PACE.item
            driver = site.driver()

            def behind() -> Mapping[str, int]:
                nitro = site.nitro
                changing = len(nitro.changes())
                return {"requests": len(nitro.heard), "changing": changing}

            async def spoil(member: Member) -> Member:
                host = member.address.partition(":")[0]
                site.unit.spoilt[host] = "Argument cannot be used [serverName]"
                return member

            yield Scene(
                driver,
                site.lb_info,
                members(number),
                behind,
                poisons={"its item of the bulk request is refused": spoil},
            )
            await driver.stop()


@contextlib.asynccontextmanager
async def envoy(number: int) -> AsyncIterator[Scene]:
    """Run a real Envoy; members at which nobody listens."""
    with tempfile.TemporaryDirectory() as folder:
        async with EnvoyStage.running(Path(folder)) as stage:
            driver = await stage.driver()
            await stage.envoy()
            await driver.create_load_balancer(stage.create())
            of = [
                Member(f"record-{n}", f"127.0.{2 + n // 250}.{n % 250 + 1}:80")
                for n in range(number)
            ]

            async def unknown(member: Member) -> Member:
                return attrs.evolve(member, parameters={"nonsense": "1"})

            yield Scene(
                driver, stage.lb_info, of, poisons={"the driver refuses it": unknown}
            )


STAGES: Mapping[str, tuple[Stage, int]] = {
    "elbv2": (elbv2, 1000),
    "haproxy": (haproxy, 500),
    "envoy": (envoy, 500),
    "f5": (f5, 500),
    "netscaler": (netscaler, 500),
    "elbv2-one-by-one": (elbv2_ungathered, 1000),
}
"""By name: what is measured, and on how many members."""

LONG = {"f5", "netscaler", "elbv2-one-by-one"}
"""Those that take minutes, and are measured only where they are named."""
