"""What users and machines do all day, only more of it: one thing after the other.

Rollouts, pods replaced on the spot, pods that flap, other parameters, more and fewer
pods, and now and then a reload of HAProxy.
"""

import asyncio
import random
import time

from collections.abc import Awaitable, Callable

import attrs

from tests.lab.demo.errors import DemoError
from tests.lab.demo.journal import Journal, Span
from tests.lab.demo.proxy import Proxy
from tests.lab.demo.script import reload
from tests.lab.soak.audit import Auditor
from tests.lab.soak.kills import Killer
from tests.lab.soak.pods import Pod, Pods


STEADY = 6
BATCH = 3
GRACE = (15.0, 20.0)
"""Seconds that a pod's server runs on; all of its load balancing must be undone by
then, whoever is killed meanwhile."""
REGISTRATION = 60.0
BACK = 60.0
RELOAD_EVERY = 40.0
LOOK = 0.2


@attrs.define(eq=False)
class Turmoil:
    """Makes it.

    Attributes:
        journal: told of each deed; counts them.
        slowest: seconds from a pod's creation to its registration, at most.
    """

    pods: Pods
    auditor: Auditor
    killer: Killer
    proxy: Proxy
    journal: Journal
    chance: random.Random
    slowest: float = 0.0
    reloaded: float = attrs.field(factory=time.monotonic)

    async def run(self, seconds: float) -> None:
        """Go on for so long; what fails is a trouble."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            kind, deed = self._choose()
            try:
                with self.journal.step(kind, kind):
                    await deed()
            except DemoError as error:
                self.journal.trouble(f"{kind}: {error}")
            await asyncio.sleep(self.chance.uniform(0.2, 1.0))

    def _choose(self) -> tuple[str, Callable[[], Awaitable[None]]]:
        """Say what comes next."""
        if time.monotonic() > self.reloaded + RELOAD_EVERY:
            return "reload", self.reload
        return self.chance.choice(
            (
                ("rollout", self.roll_out),
                ("rollout", self.roll_out),
                ("replaced on the spot", self.replace),
                ("replaced on the spot", self.replace),
                ("flap", self.flap),
                ("parameters", self.change_parameters),
                ("scaling", self.scale),
            )
        )

    async def begin(self) -> None:
        """Start the first pods, and wait for them."""
        await self._registered([await self.pods.add() for _ in range(STEADY)])

    async def roll_out(self) -> None:
        """Replace some pods: new ones first."""
        old = self.chance.sample(self.pods.living, BATCH)
        await self._registered([await self.pods.add() for _ in old])
        for pod in old:
            await self.pods.delete(pod, self._grace())

    async def replace(self) -> None:
        """Replace a pod; the new one has its address at once."""
        pod = self.chance.choice(self.pods.living)
        new = await self.pods.replace_in_place(pod, self._grace())
        await self._registered([new])

    async def flap(self) -> None:
        """Let a pod be unready for a moment."""
        pod = self.chance.choice(self.pods.living)
        await self.pods.set_ready(pod, ready=False)
        await asyncio.sleep(self.chance.uniform(0.1, 1.5))
        await self.pods.set_ready(pod, ready=True)
        await self._registered([pod])

    async def change_parameters(self) -> None:
        """Give all members another weight."""
        weight = str(self.chance.randint(1, 256))
        parameters = {"check": "false", "weight": weight}
        await self.pods.set_parameters("web", parameters)

    async def scale(self) -> None:
        """Add some pods, and take others away."""
        await self._registered([await self.pods.add() for _ in range(2)])
        for pod in self.chance.sample(self.pods.living, 2):
            await self.pods.delete(pod, self._grace())

    async def reload(self) -> None:
        """Reload HAProxy, and wait until every member is back.

        Raises:
            DemoError: one is not.
        """
        self.killer.paused = self.auditor.blind = True
        try:
            gap = await reload(self.proxy)
            # `reload` takes the begin of the look that first showed a member. On a
            # busy machine a look takes 30 ms, and the member came within it.
            self.journal.gaps.append(Span(gap.name, gap.begin, time.monotonic()))
            end = time.monotonic() + BACK
            while missing := await self.auditor.look():
                if time.monotonic() > end:
                    raise DemoError(f"not back after {BACK:.0f} s: {missing}")
                await asyncio.sleep(LOOK)
        finally:
            self.reloaded = time.monotonic()
            self.killer.paused = self.auditor.blind = False

    def _grace(self) -> float:
        """Choose how long a pod takes to end."""
        return self.chance.uniform(*GRACE)

    async def _registered(self, pods: list[Pod]) -> None:
        """Wait until pods are registered.

        Raises:
            DemoError: they are not in time.
        """
        began = time.monotonic()
        names = {pod.address for pod in pods}
        while names - await self._registered_addresses():
            if time.monotonic() > began + REGISTRATION:
                raise DemoError(f"not registered after {REGISTRATION:.0f} s: {names}")
            await asyncio.sleep(LOOK)
        self.slowest = max(self.slowest, time.monotonic() - began)

    async def _registered_addresses(self) -> set[str]:
        """Addresses of the records that are registered, and to stay."""
        records = (await self.pods.records()).values()
        return {r.address for r in records if r.registered and not r.deleting}
