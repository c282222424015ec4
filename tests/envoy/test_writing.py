"""A state directory that hangs, fails or has what nobody can read: who asks is told so."""

import asyncio
import contextlib
import threading

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta

import msgspec
import pytest

from lbcf.sdk import Fail, Refusal
from tests.envoy.node import Node
from tests.envoy.rig import BRIEF
from tests.envoy.stage import Stage
from tests.haproxy.waiting import until
from tests.patience import PATIENT
from tests.webhooks.troubled import refused, settled, told
from webhooks.envoy.balancers import Balancer, parse_identity
from webhooks.envoy.driver import EnvoyDriver
from webhooks.envoy.keeper import Keeper
from webhooks.envoy.store import Store


A = "198.18.0.1:80"


class Volume:
    """Stands still, or breaks, before a step of the driver's writes.

    Attributes:
        reached: whether the step was reached.
        goes_on: set: it stands still no more.
    """

    def __init__(self, at: str, error: Exception | None = None) -> None:
        self.reached = threading.Event()
        self.goes_on = threading.Event()
        self._at, self._error = at, error

    def __call__(self, step: str) -> None:
        """Let a step pass, or not."""
        if step != self._at or self.goes_on.is_set():
            return
        self.reached.set()
        if self._error is not None:
            raise self._error
        self.goes_on.wait()

    async def until_reached(self) -> None:
        """Wait for the driver to come there."""

        async def is_reached() -> bool:
            return self.reached.is_set()

        await until(is_reached)


@contextlib.contextmanager
def standing(driver: EnvoyDriver, at: str = "write") -> Iterator[Volume]:
    """Have the driver's volume hang before a step for a block."""
    volume = Volume(at)
    driver.keeper.store.step = volume
    try:
        yield volume
    finally:
        volume.goes_on.set()


@contextlib.asynccontextmanager
async def created(
    stage: Stage, patience: timedelta = BRIEF
) -> AsyncIterator[EnvoyDriver]:
    """Have a load balancer for a block, and a driver that soon says what it waits for."""
    driver = await stage.driver(patience=patience, kind=Keeper)
    async with Node.running(stage.port, "a"):
        await settled(lambda: driver.create_load_balancer(stage.create()))
        # Once it is on disk which Envoys there are, nothing is written but for the test.
        store, known = driver.keeper.store, driver.keeper.fleets

        async def is_saved() -> bool:
            return store.load_envoys() == known.known()

        await until(is_saved)
        yield driver


def on_disk(driver: EnvoyDriver) -> set[str]:
    """Return the records of all members in the state directory."""
    found = driver.keeper.store.load().values()
    return {record for one in found for record in one.members}


async def ill(driver: EnvoyDriver) -> str:
    """Return what a driver says of its health; empty: all is well."""
    try:
        return "" if await driver.healthz() else "false"
    except Refusal as refusal:
        return refusal.msg


async def test_a_volume_that_hangs_is_told(stage: Stage) -> None:
    """Whoever asks for a change is answered, and the next one, too."""
    async with created(stage) as driver:
        ensure = stage.ensure("a", A)
        with standing(driver):
            async with asyncio.timeout(
                60
            ):  # seconds until it is clear that no answer comes
                said = [await told(lambda: driver.ensure_backend(ensure)) for _ in "ab"]
            health = await ill(driver)
        await settled(lambda: driver.ensure_backend(ensure))

        assert all("the state is still being written" in one for one in said)
        assert "the state is still being written" in health
        assert "" == await ill(driver)
        assert {"a"} == on_disk(driver)


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), RuntimeError("a mistake")]
)
async def test_any_failure_of_a_write_is_told(stage: Stage, error: Exception) -> None:
    """It ends nothing: what was not written is written again, though nobody asks."""
    async with created(stage, PATIENT) as driver:
        ensure = stage.ensure("a", A)
        volume = Volume("rename", error)
        driver.keeper.store.step = volume

        with pytest.raises(Fail, match="the driver's state cannot be written"):
            await driver.ensure_backend(ensure)
        said = await ill(driver)
        volume.goes_on.set()

        async def is_well() -> bool:
            return not await ill(driver)

        await until(is_well)
        assert "the driver's state cannot be written" in said
        assert {"a"} == on_disk(driver)
        await settled(lambda: driver.ensure_backend(ensure))


