"""A cluster in virtual time: API server, load balancer, processes, users.

`scenarios` plays the users, `process` runs what ships, `oracle` looks. A `Plan` says
which step of I/O fails, and how; without one nothing fails.
"""

import asyncio
import math

from collections.abc import Callable
from typing import Any

import attrs

from lbcf.core.model.shards import WHOLE, Shard, lease_name
from tests.kube.tiny_history import Change
from tests.lab.sweep import objects
from tests.lab.sweep.cluster import Cluster
from tests.lab.sweep.faults import ALL_MODES, Io, Kind, Plan, Trouble
from tests.lab.sweep.objects import Setting
from tests.lab.sweep.oracle import Oracle
from tests.lab.sweep.process import DISTURBED, OWNER, Process


RESTART = 2.0
"""Seconds until a process that crashed is back."""
MOST_STEPS = 2000
"""A run with more runs hot."""
OLDER = 12
"""How many versions an older list is behind."""


class BreachError(Exception):
    """A rule was broken; the text says which, and by what."""


@attrs.frozen
class Step:
    """One step, as it was counted."""

    number: int
    who: str
    kind: Kind
    what: str
    at: float
    mode: str | None


@attrs.frozen
class News:
    """A watch of a kind told a process something."""

    who: str
    plural: str
    at: float


