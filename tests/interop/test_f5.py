"""Clients of BIG-IP: F5's own and other people's see what our driver made."""

import shutil
import ssl
import sys

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trustme

from tests.f5.drivers import a_driver
from tests.f5.requests import WEB, an_ensure, an_identity
from tests.f5.rollout import MEMBERS, NEVER_ENDS, Rollout, address_of
from tests.f5.server import PASSWORD, USER, Bigip, a_bigip
from tests.interop.programs import play, run_for_json
from tests.interop.watching import watching
from tests.webhooks.requests import a_deregister, a_drain
from tests.webhooks.witness import Stage
from webhooks.f5.driver import F5Driver
from webhooks.f5.load_balancers import parse_identity
from webhooks.f5.names import Mark
from webhooks.shared.identity import Owner, digest


pytestmark = pytest.mark.interop

CLIENTS = Path(__file__).parent / "f5_clients"
GO = Path(__file__).parent / "gobigip"
NEWCOMER = ("198.18.0.9", "80")
"""Address and port of a member that a client adds."""

Client = Callable[..., Awaitable[object]]


@pytest.fixture(name="ca_file")
def _ca_file(tmp_path: Path) -> Path:
    """Return the file with the authority of the unit's certificate."""
    return tmp_path / "ca.crt"


@pytest.fixture(name="bigip")
async def _bigip(ca_file: Path) -> AsyncIterator[Bigip]:
    """Return a unit over https, as all clients want it."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(ca_file)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    async with a_bigip(tls) as bigip:
        yield bigip


@pytest.fixture(name="program", params=["with_bigrest.py", "with_f5_sdk.py", "go"])
def _program(request: pytest.FixtureRequest, bigip: Bigip, ca_file: Path) -> Client:
    """Return a client that is a program."""
    words: list[str | Path] = (
        ["go", "run", "."]
        if request.param == "go"
        else [sys.executable, "-W", "ignore", CLIENTS / request.param]
    )
    if request.param == "go" and shutil.which("go") is None:
        pytest.skip("needs Go")

    async def ask(*task: str) -> object:
        return await run_for_json(
            *words,
            str(bigip.port),
            USER,
            PASSWORD,
            *task,
            folder=GO if request.param == "go" else None,
            # requests lets this go before what the client itself says.
            environment={"REQUESTS_CA_BUNDLE": str(ca_file)},
        )

    return ask


@pytest.fixture(name="playbook")
def _playbook(bigip: Bigip, tmp_path: Path) -> Client:
    """Return F5's own modules for ansible."""

    async def play_it(name: str, **said: object) -> object:
        variables = {
            "server_port": bigip.port,
            "server_user": USER,
            "server_password": PASSWORD,
            "pool": WEB,
        }
        return await play(CLIENTS / name, variables | said, tmp_path)

    return play_it


@pytest.fixture(name="driver")
async def _driver(bigip: Bigip, tmp_path: Path) -> AsyncIterator[F5Driver]:
    """Return a driver that ends before its unit does."""
    assert bigip.port
    (tmp_path / "username").write_text(USER)
    (tmp_path / "password").write_text(PASSWORD)
    driver = a_driver(tmp_path)
    yield driver
    await driver.stop()


async def _rollout(bigip: Bigip, driver: F5Driver) -> None:
    """Have the driver make one member of each kind, and take one out."""
    lb_info = an_identity(bigip)
    for last in range(1, 5):
        await driver.ensure_backend(
            an_ensure(lb_info, f"198.18.0.{last}:80", f"r{last}")
        )
    bigip.unit.connections[WEB, "/Common/198.18.0.2:80"] = 3
    await driver.drain_backend(a_drain(lb_info, "198.18.0.2:80", "r2"))
    await driver.deregister_backend(a_deregister(lb_info, "198.18.0.4:80", "r4"))
    offline = {"session": "user-disabled", "state": "user-down"}
    bigip.unit.modify_member(WEB, "/Common/198.18.0.3:80", offline)


def _description(bigip: Bigip, number: int) -> str:
    """Return what the driver writes on the member of a record."""
    identity = parse_identity(an_identity(bigip))
    return Mark().of_member(Owner(f"r{number}", digest(identity.lock_key)))


