"""What a process does when it has lost its Lease: all work has ended before others may know.

Both programs as they are put together, in virtual time, with drivers that hang.
"""

import asyncio
import contextvars

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lbcf.core.model.operations import Operation
from lbcf.kube.client import KubeClient
from lbcf.kube.leader_election import LeaderElector, LeadershipLostError
from tests.fairness.acts import CALM
from tests.fairness.objects import Balancer, Driver, Group, Record
from tests.fairness.world import STARTED, World
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.patience import PATIENCE


DRIVER = Driver(CALM, "proxy", "http://hang.test")
FRONT = Balancer(CALM, "front", "proxy")
GROUP = Group(CALM, "web", FRONT.name, ("10.0.0.1:80",))
GONE = Record(CALM, "10.0.0.2", FRONT.name, "proxy", "2026-01-01T00:00:00Z")
CALLS = {
    "controller": Operation.VALIDATE_BACKEND,
    "deregistrar": Operation.DEREGISTER_BACKEND,
}
"""The call that each process is busy with."""
ROLE: contextvars.ContextVar[str] = contextvars.ContextVar("role", default="")
"""The process of which a task is, or of which some task is that began it."""


class ElectedWorld(World):
    """Processes that work only as long as they have their Leases; to be made in a loop.

    Attributes:
        left: by process, the tasks that were alive when it had lost its lead.
        exits: processes that were ended on the spot.
        stubborn: seconds for which a driver's call goes on when it is cut.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left: dict[str, set[str]] = {}
        self.exits: list[str] = []
        self.stubborn = 0.0
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

        try:
            await elector.run(marked)
        except LeadershipLostError:
            self.left[role] = self.tasks_of(role)

    async def answer(
        self, host: str, operation: Operation, body: bytes, limit: float
    ) -> bytes:
        """Be a driver that hangs; a call that is cut may take its time to end."""
        try:
            return await super().answer(host, operation, body, limit)
        except asyncio.CancelledError:
            await asyncio.sleep(self.stubborn)
            raise

    async def until_busy(self, role: str) -> None:
        """Start both, and wait until the driver hangs in a call of one."""
        self.put(DRIVER, FRONT, GROUP, GONE)
        await self.start(STARTED)
        await self.until(
            lambda: any(call.operation is CALLS[role] for call in self.calls), PATIENCE
        )

    def take_lease(self, role: str) -> None:
        """Let somebody else have its Lease."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{CALM}/leases/{role}"
        self.api.put(path, self.api.objects[path] | {"spec": {"holderIdentity": "two"}})

    async def until_lost(self, role: str) -> set[str]:
        """Wait until it has lost its lead; return which of its tasks were alive then."""
        async with asyncio.timeout(PATIENCE):
            while role not in self.left:  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.1)
        return self.left[role]


@pytest.mark.parametrize("role", CALLS)
def test_no_task_of_the_work_outlives_the_lead(role: str) -> None:
    """Those that are busy with a driver are cut, all others have ended, too."""

    async def story() -> None:
        async with ElectedWorld() as world:
            await world.until_busy(role)
            assert world.tasks_of(role)

            world.take_lease(role)

            assert set() == await world.until_lost(role)
            assert [] == world.exits

    run_virtual(story())


@pytest.mark.parametrize("role", CALLS)
def test_work_that_cannot_be_cut_ends_the_process(role: str) -> None:
    """As long as anything works, the last resort stays."""

    async def story() -> None:
        async with ElectedWorld() as world:
            world.stubborn = 60.0
            await world.until_busy(role)

            world.take_lease(role)

            assert set() == await world.until_lost(role)
            assert [role] == world.exits

    run_virtual(story())
