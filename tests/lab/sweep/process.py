"""One run of a process as it ships, with its own way to the API server and the driver.

    Controller | DeregistrarProgram -> KubeClient  -> ApiLine    -> Process.carry
                                    -> DriverPool  -> DriverLine -> Process.carry

`carry` is the only way out: it numbers each step, asks the plan how the step goes, and
makes it so. The far end acts by timers of its own: what was sent takes effect whatever
becomes of the sender.
"""

import asyncio
import contextlib
import contextvars

from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import attrs

import lbcf.controller.app as controller_app
import lbcf.deregistrar.app as deregistrar_app

from lbcf.core.model.names import API_GROUP
from lbcf.core.model.shards import Shard, lease_name
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder, Limits
from lbcf.kube.leader_election import LeaderElector, LeadershipLostError
from lbcf.kube.secrets import Secrets
from lbcf.process import Dependencies, Program
from lbcf.runtime.journal import Predecessor
from lbcf.runtime.metrics import Metrics
from lbcf.runtime.process_identity import ProcessIdentity
from lbcf.runtime.shutdown import RoundCutError
from lbcf.settings import Settings
from tests.fakes.journal import FakeJournal
from tests.lab.sweep.clocks import Host, HostClock
from tests.lab.sweep.faults import ALL_MODES, Effect, Ending, Io, Mode, Trouble
from tests.lab.sweep.lines import ApiLine, DriverLine
from tests.lab.sweep.loop import BusyLoop


if TYPE_CHECKING:
    from tests.lab.sweep.world import World

OWNER: contextvars.ContextVar["Process | None"] = contextvars.ContextVar(
    "owner", default=None
)
"""The process whose code runs."""

DISTURBED = 40.0
"""Seconds that a watch stays silent, or a process stands still."""

_LISTING = timedelta(seconds=5)
_NEVER = timedelta(days=1)
"""Where no driver lists, looking every two seconds for one costs most of a run."""

STALLED = 1.9
"""Seconds that one stands still and finds its permission good: calls leave late in it."""
LEAP = 3600.0
"""Seconds by which a wall clock is set ahead, or back, in the middle of a run."""
_AHEAD = (0.8, -0.7, 0.3, -0.4)
"""Seconds that wall clocks of nodes are ahead of the API server's, one after another."""

_NOTHING_DONE = {Ending.UNSENT, Ending.FAIL, Ending.RUNNING}
"""Endings after which nothing of a batch was done before, or is to be done."""

_PAUSES = {Trouble.PAUSE: DISTURBED, Trouble.STALL: STALLED}
_LEAPS = {Trouble.AHEAD: LEAP, Trouble.BACK: -LEAP}

_BEFORE_THE_LIMIT = 0.5
"""Seconds before the time-out at which a slow answer arrives."""