async def test_a_program_sees_what_the_driver_made(
    program: Client, bigip: Bigip, driver: F5Driver
) -> None:
    """In service, draining with its connections, offline; and who is not there."""
    await _rollout(bigip, driver)

    seen = await program("see", WEB)

    said = partial(_description, bigip)
    assert isinstance(seen, dict)
    assert {
        "/Common/198.18.0.1:80": ["user-enabled", "unchecked", said(1)],
        "/Common/198.18.0.2:80": ["user-disabled", "unchecked", said(2)],
        "/Common/198.18.0.3:80": ["user-disabled", "user-down", said(3)],
    } == {name: fields[:3] for name, fields in seen.items()}
    assert {seen["/Common/198.18.0.2:80"][3]} <= {3, None}


async def test_a_program_lives_on_the_emulator(program: Client, bigip: Bigip) -> None:
    """Whatever the client does to a member, it finds what it expects."""
    steps = await program("live", WEB, *NEWCOMER)

    assert isinstance(steps, list)
    assert [
        "user-enabled",
        "True",
        "user-disabled unchecked",
        "user-disabled user-down",
        "False",
    ] == steps[:5]
    assert {*steps[5:]} <= {"user-disabled"}
    assert ({}, {}) == (bigip.unit.running.pool(WEB).members, bigip.unit.running.nodes)


async def test_ansible_sees_what_the_driver_made(
    playbook: Client, bigip: Bigip, driver: F5Driver
) -> None:
    """F5's own module would change nothing about a member that is as it is."""
    await _rollout(bigip, driver)
    before = bigip.unit.members(WEB)
    members = [
        {
            "address": f"198.18.0.{last}",
            "port": 80,
            "description": _description(bigip, last),
        }
        for last in range(1, 5)
    ]

    unchanged = await playbook("see.yml", members=members)

    assert isinstance(unchanged, list)
    assert [
        ("198.18.0.1", "present"),
        ("198.18.0.2", "disabled"),
        ("198.18.0.3", "forced_offline"),
        ("198.18.0.4", "absent"),
    ] == [(member["address"], state) for member, state in unchanged]
    assert before == bigip.unit.members(WEB)


async def test_ansible_lives_on_the_emulator(playbook: Client, bigip: Bigip) -> None:
    """Each state is a change once, and none the second time."""
    address, port = NEWCOMER

    changed = await playbook("live.yml", address=address, port=port)

    assert [True, False] * 4 == changed
    assert ["added", "disabled", "offline", "removed"] == [
        event.what for event in bigip.unit.events
    ]
    assert {} == bigip.unit.running.nodes


def _stage_of(fields: list[object]) -> Stage:
    """Tell what a member is, by what `see` prints of it."""
    match fields:
        case ["user-enabled", "unchecked", _, _]:
            return Stage.SERVING
        case ["user-disabled", "unchecked", _, 0]:
            return Stage.IDLE
        case ["user-disabled", "unchecked", _, int()]:
            return Stage.DRAINING
        case ["user-disabled", "user-down", _, _]:
            return Stage.OFFLINE
        case _:
            raise AssertionError(fields)


def _stages(number: int) -> list[list[Stage]]:
    """Tell what may be seen of a member; with the last connection it goes at once."""
    stages = [*Stage]
    if number < NEVER_ENDS:
        stages.remove(Stage.IDLE)
        return [stages]
    return [stages, [one for one in stages if one is not Stage.OFFLINE]]


@pytest.mark.parametrize("client", ["with_bigrest.py", "with_f5_sdk.py"])
async def test_a_program_watches_a_rollout(
    driver: F5Driver, bigip: Bigip, ca_file: Path, client: str
) -> None:
    """Each member serves, drains with its connections, is idle or at its deadline, goes.

    Nothing else is ever seen of it, and nothing in another order.
    """
    words = (str(bigip.port), USER, PASSWORD, "watch", WEB)
    async with watching(
        *(sys.executable, "-W", "ignore", CLIENTS / client),
        *words,
        read=_stage_of,
        environment={"REQUESTS_CA_BUNDLE": str(ca_file)},
    ) as watch:
        await Rollout(driver, bigip, watch).run()

    assert {address_of(number) for number in range(MEMBERS)} == watch.seen.keys()
    for number in range(MEMBERS):
        assert watch.seen[address_of(number)] in _stages(number)
