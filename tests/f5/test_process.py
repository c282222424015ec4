"""The driver as a process: flags, TLS, HTTP, an orderly end."""

import asyncio
import json
import signal
import ssl
import sys

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
import trustme

from tests.f5.requests import MEMBER, WEB, an_identity
from tests.f5.server import Bigip, a_bigip
from tests.webhooks.requests import ADDRESS, RECORD


Start = Callable[..., Awaitable[asyncio.subprocess.Process]]


@pytest.fixture(name="start")
async def _start() -> AsyncIterator[Start]:
    """Start the driver with these flags; it is ended with the test."""
    started: list[asyncio.subprocess.Process] = []

    async def start(*flags: str) -> asyncio.subprocess.Process:
        words = (sys.executable, "-m", "webhooks.f5", *flags)
        child = await asyncio.create_subprocess_exec(
            *words, stderr=asyncio.subprocess.PIPE
        )
        started.append(child)
        return child

    yield start
    for child in started:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def _ensured(url: str, bigip: Bigip) -> str:
    """Have a member ensured; return the answer's status."""
    body: dict[str, object] = {
        "recordID": RECORD,
        "lbInfo": an_identity(bigip),
        "backendAddr": ADDRESS,
    }
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/ensureBackend", json=body) as response,
    ):
        return str((await response.json())["status"])


async def test_a_process_serves_and_ends_in_order(
    start: Start, secret: Path, tmp_path: Path
) -> None:
    """It verifies the unit, registers, and when it ends saves and logs out."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    async with a_bigip(tls) as bigip:
        driver = await start(
            "--bind-address=127.0.0.1:0",
            "--allow-devices=127.0.0.1:*",
            f"--credentials={secret}",
            f"--device-ca-file={tmp_path / 'ca.crt'}",
        )
        assert driver.stderr is not None
        event = json.loads(await driver.stderr.readline())
        status = await _ensured(f"http://{event['addresses'][0]}", bigip)
        driver.send_signal(signal.SIGTERM)

        assert ("Succ", 0) == (status, await driver.wait())
        assert [MEMBER] == list(bigip.unit.saved.pools[WEB].members)
        assert {} == bigip.tokens


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ([], "--allow-devices"),
        (["--allow-devices=10.1.1.1", "--credentials=/nowhere"], "is not a folder"),
        (["--allow-devices=a/b", "--credentials=/tmp"], "write https://HOST"),
    ],
)
async def test_wrong_flags_are_told_in_a_line(
    start: Start, flags: list[str], text: str
) -> None:
    """The process ends with one line that says what is wrong."""
    driver = await start(*flags)
    _, complained = await driver.communicate()

    assert 2 == driver.returncode
    assert 1 == len(complained.splitlines())
    assert text in complained.decode()
