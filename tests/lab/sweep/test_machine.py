"""Whatever users, faults and time do in whatever order: the rules hold, all ends well.

Hypothesis draws the plays that nobody thought of, over the same world as the sweep. The
seed is fixed, a failure prints the shortest play that shows it.
"""

import asyncio

from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.lab.sweep import objects
from tests.lab.sweep.faults import MODES, Kind, Trouble
from tests.lab.sweep.loop import BusyLoop
from tests.lab.sweep.objects import SETTINGS
from tests.lab.sweep.run import is_write, prepare
from tests.lab.sweep.world import World


SETTLE = 600.0
QUIET = 200.0
PODS = st.sampled_from(["web-1", "web-2", "web-3"])
ADDRESSES = st.sampled_from(["10.0.0.1", "10.0.0.2"])
ROLES = st.sampled_from(["controller", "deregistrar"])
CALLS = st.sampled_from(["ensureBackend", "drainBackend", "deregisterBackend"])
WRITES = st.sampled_from(["POST", "PATCH", "DELETE"])
DISTURBANCES = [
    Trouble.LAG,
    Trouble.GAP,
    Trouble.PAUSE,
    Trouble.SUSPEND,
    Trouble.AHEAD,
    Trouble.BACK,
]
DELAYS = st.sampled_from([0.0, 0.01, 0.03, 0.06, 0.3, 2.0, 12.0, 28.0])
"""Seconds until the next thing happens."""
UNFAIR = {"crash-before", "crash-after", "crash-late", "old-list", "twin", "pause"}
"""Modes that are rules of their own here."""


def fair(kind: Kind) -> st.SearchStrategy[str]:
    """Draw how a step goes."""
    return st.sampled_from(sorted(set(MODES[kind]) - UNFAIR))


class Play(RuleBasedStateMachine):
    """One play, as it is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = BusyLoop()
        self.world: World | None = None

    @initialize(name=st.sampled_from(sorted(SETTINGS)), drains=st.booleans())
    def begin(self, name: str, drains: bool) -> None:
        """Start both processes in a cluster without pods."""

        async def make() -> World:
            """Make the world in its loop."""
            world = World(objects.with_drain(SETTINGS[name], drains=drains), {})
            prepare(world)
            world.put_group()
            world.start("controller")
            world.start("deregistrar")
            await asyncio.sleep(1)
            return world

        self.world = self.loop.run_until_complete(make())

    def act(self, what: Callable[[World], object], seconds: float = 0.0) -> None:
        """Do something, and let time pass."""
        world = self.world
        assert world is not None

        async def acted() -> None:
            """Do it in the world's loop."""
            what(world)
            await asyncio.sleep(seconds)

        self.loop.run_until_complete(acted())

    def fail_next(self, what: str, mode: str, after: float) -> None:
        """Let the next step that begins so go otherwise."""
        self.act(lambda world: world.troubles.setdefault(what, []).append(mode), after)

    @rule(name=PODS, address=ADDRESSES, after=DELAYS)
    def pod_comes(self, name: str, address: str, after: float) -> None:
        """A pod runs; one of that name that is there already is ready again."""
        assert self.world is not None
        found = self.world.api.objects.get(objects.pod_path(name))
        kept = objects.address_of(found, address)
        self.act(lambda world: world.put_pod(name, kept), after)

    @rule(name=PODS, after=DELAYS)
    def pod_is_unready(self, name: str, after: float) -> None:
        """A pod that is there is ready no more."""
        assert self.world is not None
        found = self.world.api.objects.get(objects.pod_path(name))
        if found is not None:
            address = objects.address_of(found, "")
            self.act(lambda world: world.put_pod(name, address, ready=False), after)

    @rule(name=PODS, after=DELAYS)
    def pod_goes(self, name: str, after: float) -> None:
        """A pod is gone at once."""
        self.act(lambda world: world.drop_pod(name), after)

    @rule(weight=st.sampled_from(["1", "2", "3"]), after=DELAYS)
    def parameters_change(self, weight: str, after: float) -> None:
        """The group's parameters are others."""
        self.act(lambda world: world.put_group(parameters={"weight": weight}), after)

    @rule(address=ADDRESSES, number=st.sampled_from([0, 2]), after=DELAYS)
    def sessions_change(self, address: str, number: int, after: float) -> None:
        """A backend has sessions, or none."""
        self.act(lambda world: world.set_sessions(f"{address}:80", number), after)

    @rule(operation=CALLS, mode=fair(Kind.CALL), after=DELAYS)
    def call_fails(self, operation: str, mode: str, after: float) -> None:
        """The next call of an operation goes otherwise."""
        self.fail_next(operation, mode, after)

    @rule(method=WRITES, mode=fair(Kind.WRITE), after=DELAYS)
    def write_fails(self, method: str, mode: str, after: float) -> None:
        """The next write of a kind goes otherwise."""
        self.fail_next(method, mode, after)

    @rule(mode=fair(Kind.READ), after=DELAYS)
    def read_fails(self, mode: str, after: float) -> None:
        """The next read goes otherwise."""
        self.fail_next("GET", mode, after)

    @rule(role=ROLES, is_old=st.booleans(), after=DELAYS)
    def process_crashes(self, role: str, is_old: bool, after: float) -> None:
        """The first process of a kind crashes, and is started again."""
        self.act(lambda world: world.crash_any(role, is_old=is_old), after)

    @rule(
        role=ROLES,
        trouble=st.sampled_from(DISTURBANCES),
        after=DELAYS,
    )
    def process_is_disturbed(self, role: str, trouble: Trouble, after: float) -> None:
        """The newest process of a kind does not see, stands still, or has another clock."""
        self.act(lambda world: world.disturb_any(role, trouble), after)

    @precondition(lambda self: self.world and len(self.world.processes) < 8)
    @rule(role=ROLES, after=DELAYS)
    def process_has_a_twin(self, role: str, after: float) -> None:
        """Another one begins to work beside it."""
        self.act(lambda world: world.start(role), after)

    @invariant()
    def nothing_is_broken(self) -> None:
        """S1 to S5 held until now."""
        if self.world is not None and self.world.breach is not None:
            raise self.world.breach

    def teardown(self) -> None:
        """Let all faults end: all is as it should be, and stays so."""
        world = self.world
        if world is None:
            self.loop.close()
            return
        try:
            world.troubles.clear()
            self.act(lambda _world: None, SETTLE)
            self.nothing_is_broken()
            assert [] == list(world.oracle.unsettled())
            before = len(world.steps)
            self.act(lambda _world: None, QUIET)
            assert [] == [s.what for s in world.steps[before:] if is_write(s)]
        finally:
            self.loop.run_until_complete(world.close())
            self.loop.close()


class TestPlay(Play.TestCase):  # type: ignore[misc,valid-type]
    """The plays that are drawn in every test run; `HYPOTHESIS_PROFILE` is not asked."""

    settings = settings(
        max_examples=60,
        stateful_step_count=20,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
