"""Several Leases: one for each candidate, and whoever has none waits for any of them."""

import asyncio

from collections.abc import Awaitable, Callable
from datetime import timedelta

import attrs

from lbcf.kube.client import KubeClient
from lbcf.kube.leader_election import LeaderElector
from lbcf.kube.shard_election import ShardElector
from lbcf.runtime.journal import Predecessor
from lbcf.runtime.process_identity import ProcessIdentity
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import TinyApi


COUNT = 2


@attrs.define
class Known:
    """Knows which processes have ended."""

    own: ProcessIdentity
    ended: set[int]

    def has_ended(self, other: ProcessIdentity) -> bool:
        """Say whether one has."""
        return other.pid in self.ended


@attrs.define
class Stage:
    """An API server, and candidates."""

    api: TinyApi = attrs.Factory(TinyApi)
    clock: VirtualClock = attrs.Factory(VirtualClock)
    led: dict[str, tuple[int, str]] = attrs.Factory(dict)
    ended: set[int] = attrs.Factory(set)

    def begin(self, name: str, pid: int = 0) -> "asyncio.Task[None]":
        """Start a candidate, which works until it is cancelled."""
        witness = Known(ProcessIdentity("boot", 0, pid, 0), self.ended) if pid else None
        electors = [
            LeaderElector(
                KubeClient(self.api),
                name=f"lbcf-{number}",
                namespace="shop",
                identity=f"host_{name}",
                clock=self.clock,
                exit_now=lambda _code: None,
                witness=witness,
                reads_later=True,
            )
            for number in range(COUNT)
        ]
        return asyncio.create_task(
            ShardElector(electors, self.clock).run(self._working(name))
        )

    def _working(
        self, name: str
    ) -> Callable[[int, Predecessor | None], Awaitable[None]]:
        async def work(number: int, predecessor: Predecessor | None) -> None:
            self.led[name] = number, predecessor.run if predecessor else ""
            try:
                await asyncio.Event().wait()
            finally:
                del self.led[name]

        return work

    async def passes(self, seconds: float) -> None:
        """Let time pass."""
        await self.clock.sleep(timedelta(seconds=seconds))


def test_each_candidate_leads_one_shard_and_the_last_waits_for_any() -> None:
    """However it ends, the shard that has nobody is taken."""

    async def play() -> None:
        stage = Stage()
        tasks = {name: stage.begin(name) for name in ("a", "b", "c")}
        await stage.passes(5)
        assert {0, 1} == {number for number, _ in stage.led.values()}

        ending = next(iter(stage.led))
        tasks[ending].cancel()
        await stage.passes(5)

        assert {*"abc"} - {ending} == set(stage.led)
        assert {0, 1} == {number for number, _ in stage.led.values()}
        for task in tasks.values():
            task.cancel()

    run_virtual(play())


def test_standby_inherits_the_name_of_a_leader_that_has_ended() -> None:
    """It reads only once it leads: whatever that one did, it did before."""

    async def play() -> None:
        stage = Stage()
        tasks = [stage.begin("a", 1), stage.begin("b", 2)]
        await stage.passes(2)
        standby = stage.begin("c", 3)
        await stage.passes(2)
        number, _ = stage.led["a"]

        stage.ended.add(1)
        await stage.passes(3)

        assert (number, "a") == stage.led["c"]
        for task in (*tasks, standby):
            task.cancel()
        await asyncio.gather(*tasks, standby, return_exceptions=True)

    run_virtual(play())