async def test_what_envoys_there_are_is_written_again(stage: Stage) -> None:
    """A driver that starts anew waits for those that the volume had no room for, too."""
    async with created(stage, PATIENT) as driver:
        store = driver.keeper.store
        volume = Volume("rename", OSError(28, "No space left on device"))
        store.step = volume

        async def are_both_saved() -> bool:
            return store.load_envoys() == {"edge": ["a", "b"]}

        async with Node.running(stage.port, "b"):
            await volume.until_reached()
            volume.goes_on.set()
            await until(are_both_saved)


async def test_a_change_that_is_undone_while_it_is_written(stage: Stage) -> None:
    """What is wanted is what Envoys were told last, and what they will be told is not."""
    async with created(stage) as driver:
        gone = stage.deregister("a", A)
        with standing(driver, "rename") as volume:
            ensuring = asyncio.create_task(
                refused(lambda: driver.ensure_backend(stage.ensure("a", A)))
            )
            await volume.until_reached()
            undone = await told(lambda: driver.deregister_backend(gone))
            await ensuring
        await settled(lambda: driver.deregister_backend(gone))

        assert "the state is still being written" in undone
        assert set() == on_disk(driver)


async def test_a_change_that_is_undone_after_half_of_it_was_written(
    stage: Stage,
) -> None:
    """A write that fails may have come to the disk: a driver that starts would find it."""
    async with created(stage, PATIENT) as driver:
        volume = Volume("sync", OSError(5, "Input/output error"))
        driver.keeper.store.step = volume
        await refused(lambda: driver.ensure_backend(stage.ensure("a", A)))
        between = on_disk(driver)

        with pytest.raises(Fail, match="cannot be written"):
            await driver.deregister_backend(stage.deregister("a", A))
        volume.goes_on.set()
        await settled(lambda: driver.deregister_backend(stage.deregister("a", A)))

        assert {"a"} == between
        assert set() == on_disk(driver)


async def test_what_was_not_written_is_not_done_when_it_is_asked_again(
    stage: Stage,
) -> None:
    """The member is out of what the driver wants, and in at each Envoy and on disk."""
    async with created(stage, PATIENT) as driver:
        await settled(lambda: driver.ensure_backend(stage.ensure("a", A)))
        gone = stage.deregister("a", A)
        volume = Volume("write", OSError(28, "No space left on device"))
        driver.keeper.store.step = volume

        removed = [await told(lambda: driver.deregister_backend(gone)) for _ in "ab"]
        drained = await told(lambda: driver.drain_backend(stage.drain("a", A)))
        listed = await told(lambda: driver.list_backends(stage.list()))
        between = on_disk(driver)
        volume.goes_on.set()
        await settled(lambda: driver.deregister_backend(gone))

        assert all("No space left" in one for one in (*removed, drained, listed))
        assert {"a"} == between
        assert set() == on_disk(driver)


def _with(stage: Stage, change: Callable[[Balancer], Balancer]) -> None:
    """Have something else on disk."""
    store = stage.drivers[0].keeper.store
    known = parse_identity(stage.lb_info)
    store.save({known: change(store.load()[known])})


async def test_state_that_who_stands_by_refuses_is_told(stage: Stage) -> None:
    """It says so to whoever asks, in place of waiting for what never comes."""
    async with created(stage) as driver:
        second = await stage.driver(patience=BRIEF)
        ensure = stage.ensure("a", A)
        waiting = await told(lambda: second.ensure_backend(ensure))
        _with(
            stage, lambda one: msgspec.structs.replace(one, attributes={"new": "yes"})
        )
        await driver.stop()

        async def is_told() -> bool:
            return "'new' is unknown" in await told(
                lambda: second.ensure_backend(ensure)
            )

        await until(is_told)
        assert "another process of this driver has" in waiting
        assert "'new' is unknown" in await ill(second)


async def test_a_driver_that_ends_writes_no_more(stage: Stage) -> None:
    """What it was writing comes before another process has the directory, or never."""
    async with created(stage) as driver:
        other = Store(driver.keeper.store.folder)

        async def is_ending() -> bool:
            return not driver.keeper.is_open

        with standing(driver, "rename") as volume:
            await refused(lambda: driver.ensure_backend(stage.ensure("a", A)))
            await volume.until_reached()
            ending = asyncio.create_task(driver.stop())
            await until(is_ending)
            meanwhile = other.lock()
        await ending

        assert (False, True) == (meanwhile, other.lock())
        assert {"a"} == on_disk(driver)
        with pytest.raises(OSError, match="is not this process's"):
            driver.keeper.store.save({})
        other.release()
