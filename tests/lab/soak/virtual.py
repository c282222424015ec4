"""The same crowd of pods as in `served`, in virtual time: both processes as they ship.

Two minutes of it take some twenty seconds, and the same seed has the same run: what a
change of the protocol is worth shows by five seeds. The machine has no part in the
figure: a process that is killed works again after what that took in real runs.
"""

import asyncio
import random

from pathlib import Path

from lbcf.core.model.operations import Operation
from lbcf.core.model.values import AddressSource, MemberKey
from lbcf.wire.driver_requests import EnsureBackendRequest
from tests.lab.faults.history import Effect
from tests.lab.soak.run import Result
from tests.lab.soak.served import (
    KILLS_APART,
    PART,
    REST,
    Crowd,
    differences,
    result_of,
    write_absences,
)
from tests.lab.soak.unsteady import LATE, TIMEOUT
from tests.lab.sweep import run
from tests.lab.sweep.balancer import AnyMember, Member
from tests.lab.sweep.faults import Io, Kind
from tests.lab.sweep.loop import BusyLoop
from tests.lab.sweep.objects import Setting
from tests.lab.sweep.process import Process
from tests.lab.sweep.world import Step, World


AWAY = 1.2
"""Seconds from a kill to the first work in its place (`make failover`: p99 1.1 to 1.4)."""
_SETTING = Setting(
    MemberKey.ADDRESS,
    AddressSource.BACKEND,
    drains=True,
    elect=True,
    late_effect=1,
    drain_timeout=int(TIMEOUT),
    timeout=int(TIMEOUT),
    workers=64,
)
_WAYS = ("fail", "running", "timeout-late", "timeout-now")
_UNSTEADY = (Operation.ENSURE_BACKEND.value, Operation.DEREGISTER_BACKEND.value)


class UnsteadyWorld(World):
    """One in which calls fail by chance, each in one of four ways.

    Attributes:
        part: of the calls, for each way.
        effects: what was done to members.
        kills: how many processes were killed.
    """

    def __init__(self, chance: random.Random) -> None:
        self.part = 0.0
        self.effects: list[Effect] = []
        self.kills = 0
        self._chance = chance
        super().__init__(_SETTING, {})
        self.balancer.on_change = self._note

    def count(self, process: Process, io: Io) -> str | None:
        """Say how a step goes; there may be any number of them."""
        number = len(self.steps) + 1
        mode = self._drawn() if io.what.startswith(_UNSTEADY) else None
        self.steps.append(
            Step(number, process.name, io.kind, io.what, self.second(), mode)
        )
        return mode

    def lateness(self, io: Io) -> float:
        """Return the seconds after which an effect comes that is late."""
        is_call = io.kind is Kind.CALL
        return self._chance.uniform(*LATE) if is_call else super().lateness(io)

    def crash(self, process: Process, *, is_old: bool = False) -> None:
        """Kill a process; it is started in its place."""
        del is_old
        if process.is_alive:
            process.kill()
            self.later(AWAY, self._restart, process)

    async def kill_now_and_then(self) -> None:
        """Kill one of the processes every few seconds."""
        while True:
            await asyncio.sleep(KILLS_APART)
            self.kills += 1
            self.crash_any(
                self._chance.choice(("controller", "deregistrar")), is_old=False
            )

    @property
    def members(self) -> set[str]:
        """Return the addresses that are in."""
        return {member.address for member in self.balancer.members.values()}

    def _drawn(self) -> str | None:
        """Draw how a call goes."""
        draw = self._chance.random() / self.part if self.part else len(_WAYS)
        return _WAYS[int(draw)] if draw < len(_WAYS) else None

    def _note(self, call: AnyMember, before: Member | None) -> None:
        ensured = isinstance(call, EnsureBackendRequest)
        was = "" if before is None else before.record_id
        self.effects.append(
            Effect(self.second(), ensured, call.backend_addr, call.record_id, was)
        )


class _Pods:
    """Those of the virtual world."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def create(self, name: str) -> None:
        """Do nothing: a pod without an address is none here."""

    async def delete(self, name: str) -> None:
        """Delete one; it is gone at once."""
        self._world.drop_pod(name)

    async def set_status(self, name: str, host: str, *, ready: bool) -> None:
        """Say at which address it is, and whether it is ready."""
        self._world.put_pod(name, host, ready=ready)


def measure(folder: Path, seed: int, seconds: float, *, trouble: bool) -> Result:
    """Let pods come and go for so long, in virtual time, and measure.

    Args:
        folder: gets what was done, and for how long pods were out.
        seed: draws what happens.
        seconds: how long, of virtual time.
        trouble: calls fail, and processes are killed.
    """
    loop = BusyLoop()
    try:
        return loop.run_until_complete(_measure(folder, seed, seconds, trouble))
    finally:
        loop.close()


async def _measure(folder: Path, seed: int, seconds: float, trouble: bool) -> Result:
    chance = random.Random(seed)  # noqa: S311 - one that can be drawn again
    world = UnsteadyWorld(random.Random(seed + 1))  # noqa: S311
    run.prepare(world)
    world.put_group()
    world.start("controller")
    world.start("deregistrar")
    crowd = Crowd(_Pods(world))
    await crowd.begin()
    await world.until(lambda: world.members == crowd.members, REST)
    begun = len(world.steps)
    world.part = PART if trouble else 0.0
    killing = asyncio.ensure_future(world.kill_now_and_then()) if trouble else None
    await crowd.run(chance, seconds)
    if killing is not None:
        killing.cancel()
    world.part = 0.0
    wanted = crowd.members
    crowd.stop()
    end = world.second()
    await world.until(lambda: world.members == wanted, REST)
    rest = differences(world.members, wanted)
    if world.breach is not None:
        rest.append(str(world.breach))
    writes = [step for step in world.steps[begun:] if run.is_write(step)]
    await world.close()
    lines = (f"{s.at:.3f} {s.who} {s.what} {s.mode or ''}\n" for s in world.steps)
    (folder / "steps.txt").write_text("".join(lines))
    write_absences(folder / "absences.txt", crowd.ready, world.effects, end)
    figures: dict[str, object] = {"kills": world.kills, "writes": len(writes)}
    return result_of(crowd, world.effects, end, rest, figures, trouble=trouble)
