"""Plays chains side by side, shrinks those that fail, and counts.

chain -> [step -> refused, or rest -> consistency; after BACK: recovery] -> long rest
-> the same objects at once in another namespace -> differential -> both cleared
"""

import asyncio
import contextlib
import itertools
import json
import signal
import sys
import time

from collections import Counter
from collections.abc import Iterable, Iterator

import attrs

from tests.lab.specs.chains import (
    Chain,
    Deed,
    State,
    Step,
    after,
    first,
    meets_others,
    to_json,
)
from tests.lab.specs.oracle import health
from tests.lab.specs.pictures import Picture, differences, picture
from tests.lab.specs.stage import LONG_QUIET, Namespace, World, new_namespace


PATIENCE = 45.0
"""Seconds for everything to come to rest: Δ of the drivers is at most 25."""
REPLAYS = 12
"""How often a chain that failed is played again to shrink it."""


@attrs.frozen
class Failure:
    """What an oracle found.

    Attributes:
        oracle: consistency, recovery, differential, end, health.
        chain: as far as it was played.
        told: what is wrong.
    """

    oracle: str
    chain: Chain
    told: tuple[str, ...]


@attrs.define
class Tally:
    """What has happened so far."""

    transitions: int = 0
    refused: int = 0
    chains: int = 0
    looked: Counter[str] = attrs.field(factory=Counter)
    slowest: float = 0.0
    failures: list[Failure] = attrs.field(factory=list)


class Failed(Exception):  # noqa: N818 - reads as what happened
    """An oracle has found something."""

    def __init__(self, oracle: str, told: list[str]) -> None:
        super().__init__(oracle)
        self.oracle = oracle
        self.told = told


@attrs.define
class Play:
    """One chain in one namespace.

    Attributes:
        played: its steps up to the present one.
    """

    chain: Chain
    here: Namespace
    tally: Tally
    patience: float = PATIENCE
    tells: bool = False
    played: list[Step] = attrs.field(factory=list)
    _past: list[tuple[State, Picture | None]] = attrs.field(factory=list)

    async def run(self, there: Namespace) -> Failure | None:
        """Play it; what an oracle found, if anything."""
        try:
            await self._run(there)
        except Failed as failed:
            chain = Chain(self.chain.scenario, tuple(self.played))
            return Failure(failed.oracle, chain, tuple(failed.told))
        return None

    async def _run(self, there: Namespace) -> None:
        here = self.here
        await self._begin(here, first(self.chain.scenario))
        self._past.append((here.state, picture(here.scene())))
        for step in self.chain.steps:
            self.played.append(step)
            await self._take(step, there)
        await self._rest("consistency", here, LONG_QUIET)
        await self._begin(there, here.state)
        self.tally.looked["differential"] += 1
        if wrong := differences(picture(here.scene()), picture(there.scene())):
            raise Failed("differential", wrong)
        for namespace in (here, there):
            self.tally.looked["end"] += 1
            if wrong := await namespace.clear(self.patience):
                raise Failed("end", wrong)

    async def _begin(self, namespace: Namespace, state: State) -> None:
        """Make all objects of a state at once."""
        if refused := await namespace.write(state):
            raise Failed("differential", [f"cannot be made at once: {refused}"])
        await self._rest("consistency", namespace)

    async def _take(self, step: Step, there: Namespace) -> None:
        """Take one step, and look."""
        known: Picture | None = None
        wanted = after(self.here.state, step, self.chain.scenario)
        if step.deed is Deed.BACK and len(self._past) > 1:
            self._past.pop()
            wanted, known = self._past[-1]
        if wanted == self.here.state:
            return
        if await self._is_refused(step, wanted):
            return
        if step.deed is not Deed.BACK:
            self._past.append((wanted, None))
        if step.rests:
            await self._rest("consistency", self.here)
            self._past[-1] = (wanted, await self._compared(known, there))

    async def _is_refused(self, step: Step, wanted: State) -> bool:
        """Write it; what is refused changes nothing."""
        refused = await self.here.write(wanted)
        self.tally.transitions += 1
        self.tally.refused += bool(refused)
        if self.tells:
            print(f"{self.here.name} {step} {refused[:200]}", flush=True)
        if refused and step.deed is Deed.BACK:
            # What was added cannot always be taken back: url, lbSpec and their like.
            self._past[:] = [(self.here.state, None)]
        return bool(refused)

    async def _compared(self, known: Picture | None, there: Namespace) -> Picture:
        """Look; what was there before the step that was undone is there again.

        Or what the same objects come to when they are made at once: the earlier look may
        have been at a rest that was none, as a process of ours had been killed just then.
        """
        seen = picture(self.here.scene())
        if known is None:
            return seen
        self.tally.looked["recovery"] += 1
        if differences(known, seen):
            # A process that has no processor for a while tells no news either.
            await self._rest("consistency", self.here, LONG_QUIET)
            seen = picture(self.here.scene())
        if differences(known, seen):
            self.tally.looked["recovery, made at once"] += 1
            await self._begin(there, self.here.state)
            if wrong := differences(picture(there.scene()), seen):
                raise Failed("recovery", wrong)
            if wrong := await there.clear(self.patience):
                raise Failed("end", wrong)
        return seen

    async def _rest(self, oracle: str, where: Namespace, quiet: float = 0.4) -> None:
        self.tally.looked["consistency"] += 1
        began = time.monotonic()
        if wrong := await where.rest(self.patience, quiet):
            raise Failed(oracle, wrong)
        self.tally.slowest = max(self.tally.slowest, time.monotonic() - began)


