"""Clients of Citrix ADC: Citrix's own and other people's see what our driver made."""

import sys

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trustme

from lbcf.sdk import Fail
from tests.interop.programs import play, run
from tests.interop.watching import watching
from tests.netscaler.appliances import (
    GROUP,
    Served,
    Site,
    SteppedClock,
    a_site,
    serving,
)
from tests.netscaler.requests import an_ensure, until_done
from tests.netscaler.rollout import NEW, OLD, Rollout
from tests.webhooks.requests import a_deregister, a_drain
from tests.webhooks.witness import Stage
from webhooks.netscaler.load_balancers import parse_identity
from webhooks.netscaler.members import Mark
from webhooks.shared.identity import digest


pytestmark = pytest.mark.interop

CLIENTS = Path(__file__).parent / "netscaler_clients"

Play = Callable[..., Awaitable[Any]]


@pytest.fixture(name="site")
async def _site(tmp_path: Path) -> AsyncIterator[Site]:
    """Serve an appliance, as the driver wants it."""
    async with a_site(tmp_path, trustme.CA()) as site:
        yield site


@pytest.fixture(name="plain")
async def _plain(site: Site) -> AsyncIterator[Served]:
    """Serve the same appliance by http, as these clients can be brought to use it."""
    async with serving(site.unit) as served:
        yield served


@pytest.fixture(name="play")
def _play(plain: Served, tmp_path: Path) -> Play:
    """Return Citrix's module for ansible that sends any NITRO request."""

    async def play_it(name: str, **said: str) -> Any:
        variables = {
            "nsip": plain.url.removeprefix("http://"),
            "nitro_user": plain.unit.username,
            "nitro_pass": plain.unit.password,
            "group": GROUP,
        }
        return await play(CLIENTS / name, variables | said, tmp_path)

    return play_it


async def check(served: Served, command: str, *more: str) -> list[str]:
    """Ask a monitoring plugin that people watch their appliances with.

    Its exit status is how bad the news are, which its first line says, too.
    """
    printed = await run(
        *("sh", "-c", '"$@" || true', "sh"),
        Path(sys.executable).parent / "check_netscaler",
        *("-H", "127.0.0.1", "-P", served.url.rpartition(":")[2], "--no-ssl"),
        *("-u", served.unit.username, "-p", served.unit.password),
        *("-C", command, *more),
    )
    return printed.splitlines()


@attrs.frozen
class Made:
    """What the driver made: addresses of members in service, draining, and gone."""

    serving: str = "198.18.0.1:80"
    draining: str = "198.18.0.2:80"
    gone: str = "198.18.0.3:80"


async def rollout(site: Site) -> Made:
    """Have the driver make one member of each kind, and save."""
    made, driver = Made(), site.driver()
    for number, address in enumerate(attrs.astuple(made)):
        await driver.ensure_backend(
            an_ensure(site.lb_info, address, f"r{number}", weight="7")
        )
    site.unit.traffic.open((GROUP, "lbcf-198.18.0.2", 80), 3600)
    await driver.drain_backend(a_drain(site.lb_info, made.draining, "r1"))
    request = a_deregister(site.lb_info, made.gone, "r2")
    await until_done(lambda: driver.deregister_backend(request))
    await driver.stop()
    return made


async def test_ansible_sees_what_the_driver_made(play: Play, site: Site) -> None:
    """Members with their marks, weights and states, and their server objects."""
    await rollout(site)

    seen = await play("see.yml")

    pool = digest(parse_identity(site.lb_info).lock_key)
    assert [
        ("198.18.0.1", 80, "7", str(Mark("lbcf", "r0", pool)), "ENABLED", "UP"),
        (
            *("198.18.0.2", 80, "7", str(Mark("lbcf", "r1", pool))),
            *("DISABLED", "GOING OUT OF SERVICE"),
        ),
    ] == [
        tuple(
            row[name]
            for name in ("ip", "port", "weight", "customserverid", "state", "svrstate")
        )
        for row in seen["members"]
    ]
    assert ["lbcf-198.18.0.1", "lbcf-198.18.0.2"] == [
        row["name"] for row in seen["servers"]
    ]