class Process:
    """A controller or a deregistrar, from its start to its end.

    Attributes:
        role: `controller` or `deregistrar`.
        name: such as `controller-2`; also its incarnation.
        number: its process id.
        shard: the part of the work that it does.
        predecessor: the process in whose place it begins, None: nobody's.
        journal: what it has left for one that begins in its place.
        host: the machine that it runs on.
        clock: what it knows of the time.
        is_alive: it has not crashed.
        began: seconds at which it was started.
        tasks: all that it started.
    """

    def __init__(
        self,
        world: "World",
        role: str,
        number: int,
        behind: int = 0,
        after: "Process | None" = None,
        *,
        shard: Shard,
    ) -> None:
        self.role = role
        self.name = f"{role}-{number}"
        ahead = _AHEAD[number % len(_AHEAD)]
        after = None if world.setting.elsewhere else after
        self.host: Host = Host(ahead, number if after is None else after.host.boot)
        self.predecessor: Predecessor | None = None
        self.journal = FakeJournal()
        if after is not None:
            self.predecessor = after.as_predecessor()
            self.journal = after.journal if world.setting.journals else self.journal
        self.number = number
        self.shard = shard
        self.clock = HostClock(self.host, seed=number)
        self.is_alive = True
        self.began = 0.0
        self.tasks: list[asyncio.Task[Any]] = []
        self.api = ApiLine(self, world, behind)
        self._world = world
        self._paused = False
        self._held: list[Callable[[], None]] = []
        self._wake_early: Callable[[], None] = lambda: None

    @property
    def known_as(self) -> str:
        """Return the name by which records know it."""
        return self.name if self.predecessor is None else self.predecessor.name

    def as_predecessor(self) -> Predecessor:
        """Return what it is to one that begins in its place, after its end."""
        return Predecessor(self.name, self.known_as, self.clock.monotonic())

    def start(self) -> None:
        """Begin; the program runs in a task of its own."""
        self.began = asyncio.get_running_loop().time()
        context = contextvars.copy_context()
        context.run(OWNER.set, self)
        _ = asyncio.get_running_loop().create_task(self._live(), context=context)

    def kill(self) -> None:
        """End it between two instructions: nothing of it runs on."""
        self.is_alive = False
        self._held.clear()
        self.api.close()
        for task in self.tasks:
            if not task.done():
                task.cancel()
        self._wake_early()  # if only to be cancelled

    def disturb(self, trouble: Trouble) -> None:
        """Let it stand still, or its clocks do what clocks do."""
        if trouble in _PAUSES:
            self.pause(_PAUSES[trouble])
        elif trouble is Trouble.SUSPEND:
            self.suspend(DISTURBED)
        else:
            self.host.ahead += _LEAPS.get(trouble, 0.0)

    def pause(self, seconds: float) -> None:
        """Let it stand still for a while: nothing of it runs, nothing comes in.

        A callback that looks at a permission and sends is one step, as a look and the
        system call after it are: it is stopped before both, or after both.
        """
        if not self._paused:
            self._paused = True
            loop = asyncio.get_running_loop()
            assert isinstance(loop, BusyLoop)
            self._wake_early = loop.stand_still(self._owns, seconds, self._wake)

    def suspend(self, seconds: float) -> None:
        """Let its machine be suspended for a while.

        Beside a pause: its monotonic clock stands still, and its timers go by that one,
        as those of asyncio do. They ring as much later.
        """
        if not self._paused:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, BusyLoop)
            loop.put_off(self._owns, seconds)
            self.host.suspend(seconds)
            self.pause(seconds)

    def _owns(self, context: contextvars.Context) -> bool:
        """Tell whether a callback is one of its own."""
        return context.get(OWNER) is self

    def _wake(self) -> None:
        """Take what came in meanwhile."""
        self._paused = False
        held, self._held = self._held, []
        for callback in held:
            callback()

    async def carry(self, io: Io) -> bytes:
        """Carry one step out, as the plan says.

        Raises:
            Exception: what the far end answered, or what became of the way to it.
        """
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if not self.is_alive:
            raise asyncio.CancelledError  # what a dead one winds up reaches nobody
        name = self._world.count(self, io)
        if name is None:
            self._world.later(io.latency, self._act, io, answer)
        else:
            self._fail(io, ALL_MODES[name], answer)
        return await answer

    def _act(
        self, io: Io, answer: "asyncio.Future[bytes] | None", wait: float = 0.0
    ) -> None:
        """Let the far end act, look at what it did, and bring back its answer."""
        try:
            put = partial(_put, result=io.effect())
        except Exception as error:  # noqa: BLE001 - brought to whoever asked
            put = partial(_put_error, error=error)
        if wait:
            self._world.later(wait, self._deliver, answer, put)
        else:
            self._deliver(answer, put)
        self._world.look(io)

    def _deliver(
        self,
        answer: "asyncio.Future[bytes] | None",
        put: "Callable[[asyncio.Future[bytes]], None]",
    ) -> None:
        """Bring something in, when it runs."""
        if answer is None or not self.is_alive:
            return
        if self._paused:
            self._held.append(lambda: put(answer))
        else:
            put(answer)

    def _fail(self, io: Io, mode: Mode, answer: "asyncio.Future[bytes]") -> None:
        """Let a step go as its mode says."""
        if mode.trouble is not None:
            self._world.trouble(self, mode.trouble, mode.watch or io.watch)
        if mode.ending is Ending.ANSWER:
            late = mode.trouble is Trouble.SLOW
            wait = io.limit - _BEFORE_THE_LIMIT - io.latency if late else 0.0
            self._world.later(io.latency, self._act, io, answer, wait)
            return
        if io.first_part is not None and mode.ending not in _NOTHING_DONE:
            self._world.later(io.latency, io.first_part)
        if (mode.effect, mode.ending) == (Effect.LATE, Ending.RUNNING):
            io = _unless_over(io, self._world.second())
        if mode.effect is not Effect.NONE:
            self._world.later(self._moment(io, mode.effect), self._act, io, None)
        if mode.ending is Ending.CRASH:
            after = mode.effect is Effect.NOW
            self._world.later(io.latency if after else 0, self._crash, mode)
            return
        wait = io.limit if mode.ending is Ending.TIMEOUT else io.latency
        self._world.later(wait, self._deliver, answer, lambda f: _tell(f, io, mode))

    def _moment(self, io: Io, effect: Effect) -> float:
        """Say when an effect comes whose answer nobody gets."""
        if effect is Effect.NOW:
            return io.latency
        late = self._world.lateness(io)
        return late if effect is Effect.LATE else late + 120

    def _crash(self, mode: Mode) -> None:
        """Die, and be started again."""
        if self.is_alive:
            self._world.crash(self, is_old=mode.trouble is Trouble.OLD)

    async def _live(self) -> None:
        """Be the process."""
        try:
            await self._work()
        except asyncio.CancelledError:
            pass
        except (LeadershipLostError, RoundCutError):
            self._world.crash(self)
        except Exception as error:  # noqa: BLE001 - a defect, told as one
            self._world.fail(f"{self.name} ended: {error!r}")

    async def _work(self) -> None:
        """Connect, read, work: as `lbcf.process` does."""
        clock = self.clock
        client = KubeClient(self.api)
        setting = self._world.setting
        drivers = DriverLine(self, self._world, clock)
        recorder = EventRecorder(
            client,
            clock,
            controller=f"{API_GROUP}/{self.role}",
            instance=self.name,
            limits=None if setting.events else Limits(queue=0),
        )
        parts = Dependencies(
            settings=Settings(
                self.role,
                leader_elect=setting.elect,
                list_period=_LISTING if setting.lists else _NEVER,
            ),
            client=client,
            elections=client,
            secrets=Secrets(client, clock),
            drivers=drivers,
            recorder=recorder,
            clock=clock,
            # Metrics cost more time than all the rest, and decide nothing.
            metrics=cast("Metrics", None),
            incarnation=self.name,
            journal=self.journal,
            shard=self.shard,
        )
        program = _build(self.role, parts, setting.workers)
        elector = self._elector(client, parts)
        if elector is None:
            self._read(program, recorder)
            # Nothing was read before it began, and it has ended: nobody need look.
            await self._begin(program, self.predecessor)
            return
        try:
            await elector.look_for_ended()
            self._read(program, recorder)
            await elector.run(lambda: self._begin(program, elector.predecessor))
        finally:
            # However that ends, the process ends with it, and is started again.
            self._world.crash(self)

    def _read(self, program: Program, recorder: EventRecorder) -> None:
        """Begin to read, and to write Events."""
        background: list[Coroutine[Any, Any, Any]] = [
            informer.run() for informer in program.informers
        ]
        for work in (*background, recorder.run()):
            _ = asyncio.get_running_loop().create_task(work)

    def _elector(self, client: KubeClient, parts: Dependencies) -> LeaderElector | None:
        """Make the candidate, where a leader is elected."""
        if not self._world.setting.elect:
            return None
        return LeaderElector(
            client,
            name=lease_name(self.role, self.shard.number),
            namespace=parts.settings.namespace,
            identity=self.name,
            clock=self.clock,
            exit_now=lambda _code: self._world.crash(self),
            witness=_Kernel(self, self._world),
        )

    async def _begin(self, program: Program, predecessor: Predecessor | None) -> None:
        """Work once everything has been read."""
        for informer in program.informers:
            await informer.synced.wait()
        await program.work(asyncio.Event(), predecessor)


