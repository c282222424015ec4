"""Targets of other people are never touched, whatever the driver is asked."""

import asyncio
import contextlib
import itertools
import tempfile

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import attrs
import hypothesis
import pytest

from hypothesis import strategies

from lbcf.sdk import Fail, RetryAfter
from tests.elbv2.clients import (
    ADDRESS,
    KEY,
    a_deregister,
    a_drain,
    a_list,
    an_ensure,
    an_identity,
    write_credentials,
)
from tests.elbv2.clocks import QuickClock
from tests.elbv2.conftest import MakeDriver
from tests.elbv2.emulator import OURS, THEIRS, Emulator
from tests.elbv2.state import DELAY, ApiError, Description, EmulatedGroup
from tests.haproxy.waiting import until
from webhooks.elbv2.balancer import LoadBalancers
from webhooks.elbv2.claims import Claims
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.elbv2.errors import InvalidInput
from webhooks.elbv2.regions import Aws, Settings
from webhooks.elbv2.targets import parse_target


THROTTLED = ApiError("Throttling", "Rate exceeded")


@attrs.frozen
class Event:
    """Something that happens.

    Attributes:
        what: an operation of the driver, or one of the world's.
        member: number of the record, hence of its address.
        port: 0 or 1: each address has two, one of them everybody's favourite.
    """

    what: str
    member: int
    port: int


@attrs.frozen
class Stage:
    """What the examples of a property share.

    Attributes:
        runner: of the loop.
        emulator: with one target group per example.
        folder: of credentials and claims.
        numbers: of the target groups.
    """

    runner: asyncio.Runner
    emulator: Emulator
    folder: Path
    numbers: "itertools.count[int]" = attrs.field(factory=itertools.count)


EVENTS = strategies.builds(
    Event,
    what=strategies.sampled_from(
        [
            *("ensure", "ensure", "drain", "deregister", "list"),
            *("they register", "they register", "they deregister"),
            *("time passes", "crash", "throttle", "no answer"),
        ]
    ),
    member=strategies.integers(0, 1),
    port=strategies.integers(0, 1),
)


@attrs.define(eq=False)
class World:
    """A target group in which everybody works, and what records keep.

    Attributes:
        emulator: ELBv2.
        group: everybody's.
        folder: with the driver's credentials and claims.
        kept: what the controller keeps for a record, and hands back.
        driver: the present incarnation.
    """

    emulator: Emulator
    group: EmulatedGroup
    folder: Path
    kept: dict[str, dict[str, str]] = attrs.field(factory=dict)
    driver: Elbv2Driver = attrs.field(init=False)

    def start(self) -> None:
        """Start the driver."""
        settings = Settings(self.emulator.url, "", self.folder, attempts=1)
        aws = Aws(settings, self.emulator.clock)
        claims = Claims(str(self.folder / "claims"))
        balancers = LoadBalancers(aws, claims, fresh=timedelta(milliseconds=5))
        self.driver = Elbv2Driver(balancers, patience=timedelta(seconds=50))

    async def happen(self, event: Event) -> None:
        """Let something happen, to its end."""
        key = (f"198.18.0.{event.member + 1}", 80 + event.port)
        match event.what:
            case "they register":
                self.emulator.register(self.group, key)
            case "they deregister":
                # What is ours is ours: nobody else takes it out here.
                if self.group.owners.get(key) == THEIRS:
                    self.group.deregister([Description(*key)])
            case "time passes":
                advance(self.emulator, 61)
            case "crash":
                await self.driver.stop()
                self.start()
            case "throttle":
                advance(self.emulator, 31)
                self.emulator.fail("RegisterTargets", THROTTLED)
            case "no answer":
                self.emulator.babble("DeregisterTargets", 502, "<html>")
            case _:
                await self._ask(event.what, f"{key[0]}:{key[1]}")

    async def _ask(self, operation: str, address: str) -> None:
        """Ask the driver; what goes wrong is not the point."""
        lb_info = an_identity(self.group)
        kept = self.kept.get(address, {})
        with contextlib.suppress(Fail, RetryAfter):
            match operation:
                case "ensure":
                    request = an_ensure(lb_info, address, address, None, kept)
                    answer = await self.driver.ensure_backend(request)
                    self.kept[address] = dict(answer.injected_info or {})
                case "drain":
                    request_ = a_drain(lb_info, address, address, kept)
                    await self.driver.drain_backend(request_)
                case "deregister":
                    leave = a_deregister(lb_info, address, address, kept)
                    await self.driver.deregister_backend(leave)
                    self.kept.pop(address, None)
                case _:
                    await self.driver.list_backends(a_list(lb_info))


