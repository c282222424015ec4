"""What is up while the demo runs, and what is known about it, in one place.

`run` makes it from the pieces of `stack` and hands it from act to act.
"""

import asyncio
import contextlib

import attrs

from tests.lab.demo import manifests
from tests.lab.demo.census import Census
from tests.lab.demo.children import Supervised
from tests.lab.demo.errors import DemoError
from tests.lab.demo.ground import Ground
from tests.lab.demo.journal import Journal
from tests.lab.demo.options import Options
from tests.lab.demo.proxy import Member, Proxy, Snapshot
from tests.lab.demo.screen import Screen, View
from tests.lab.demo.sigterms import Sigterms
from tests.lab.demo.traffic import Figures, Traffic, outside_gaps


INTERVAL = 0.5


@attrs.define
class Stage:
    """Everything that is up, and what is known about it.

    Attributes:
        ground: the cluster.
        options: what was asked for.
        screen: shows it.
        journal: what was done.
        place: names and addresses in the cluster.
        census: pods and records.
        proxy: the load balancer.
        programs: ours, by role.
        members: the load balancer's members as last seen.
        traffic: the load generator, once it runs.
        sigterms: told by the pods, where they reach us.
    """

    ground: Ground
    options: Options
    screen: Screen
    journal: Journal
    place: manifests.Place
    census: Census
    proxy: Proxy
    programs: dict[str, Supervised]
    members: tuple[Member, ...] = ()
    traffic: Traffic | None = None
    sigterms: Sigterms | None = None

    async def refresh(self) -> None:
        """Look and show until cancelled."""
        while True:
            with contextlib.suppress(DemoError):  # a reload may be going on
                await self.look()
            self.screen.show(self.view())
            await asyncio.sleep(INTERVAL)

    async def look(self) -> Snapshot:
        """Look at the load balancer's members.

        Raises:
            DemoError: it does not answer.
        """
        snapshot = await self.proxy.look()
        self.members = snapshot.members
        return snapshot

    async def serving(self) -> int:
        """How many members get traffic just now.

        Raises:
            DemoError: it does not answer.
        """
        return (await self.look()).serving

    def running_traffic(self) -> Traffic:
        """The load generator.

        Raises:
            DemoError: it was not started yet.
        """
        if self.traffic is None:
            raise DemoError("no traffic yet")
        return self.traffic

    def view(self) -> View:
        """What is to be shown now."""
        failures = self.traffic.failures if self.traffic else []
        return View(
            figures=self.traffic.figures if self.traffic else Figures(),
            excused=len(failures) - len(outside_gaps(failures, self.journal)),
            census=self.census,
            members=self.members,
            journal=self.journal,
        )
