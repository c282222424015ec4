"""What a process does when it has lost its Lease, or is to end: all work has ended before.

Both programs as they are put together, in virtual time, with drivers that hang or are slow.
They are called for one member, or for many at a time.
"""

import asyncio
import contextlib
import contextvars

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import attrs
import pytest

from lbcf.core.model.operations import SINGLE, Operation
from lbcf.kube.client import KubeClient
from lbcf.kube.leader_election import LeaderElector, LeadershipLostError
from lbcf.process import Dependencies, Program
from lbcf.wire.driver import parse_request, render_answer
from lbcf.wire.driver_answers import BackendResult, BackendsAnswer, Status
from tests.fairness.acts import CALM
from tests.fairness.objects import Balancer, Driver, Group, Record, Thing
from tests.fairness.world import STARTED, Call, World
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.patience import PATIENCE


DRIVER = Driver(CALM, "proxy", "http://hang.test")
BATCHING = attrs.evolve(
    DRIVER, batched=(Operation.ENSURE_BACKEND, Operation.DEREGISTER_BACKEND)
)
FRONT = Balancer(CALM, "front", "proxy")
GROUP = Group(CALM, "web", FRONT.name, ("10.0.0.1:80",))
GONE = Record(CALM, "10.0.0.2", FRONT.name, "proxy", "2026-01-01T00:00:00Z")
NEW = Record(CALM, "10.0.0.3", FRONT.name, "proxy", is_new=True)


@attrs.frozen
class Case:
    """A process that is busy with a driver.

    Attributes:
        call: what it waits for.
        things: what it does that for.
    """

    role: str
    call: Operation
    things: tuple[Thing, ...]


ALONE = {
    "controller": Case("controller", Operation.VALIDATE_BACKEND, (DRIVER, GROUP)),
    "deregistrar": Case("deregistrar", Operation.DEREGISTER_BACKEND, (DRIVER, GONE)),
}
TOGETHER = {
    "controller-batch": Case(
        "controller",
        Operation.ENSURE_BACKENDS,
        (BATCHING, *(attrs.evolve(NEW, name=f"10.0.1.{n}") for n in range(3))),
    ),
    "deregistrar-batch": Case(
        "deregistrar",
        Operation.DEREGISTER_BACKENDS,
        (BATCHING, *(attrs.evolve(GONE, name=f"10.0.2.{n}") for n in range(3))),
    ),
}
of_each = pytest.mark.parametrize(
    "case", [pytest.param(case, id=name) for name, case in (ALONE | TOGETHER).items()]
)
of_batches = pytest.mark.parametrize(
    "case", [pytest.param(case, id=name) for name, case in TOGETHER.items()]
)
ROLE: contextvars.ContextVar[str] = contextvars.ContextVar("role", default="")
"""The process of which a task is, or of which some task is that began it."""