class World(Cluster):
    """All of it.

    Attributes:
        oracle: looks.
        processes: all that ever ran.
        steps: all that was counted.
        news: all that watches told.
        succeeded: when a call for a record was last answered by Succ, an ensure or not.
        played_at: seconds at which users did their last.
        troubles: modes of the next steps of a kind, or that have this in their text, as a
            play wants them.
        leaves_out: what the next batches do with their last item, of which they say
            nothing: perform it `never`, or `late`.
        ahead: seconds that the wall clock is ahead where the next process of a role starts.
    """

    def __init__(self, setting: Setting, plan: Plan) -> None:
        super().__init__(setting)
        self.oracle = Oracle(self)
        self.processes: list[Process] = []
        self.steps: list[Step] = []
        self.news: list[News] = []
        self.played_at = 0.0
        self.faults_until = math.inf
        self.succeeded: dict[tuple[str, bool], float] = {}
        self.troubles: dict[str, list[str]] = {}
        self.leaves_out: list[str] = []
        self.ahead: dict[str, float] = {}
        self.on_step: Callable[[Step], None] = lambda _step: None
        self._plan = plan
        self._retired = 0
        self._breach: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[Any]] = []
        # Whoever cannot write a status keeps people in the dark about it.
        self.api.on_invalid = lambda said: self.fail(f"the API server refuses {said}")
        self.on_empty = self.oracle.drains.emptied
        self.on_cut = self.oracle.taken_out
        self.api.on_change.append(self._changed)
        self.put_driver()
        self.put_load_balancer()
        self.api.put(objects.namespace_path(), {})

    # --- what processes do ------------------------------------------------------------

    def count(self, process: Process, io: Io) -> str | None:
        """Number a step, and say by which mode it goes; None: well."""
        number = len(self.steps) + 1
        mode = self._plan.get(number) or self._troubled(io)
        step = Step(number, process.name, io.kind, io.what, self.second(), mode)
        self.steps.append(step)
        self.on_step(step)
        if number > MOST_STEPS:
            self.fail(f"more than {MOST_STEPS} steps: it runs hot")
        return mode

    def lateness(self, io: Io) -> float:
        """Return the seconds after which an effect comes that is late."""
        return io.late

    def _troubled(self, io: Io) -> str | None:
        """Say how a call goes whose trouble is a part of the play."""
        for what, modes in self.troubles.items():
            if modes and (what == io.kind.name or what in io.what):
                return modes.pop(0)
        return None

    def told(self, process: Process, plural: str) -> None:
        """Note that a watch told a process something."""
        self.news.append(News(process.name, plural, self.second()))

    def look(self, io: Io) -> None:
        """Look after an effect."""
        if io.kind in {Kind.WRITE, Kind.CALL}:
            self.oracle.look()

    def fail(self, text: str) -> None:
        """Tell of a breach; the first one counts, and ends the run."""
        if not self._breach.done():
            self._breach.set_exception(BreachError(text))

    @property
    def is_faultless(self) -> bool:
        """Tell whether nothing is planned to fail."""
        return not self._plan

    @property
    def troubles_planned(self) -> set[Trouble | None]:
        """Return what is to happen to processes around the steps that are to fail."""
        return {ALL_MODES[mode].trouble for mode in self._plan.values()}

    def end_faults_in(self, seconds: float) -> None:
        """Let faults be tried in the first rounds only of what repeats itself."""
        self.faults_until = asyncio.get_running_loop().time() + seconds

    @property
    def breach(self) -> BaseException | None:
        """Return the first breach, None as long as there is none."""
        return self._breach.exception() if self._breach.done() else None

    def _changed(self, change: Change) -> None:
        """Let everybody see a change, each in his time."""
        if change.place.plural == "backendrecords":
            self.oracle.stored(change.place.path, change.after)
        elif change.place.plural == "loadbalancers" and change.after is None:
            self.oracle.load_balancer_ended(change.place.name)
        elif change.place.plural in {"pods", "nodes"} and change.before is not None:
            self.oracle.backend_changed(change.before, change.after)
            self.oracle.gates.pod_changed(change.before, change.after)
        for process in self.processes:
            process.api.arrived(change.place.plural, change.version)

    # --- what becomes of processes ----------------------------------------------------

    def start(
        self,
        role: str,
        shard: Shard = WHOLE,
        *,
        behind: int = 0,
        after: Process | None = None,
    ) -> Process:
        """Start a process, on a machine of its own or in the place of one that ended."""
        number = len(self.processes) + 1
        process = Process(self, role, number, behind, after, shard=shard)
        process.host.ahead = self.ahead.pop(role, process.host.ahead)
        self.processes.append(process)
        if role == "deregistrar" and not self.setting.elect:
            lease = objects.lease(process.known_as)
            name = lease_name(role, shard.number)
            self.api.put(objects.lease_path(name), lease)
        process.start()
        return process

    def crash(self, process: Process, *, is_old: bool = False) -> None:
        """Kill a process and have it started again.

        In its place, as kubelet does; elsewhere where lists are to be older.
        """
        if process.is_alive:
            process.kill()
            restart = self._restart_elsewhere if is_old else self._restart
            self.later(RESTART, restart, process)

    def start_shards(self, count: int) -> None:
        """Start both processes of each of so many shards."""
        for number in range(count):
            self.start("controller", Shard(number, count))
            self.start("deregistrar", Shard(number, count))

    def retire(self, count: int) -> None:
        """End those that divide the work among so many, and start none of them again."""
        self._retired = count
        for process in self.processes:
            if process.is_alive and process.shard.count == count:
                process.kill()

    def _restart(self, ended: Process) -> None:
        if ended.shard.count != self._retired:
            self.start(ended.role, ended.shard, after=ended)

    def _restart_elsewhere(self, ended: Process) -> None:
        """Start a process anew: its lists are older, its watches behind for a while."""
        if ended.shard.count != self._retired:
            process = self.start(ended.role, ended.shard, behind=OLDER)
            process.api.hold(DISTURBED)

    def trouble(self, process: Process, trouble: Trouble, watch: str = "") -> None:
        """Let something happen to a process, or to its watches of a kind."""
        match trouble:
            case Trouble.LAG | Trouble.GAP:
                is_gap = trouble is Trouble.GAP
                process.api.hold(DISTURBED, gap=is_gap, only=watch)
            case Trouble.TWIN:
                self.start(process.role, process.shard)
            case _:
                process.disturb(trouble)

    def crash_any(self, role: str, *, is_old: bool) -> None:
        """Kill the first process of a kind that runs."""
        for process in self._alive(role)[:1]:
            self.crash(process, is_old=is_old)

    def disturb_any(self, role: str, trouble: Trouble, watch: str = "") -> None:
        """Let something happen to the newest process of a kind."""
        for process in self._alive(role)[-1:]:
            self.trouble(process, trouble, watch)

    def set_clocks(self, role: str, seconds: float) -> None:
        """Set the wall clock ahead, or back, where processes of a kind run."""
        for process in self._alive(role):
            process.host.ahead += seconds

    def _alive(self, role: str) -> list[Process]:
        """Return the processes of a kind that run."""
        return [p for p in self.processes if p.role == role and p.is_alive]

    def lose_members(self) -> None:
        """Let the load balancer forget its members."""
        self.oracle.members_lost()
        self.balancer.lose_all()

    # --- time ---------------------------------------------------------------------------

    async def run(self, script: "Callable[[World], Any]") -> None:
        """Play a script to its end.

        Raises:
            BreachError: a rule was broken.
        """
        playing = asyncio.ensure_future(script(self))
        await asyncio.wait({playing, self._breach}, return_when=asyncio.FIRST_COMPLETED)
        if self._breach.done():
            playing.cancel()
            self._breach.result()
        await playing

    def own(self, task: "asyncio.Task[Any]") -> None:
        """Note whose task it is."""
        process = OWNER.get()
        if process is None:
            return
        process.tasks.append(task)
        task.add_done_callback(self._ended)
        if not process.is_alive:
            task.cancel()

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        """Look at how a task of a process ended."""
        if not task.cancelled():
            self._strike(task.exception())

    def on_error(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
    ) -> None:
        """Look at what a callback raised: the loop's handler of exceptions."""
        error = context.get("exception")
        self._strike(error)
        if "handle" in context and isinstance(error, Exception):
            # An oracle that raises would see nothing from then on.
            self.fail(f"a callback raised {error!r}")
        loop.default_exception_handler(context)

    def _strike(self, error: BaseException | None) -> None:
        """Fail where the code that ran was ended from outside.

        The time limit of a test strikes in whatever runs at the moment. The loop goes on
        without that task or callback: a process would stand still, and be told as one
        that does not do its work.
        """
        if error is not None and not isinstance(error, Exception):
            self.fail(f"the run was ended from outside: {error!r}")

    async def close(self) -> None:
        """End everything."""
        if self._breach.done():
            self._breach.exception()
        else:
            self._breach.cancel()
        for process in self.processes:
            process.kill()
        tasks = [task for process in self.processes for task in process.tasks]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def calm(self, patience: float = 300.0) -> None:
        """Wait until all is as it should be, or for as long as patience lasts."""
        await self.until(lambda: not any(self.oracle.unsettled()), patience)

    async def until(self, test: Callable[[], bool], patience: float = 300.0) -> None:
        """Wait until something is so, or for as long as patience lasts."""
        end = self.second() + patience
        # Nothing tells of it: members and objects are looked at as a user would.
        while not test() and self.second() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