def advance(emulator: Emulator, seconds: int) -> None:
    """Let time pass."""
    assert isinstance(emulator.clock, QuickClock)
    emulator.clock.advance(timedelta(seconds=seconds))


@pytest.fixture(name="stage", scope="module")
def _stage() -> Iterator[Stage]:
    """Return a loop in which an emulator runs; examples share it."""
    with (
        asyncio.Runner() as runner,
        tempfile.TemporaryDirectory() as folder,
        contextlib.ExitStack() as stack,
    ):
        running = Emulator.running(QuickClock())
        emulator = runner.run(running.__aenter__())
        stack.callback(lambda: runner.run(running.__aexit__(None, None, None)))
        write_credentials(Path(folder), OURS, emulator.keys[OURS].secret)
        yield Stage(runner, emulator, Path(folder))


async def lived(stage: Stage, events: Sequence[Event]) -> None:
    """Let all happen; after each, look whether strangers' targets are in still."""
    emulator = stage.emulator
    emulator.faults.clear()
    group = EmulatedGroup(emulator.clock, name=f"web-{next(stage.numbers)}")
    emulator.add(group).attributes[DELAY] = "60"
    world = World(emulator, group, stage.folder)
    world.start()
    try:
        for event in events:
            before = {key for key, owner in group.owners.items() if owner == THEIRS}
            await world.happen(event)
            if event.what != "they deregister":
                assert before <= set(group.owners), event
    finally:
        await world.driver.stop()


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(events=strategies.lists(EVENTS, min_size=4, max_size=25))
@hypothesis.example(
    events=[
        Event(what, 0, 0)
        for what in ("ensure", "drain", "time passes", "they register", "deregister")
    ]
)
def test_targets_of_others_stay(stage: Stage, events: list[Event]) -> None:
    """However the driver is asked, crashes, and fails: what others put in stays in."""
    stage.runner.run(lived(stage, events))


@pytest.mark.parametrize("again", ["drain", "deregister", "both"])
async def test_a_target_that_came_after_ours(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, again: str
) -> None:
    """What somebody else registers at an address that ours has left is theirs."""
    lb_info = an_identity(group)
    ensured = await driver.ensure_backend(an_ensure(lb_info))
    kept = dict(ensured.injected_info or {})
    await driver.drain_backend(a_drain(lb_info, injected_info=kept))
    if again == "both":
        await driver.deregister_backend(a_deregister(lb_info, injected_info=kept))
    advance(emulator, 60)
    emulator.register(group, KEY)

    if again != "deregister":
        await driver.drain_backend(a_drain(lb_info, injected_info=kept))
    if again != "drain":
        await driver.deregister_backend(a_deregister(lb_info, injected_info=kept))

    assert {KEY: THEIRS} == group.owners