class ElectedWorld(World):
    """Processes that work only as long as they have their Leases; to be made in a loop.

    Attributes:
        left: by process, the tasks of its work that were alive when that had ended.
        exits: processes that were ended on the spot.
        stubborn: seconds for which a driver's call goes on when it is cut.
        grace: seconds that calls under way have when a process is to end.
        takes: seconds after which batches are answered; None: as the host says.
        answered: the number of items of each batch that was.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left: dict[str, set[str]] = {}
        self.exits: list[str] = []
        self.stubborn = 0.0
        self.grace = 0.0
        self.takes: float | None = None
        self.answered: list[int] = []
        self._ends: list[Callable[[], Awaitable[None]]] = []
        self._begun: list[tuple[str, asyncio.Future[Any]]] = []
        asyncio.get_running_loop().set_task_factory(self._begin)

    def _begin(
        self, loop: asyncio.AbstractEventLoop, work: Any, **named: Any
    ) -> "asyncio.Future[Any]":
        """Begin a task, and note whose it is."""
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **named)
        self._begun.append((ROLE.get(), task))
        return task

    def tasks_of(self, role: str) -> set[str]:
        """Return the tasks of a process's work that are alive."""
        mine = (task for whose, task in self._begun if whose == role)
        return {str(task) for task in mine if not task.done()}

    async def run(self, role: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run the work of a process under its Lease."""
        elector = LeaderElector(
            KubeClient(self.api),
            name=role,
            namespace=CALM,
            identity=role,
            clock=VirtualClock(),
            exit_now=lambda _code: self.exits.append(role),
        )

        async def marked() -> None:
            mark = ROLE.set(role)
            try:
                await work()
            finally:
                ROLE.reset(mark)
                # Now the guard goes, and then the Lease.
                self.left[role] = self.tasks_of(role)

        with contextlib.suppress(LeadershipLostError):
            await elector.run(marked)

    def _parts(self, role: str) -> Dependencies:
        """Put together what a process works with."""
        parts = super()._parts(role)
        grace = timedelta(seconds=self.grace)
        return attrs.evolve(parts, settings=attrs.evolve(parts.settings, grace=grace))

    async def answer(
        self, host: str, operation: Operation, body: bytes, limit: float
    ) -> bytes:
        """Be a driver that hangs; a call that is cut may take its time to end."""
        try:
            if self.takes is not None and operation in SINGLE:
                return await self._answer_batch(host, operation, body, self.takes)
            return await super().answer(host, operation, body, limit)
        except asyncio.CancelledError:
            await asyncio.sleep(self.stubborn)
            raise

    async def _answer_batch(
        self, host: str, operation: Operation, body: bytes, takes: float
    ) -> bytes:
        """Do what is asked for each item, after a while."""
        self.calls.append(Call(self.second(), host, operation, ""))
        self._look()
        await asyncio.sleep(takes)
        items = getattr(parse_request(operation, body), "items", ())
        self.answered.append(len(items))
        results = [
            BackendResult(record_id=one.record_id, status=Status.SUCC) for one in items
        ]
        return render_answer(BackendsAnswer(results=results))

    async def until_busy(self, case: Case) -> None:
        """Start both, and wait until the driver is in a call of one."""
        self.put(FRONT, *case.things)
        await self.start(STARTED)
        await self.until(
            lambda: any(call.operation is case.call for call in self.calls), PATIENCE
        )

    def take_lease(self, role: str) -> None:
        """Let somebody else have its Lease."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{CALM}/leases/{role}"
        self.api.put(path, self.api.objects[path] | {"spec": {"holderIdentity": "two"}})

    def lead(self, program: Program) -> Callable[[], Awaitable[None]]:
        """Let a process work; return what ends that."""
        end = super().lead(program)
        self._ends.append(end)
        return end

    async def ask_to_end(self) -> None:
        """Have both end as after SIGTERM, and give their Leases back."""
        await asyncio.gather(*(end() for end in self._ends))

    async def until_ended(self, role: str) -> set[str]:
        """Wait until its work has ended; return which of its tasks were alive then."""
        async with asyncio.timeout(PATIENCE):
            while role not in self.left:  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.1)
        return self.left[role]


@of_each
def test_no_task_of_the_work_outlives_the_lead(case: Case) -> None:
    """Those that are busy with a driver are cut, all others have ended, too."""

    async def story() -> None:
        async with ElectedWorld() as world:
            await world.until_busy(case)
            assert world.tasks_of(case.role)

            world.take_lease(case.role)

            assert set() == await world.until_ended(case.role)
            assert [] == world.exits

    run_virtual(story())


@of_each
def test_work_that_cannot_be_cut_ends_the_process(case: Case) -> None:
    """As long as anything works, the last resort stays."""

    async def story() -> None:
        async with ElectedWorld() as world:
            world.stubborn = 60.0
            await world.until_busy(case)

            world.take_lease(case.role)

            assert set() == await world.until_ended(case.role)
            assert [case.role] == world.exits

    run_virtual(story())


@of_batches
@pytest.mark.parametrize(
    ("takes", "answered"), [(4.0, [3]), (8.0, [])], ids=["in time", "too late"]
)
def test_a_batch_that_is_out_has_the_grace(
    case: Case, takes: float, answered: list[int]
) -> None:
    """Its turns write down what came of it; when the grace is over it is cut with them."""

    async def story() -> None:
        async with ElectedWorld() as world:
            world.grace, world.takes = 5.0, takes
            await world.until_busy(case)

            await world.ask_to_end()

            assert set() == world.left[case.role]
            assert answered == world.answered
            assert [] == world.exits

    run_virtual(story())
