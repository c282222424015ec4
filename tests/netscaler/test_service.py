"""The driver as a process: flags, HTTP, an orderly end."""

import asyncio
import contextlib
import json
import signal
import sys

from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest

from aiohttp import ClientSession

from tests.netscaler.appliances import Site
from tests.netscaler.test_life import KEY
from tests.webhooks.requests import ADDRESS, RECORD
from webhooks.netscaler.members import Mark


@attrs.frozen
class RunningDriver:
    """A running driver and where it listens."""

    child: asyncio.subprocess.Process
    url: str


async def started(*flags: str) -> asyncio.subprocess.Process:
    """Start the driver with these flags."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "webhooks.netscaler",
        *flags,
        stderr=asyncio.subprocess.PIPE,
    )


@contextlib.asynccontextmanager
async def running(*flags: str) -> AsyncIterator[RunningDriver]:
    """Run the driver on a free port."""
    child = await started("--bind-address", "127.0.0.1:0", *flags)
    assert child.stderr is not None
    try:
        event = json.loads(await child.stderr.readline())
        yield RunningDriver(child, f"http://{event['addresses'][0]}")
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def test_an_end_in_time(site: Site, tmp_path: Path) -> None:
    """What is not saved when the process is told to end is saved before it does."""
    authority = tmp_path / "ca.pem"
    site.authority.cert_pem.write_to_path(str(authority))
    flags = (
        *("--allow-devices", site.lb_info["devices"]),
        *("--credentials", str(site.secrets)),
        *("--device-ca-file", str(authority)),
        *("--name-prefix", "teama", "--save-period", "3600"),
    )
    body = {"recordID": RECORD, "lbInfo": site.lb_info, "backendAddr": ADDRESS}
    async with running(*flags) as driver, ClientSession() as client:
        url = f"{driver.url}/ensureBackend"
        async with client.post(url, json=body) as response:
            answer = await response.json()
        before = site.unit.saves
        driver.child.send_signal(signal.SIGTERM)
        status = await driver.child.wait()

    (member,) = site.unit.saved.members.values()
    assert ("Succ", 0, 0, 1) == (answer["status"], before, status, site.unit.saves)
    mark = Mark.read("teama", member.customserverid)
    assert mark is not None
    assert (KEY[2], RECORD) == (member.port, mark.record_id)
    assert {} == site.unit.sessions


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--name-prefix", "a-b"), "name prefix 'a-b'"),
        (("--bogus",), "--bogus"),
    ],
)
async def test_wrong_flags(
    tmp_path: Path, flags: tuple[str, ...], message: str
) -> None:
    """A wrong flag ends the process with one line that names it."""
    needed = ("--allow-devices", "https://adc", "--credentials", str(tmp_path))
    child = await started(*needed, *flags)

    _, said = await child.communicate()

    assert message in said.decode()
    assert 1 == said.decode().count("\n")
    assert 2 == child.returncode