@attrs.define
class Campaign:
    """All chains.

    Attributes:
        tells: whether each step is printed.
        kills: seconds between two `kill -9` of a process of ours; 0: none.
        seconds: after which no chain is begun.
        transitions: after so many of them none is begun either.
    """

    world: World
    tally: Tally = attrs.field(factory=Tally)
    tells: bool = False
    kills: float = 0.0
    seconds: float = 3600.0
    transitions: int = sys.maxsize
    _numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(100))
    _read: dict[str, int] = attrs.field(factory=dict)
    _default: asyncio.Lock = attrs.field(factory=asyncio.Lock)

    async def run(self, chains: Iterable[Chain], side_by_side: int) -> None:
        """Play them all, so many at a time."""
        waiting = iter(list(chains))
        began = time.monotonic()

        async def player() -> None:
            pair = [await self._namespace(), await self._namespace()]
            for chain in waiting:
                if self._is_over(began):
                    return
                failure = await self.play(chain, *pair)
                self.tally.chains += 1
                if failure is not None:
                    self._tell(failure)
                    pair = [await self._namespace(), await self._namespace()]
                if self.tally.chains % 20 == 0:
                    self._progress(began)

        watch = asyncio.create_task(self._watch())
        try:
            await asyncio.gather(*(player() for _ in range(side_by_side)))
        finally:
            watch.cancel()
        self._look_at_health()

    def _is_over(self, began: float) -> bool:
        is_late = time.monotonic() - began > self.seconds
        return is_late or self.tally.transitions >= self.transitions

    async def play(
        self, chain: Chain, here: Namespace, there: Namespace
    ) -> Failure | None:
        """Play one; the default class of one would take another one's Service."""
        is_alone = self._default if meets_others(chain) else contextlib.nullcontext()
        async with is_alone:
            return await Play(chain, here, self.tally, tells=self.tells).run(there)

    async def shrunk(self, failure: Failure) -> Failure:
        """Leave out steps as long as the same oracle fails."""
        best, tries, size = failure, REPLAYS, max(len(failure.chain.steps) // 2, 1)
        while tries and size:
            for start in range(0, len(best.chain.steps), size):
                steps = best.chain.steps
                fewer = attrs.evolve(
                    best.chain, steps=(*steps[:start], *steps[start + size :])
                )
                tries -= 1
                here, there = await self._namespace(), await self._namespace()
                found = await Play(fewer, here, Tally()).run(there)
                if found is not None and found.oracle == best.oracle:
                    best = found
                    break
                if not tries:
                    break
            else:
                size //= 2
        return best

    async def _namespace(self) -> Namespace:
        number = next(self._numbers)
        return await new_namespace(self.world, f"specs-{number:05}", number)

    async def _watch(self) -> None:
        """See that our processes are well; kill one now and then, and start it again."""
        victims = itertools.cycle(self.world.stage.processes.values())
        killed = time.monotonic()
        while True:
            await asyncio.sleep(2)
            self._look_at_health()
            if self.kills and time.monotonic() - killed > self.kills:
                victim, killed = next(victims), time.monotonic()
                await victim.end(signal.SIGKILL)
                await victim.start()
                self.tally.looked["kills"] += 1

    def _look_at_health(self) -> None:
        """See that our processes live, and have met nothing unexpected."""
        for name, process in self.world.stage.processes.items():
            lines = process.log.read_text().splitlines()
            new = lines[self._read.get(name, 0) :]
            self._read[name] = len(lines)
            wrong = health(new)
            if not process.runs:
                wrong.append(f"{name} has ended")
            if wrong:
                self._tell(Failure("health", Chain("", ()), tuple(wrong[:5])))

    def _tell(self, failure: Failure) -> None:
        self.tally.failures.append(failure)
        print(f"FAILED {failure.oracle}: {failure.chain.scenario}", flush=True)
        for line in failure.told[:8]:
            print(f"    {line[:1500]}", flush=True)
        path = self.world.stage.folder / f"failure-{len(self.tally.failures)}.json"
        path.write_text(json.dumps(to_json(failure.chain)))
        print(f"    --replay {path}", flush=True)

    def _progress(self, began: float) -> None:
        tally, took = self.tally, time.monotonic() - began
        print(
            f"{tally.transitions} transitions ({tally.refused} refused), "
            f"{tally.chains} chains, {len(tally.failures)} failed, {took:.0f} s, "
            f"slowest rest {tally.slowest:.1f} s",
            flush=True,
        )