async def test_ansible_lives_on_the_emulator(play: Play, site: Site) -> None:
    """Whatever the client does to a member, it finds what it expects."""
    site.unit.traffic.open((GROUP, "s9", 80), 3600)

    bound, disabled, gone = await play("live.yml", server="s9", address="198.18.0.9")

    assert [("s9", "5", "UP")] == [
        (row["servername"], row["weight"], row["svrstate"]) for row in bound
    ]
    assert [("GOING OUT OF SERVICE", "YES", "60")] == [
        (row["svrstate"], row["graceful"], row["delay"]) for row in disabled
    ]
    assert [] == gone
    assert ["bound", "disabled", "gone"] == [one.what for one in site.unit.events]
    assert ({}, 1) == (site.unit.saved.servers, site.unit.saves)


async def test_a_monitor_sees_what_the_driver_made(plain: Served, site: Site) -> None:
    """Which members of the group are up, and whether all is saved."""
    await rollout(site)

    group = await check(plain, "servicegroup", "-n", GROUP)
    saved = await check(plain, "nsconfig")
    site.unit.changed = True
    unsaved = await check(plain, "nsconfig")

    assert "PARTIAL-UP - member quorum: 50.00% (UP/DOWN): 1/1" in group[0]
    assert [
        "[OK] lbcf-198.18.0.1 (198.18.0.1:80) is UP",
        "[CRITICAL] lbcf-198.18.0.2 (198.18.0.2:80) is GOING OUT OF SERVICE",
    ] == group[2:]
    assert ["OK", "WARNING"] == [one[0].split(" ")[0] for one in (saved, unsaved)]


async def test_a_monitor_tells_the_primary(tmp_path: Path) -> None:
    """Both units of a pair say who they are."""
    async with a_site(tmp_path, trustme.CA(), units=2) as site:
        said = []
        for one in site.served:
            async with serving(one.unit) as plain:
                said += await check(plain, "hastatus")

    assert "hacurmasterstate Primary" in said[0]
    assert "hacurmasterstate Secondary" in said[1]


async def test_both_see_one_state(play: Play, site: Site) -> None:
    """What the client adds is not ours, what it takes away of ours is gone."""
    driver = site.driver()
    await driver.ensure_backend(an_ensure(site.lb_info, "198.18.0.9:80", "r9"))
    await play("take.yml", server="lbcf-198.18.0.9")
    request = a_deregister(site.lb_info, "198.18.0.9:80", "r9")
    await until_done(lambda: driver.deregister_backend(request))

    await play("add.yml", server="theirs", address="198.18.0.9")

    with pytest.raises(Fail, match="bound by somebody else"):
        await driver.ensure_backend(an_ensure(site.lb_info, "198.18.0.9:80", "r9"))
    await driver.stop()
    assert [(GROUP, "theirs", 80)] == list(site.unit.running.members)


def stage_of(said: tuple[str, int]) -> Stage:
    """Tell what a member is, by the state and the connections that a client read."""
    match said:
        case ["UP", _]:
            return Stage.SERVING
        case ["TROFS", connections] if connections:
            return Stage.DRAINING
        case ["OUT OF SERVICE", 0]:
            return Stage.IDLE
        case _:
            raise AssertionError(said)


async def test_a_monitor_watches_a_rollout(tmp_path: Path) -> None:
    """Each member serves, drains with its connections, is idle, and goes.

    Nothing else is ever seen of it, and nothing in another order.
    """
    clock = SteppedClock()
    program = CLIENTS / "watch_members.py"
    async with (
        a_site(tmp_path, trustme.CA(), clock=clock) as site,
        serving(site.unit) as plain,
        watching(
            *(sys.executable, program, plain.url.rpartition(":")[2]),
            *(site.unit.username, site.unit.password, GROUP),
            read=stage_of,
        ) as watch,
    ):
        driver = site.driver()
        await Rollout(driver, site, clock, watch).run()
        await driver.stop()

    whole = [Stage.SERVING, Stage.DRAINING, Stage.IDLE, Stage.GONE]
    assert dict.fromkeys(OLD, whole) | dict.fromkeys(NEW, whole[:1]) == watch.seen
