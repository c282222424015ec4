"""`python -m tests.lab.batches`: members registered and taken out, with batches and without."""

import argparse
import asyncio
import contextlib
import tempfile

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import attrs

from lbcf import sdk
from lbcf.core.model.operations import Operation
from lbcf.runtime.clock import SystemClock
from tests.elbv2.clients import an_identity, write_credentials
from tests.elbv2.emulator import OURS, Emulator
from tests.elbv2.state import DELAY, EmulatedGroup
from tests.haproxy.conftest import ANYWHERE, HERE
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import NO_CHECK
from tests.haproxy.requests import an_identity as proxy_identity
from tests.lab.batches.caller import Caller, Member, as_object, members
from tests.lab.batches.kills import killed
from tests.lab.batches.poison import MEMBERS, slowest
from tests.sdk.services import serving
from webhooks.elbv2 import changes
from webhooks.elbv2.balancer import LoadBalancers as TargetGroups
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.elbv2.regions import Aws, Settings
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.load_balancers import LoadBalancers


@attrs.frozen
class Scene:
    """A driver, and what is behind it.

    Attributes:
        driver: as it ships.
        lb_info: identity of the load balancer.
        of: the members.
        behind: how many calls the load balancer has had, by what they are about.
    """

    driver: sdk.Driver
    lb_info: Mapping[str, str]
    of: Sequence[Member]
    behind: Callable[[], Mapping[str, int]]


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

            yield Scene(driver, an_identity(group), members(number), behind)
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
    """Run a real HAProxy; members without health checks, at which nobody listens."""
    async with Haproxy.running() as proxy:
        driver = HaproxyDriver(LoadBalancers(ANYWHERE, addresses=HERE))
        of = [
            Member(
                f"00000000-0000-4000-8000-{n:012}",
                f"127.0.{2 + n // 250}.{n % 250 + 1}:80",
                NO_CHECK,
            )
            for n in range(number)
        ]
        yield Scene(driver, proxy_identity(proxy), of, dict)
        await driver.stop()


STAGES: Mapping[str, tuple[Stage, int]] = {
    "elbv2": (elbv2, 1000),
    "haproxy": (haproxy, 500),
    "elbv2-one-by-one": (elbv2_ungathered, 1000),
}
"""By name: what is measured, and on how many members."""


async def measure(name: str, stage: Stage, number: int, *, batched: bool) -> None:
    """Register members and take them out; print how long that takes."""
    async with stage(number) as scene:
        service = sdk.Service(scene.driver)
        async with serving(service) as url:
            kind = as_object(scene.driver, url, batched=batched)
            async with Caller.of(kind, scene.lb_info) as caller:
                registered = await caller.all(Operation.ENSURE_BACKEND, scene.of)
                calls = caller.calls()
                ended = await caller.all(Operation.DEREGISTER_BACKEND, scene.of)
                last = caller.calls() - calls
        way = "in batches" if batched else "singly"
        print(
            f"{name}, {number} members {way}: registered in {registered.seconds:.1f} s "
            f"by {calls} calls of the driver, taken out in {ended.seconds:.1f} s by {last}; "
            f"failed attempts {len(registered.failures)} + {len(ended.failures)}; "
            f"behind it {dict(scene.behind())}",
            flush=True,
        )


async def main(argv: Sequence[str] | None = None) -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.batches", description=__doc__
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(STAGES)}")
    parser.add_argument(
        "--kills", type=int, help="kill the driver for HAProxy so often, instead"
    )
    parser.add_argument(
        "--poison",
        action="store_true",
        help="have the driver hang with one member of 200, instead",
    )
    parser.add_argument("--members", type=int, help="in place of the usual number")
    chosen = parser.parse_args(argv)
    if chosen.poison:
        well, poisoned = await slowest(""), await slowest("record-7")
        print(f"{MEMBERS} members: the last healthy one after {well:.2f} s")
        print(f"with one on which the driver hangs: after {poisoned:.2f} s")
        return
    if chosen.kills:
        async with Haproxy.running() as proxy:
            print(await killed(proxy, chosen.kills))
        return
    for name, (stage, usual) in STAGES.items():
        if name not in chosen.names and (chosen.names or name.endswith("one-by-one")):
            continue
        number = chosen.members or usual
        for batched in (True, False):
            if batched and name.endswith("one-by-one"):
                continue
            await measure(name, stage, number, batched=batched)


if __name__ == "__main__":
    asyncio.run(main())