async def test_it_may_be_adopted(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """Who says that it is the group's hands it over."""
    emulator.register(group, KEY)
    lb_info = an_identity(group)

    await driver.ensure_backend(an_ensure(lb_info, parameters={"adopt": "true"}))
    await driver.deregister_backend(a_deregister(lb_info))

    assert {} == group.owners


async def test_a_taken_target_keeps_a_member_out_everywhere(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, clock: QuickClock
) -> None:
    """With several target groups, nothing is changed before all have been looked at."""
    other = emulator.add(EmulatedGroup(clock, name="other"))
    emulator.register(other, KEY)

    with pytest.raises(Fail, match="target group other already"):
        await driver.ensure_backend(an_ensure(an_identity(group, other)))

    assert {} == group.owners


async def test_two_records_at_one_target(
    driver: Elbv2Driver, group: EmulatedGroup
) -> None:
    """The second, of another load balancer, is refused, and takes nothing out."""
    lb_info = an_identity(group)
    await driver.ensure_backend(an_ensure(lb_info, record="first"))

    with pytest.raises(Fail, match="that of record first"):
        await driver.ensure_backend(an_ensure(lb_info, record="second"))
    await driver.deregister_backend(a_deregister(lb_info, record="second"))

    assert {KEY: OURS} == group.owners


async def test_a_registration_that_a_crash_cut(
    make_driver: MakeDriver, emulator: Emulator, group: EmulatedGroup, tmp_path: Path
) -> None:
    """It was written down before it was sent: the next process knows it for its own."""
    file, lb_info = str(tmp_path / "claims"), an_identity(group)
    first = make_driver(file)
    emulator.mute.add("RegisterTargets")
    call = asyncio.create_task(first.ensure_backend(an_ensure(lb_info)))

    async def is_in() -> bool:
        """Tell whether the registration has taken effect."""
        return bool(group.owners)

    await until(is_in)
    call.cancel()
    emulator.mute.clear()
    await first.stop()
    second = make_driver(file)

    await second.ensure_backend(an_ensure(lb_info))
    await second.deregister_backend(a_deregister(lb_info))

    assert {} == group.owners


async def test_claims_that_are_lost(
    make_driver: MakeDriver, group: EmulatedGroup
) -> None:
    """What a record brings back proves that its target is ours."""
    lb_info = an_identity(group)
    ensured = await make_driver().ensure_backend(an_ensure(lb_info))
    second = make_driver()

    await second.deregister_backend(a_deregister(lb_info))
    left_alone = dict(group.owners)
    kept = dict(ensured.injected_info or {})
    await second.deregister_backend(a_deregister(lb_info, injected_info=kept))

    assert {KEY: OURS} == left_alone
    assert {} == group.owners


async def test_claims_that_cannot_be_written(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """What cannot be written down is not sent."""
    await driver.list_backends(a_list(an_identity(group)))
    driver.load_balancers.claims._rows.execute("PRAGMA query_only=ON")  # noqa: SLF001

    with pytest.raises(Fail, match="claims file cannot be written"):
        await driver.ensure_backend(an_ensure(an_identity(group)))

    assert {} == group.owners
    assert [] == emulator.made("RegisterTargets")


def test_two_drivers_with_one_file(tmp_path: Path) -> None:
    """The second is told so, and does not start."""
    file = str(tmp_path / "claims")
    with Claims(file), pytest.raises(OSError, match="database is locked"):
        Claims(file)

    Claims(file).close()


async def test_a_proof_of_another_address(
    make_driver: MakeDriver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """It proves nothing."""
    emulator.register(group, KEY)
    proof = {"registered": "198.18.0.2:8080"}

    await make_driver().deregister_backend(
        a_deregister(an_identity(group), injected_info=proof)
    )

    assert {KEY: THEIRS} == group.owners


async def test_a_refused_registration_claims_nothing(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """What AWS did not take, and somebody else then put there, is not ours."""
    lb_info = an_identity(group)
    group.quota = 0
    with pytest.raises(Fail, match="TooManyTargets"):
        await driver.ensure_backend(an_ensure(lb_info))
    group.quota = 10
    emulator.register(group, KEY)

    await driver.deregister_backend(a_deregister(lb_info))

    assert {KEY: THEIRS} == group.owners


@hypothesis.given(
    strategies.text(max_size=60) | strategies.from_regex(r"[0-9.:\[\]a-fi-]{1,30}")
)
@hypothesis.example(ADDRESS)
@hypothesis.example("[2001:db8::1]:80")
@hypothesis.example("[2001:DB8:0::1]:080")
@hypothesis.example("i-0123456789abcdef0:80")
@hypothesis.example("198.18.0.1")
@hypothesis.example("198.18.0.1:")
@hypothesis.example("198.18.0.1:0")
def test_every_target_has_its_port(text: str) -> None:
    """An address without a port of 1 to 65535 is refused; one name per target."""
    try:
        target = parse_target(text)
    except InvalidInput:
        return

    assert 1 <= target.port <= 65535
    assert target == parse_target(str(target))