class _Kernel:
    """Knows which processes of its machine have ended."""

    def __init__(self, process: Process, world: "World") -> None:
        boot = f"boot-{process.host.boot}"
        self.own = ProcessIdentity(boot, 0, process.number, 0)
        self._world = world

    def has_ended(self, other: ProcessIdentity) -> bool:
        """Return whether another process of this machine has ended."""
        process = self._world.processes[other.pid - 1]
        return other.boot == self.own.boot and not process.is_alive


def _unless_over(io: Io, since: float) -> Io:
    """Let a call that is answered by Running end with the Succ after it."""
    return attrs.evolve(io, effect=lambda: b"" if io.is_over(since) else io.effect())


def _tell(answer: "asyncio.Future[bytes]", io: Io, mode: Mode) -> None:
    """Tell the caller how a step ended."""
    if mode.ending is Ending.CANCEL:
        answer.cancel()
    elif mode.ending in {Ending.FAIL, Ending.RUNNING} and io.said is not None:
        _put(answer, io.said(mode.ending))
    else:
        _put_error(answer, io.error(mode.ending))


def _put(answer: "asyncio.Future[bytes]", result: bytes) -> None:
    """Bring an answer, if somebody still waits for it."""
    if not answer.done():
        answer.set_result(result)


def _put_error(answer: "asyncio.Future[bytes]", error: Exception) -> None:
    """Bring an error, if somebody still waits for it."""
    if not answer.done():
        answer.set_exception(error)


def _build(role: str, parts: Dependencies, workers: int) -> Program:
    """Put a program together, with few workers."""
    with _few_workers(workers):
        if role == "controller":
            return controller_app.Controller(parts)
        return deregistrar_app.DeregistrarProgram(parts)


@contextlib.contextmanager
def _few_workers(number: int) -> Iterator[None]:
    """Let a program be made with few workers."""
    modules: dict[str, Any] = {}
    for module in (controller_app, deregistrar_app):
        for name in vars(module):
            if name.endswith("_WORKERS"):
                modules[name] = (module, getattr(module, name))
    for name, (module, _) in modules.items():
        setattr(module, name, number)
    try:
        yield
    finally:
        for name, (module, before) in modules.items():
            setattr(module, name, before)
