"""The driver as a process: flags, HTTP, credentials of AWS' chain, an orderly end."""

import asyncio
import contextlib
import json
import os
import signal
import sys

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aiohttp import ClientSession

from tests.elbv2.clients import ADDRESS, KEY, RECORD, an_identity
from tests.elbv2.emulator import OURS, Emulator
from tests.elbv2.state import EmulatedGroup


async def started(*flags: str, **environ: str) -> asyncio.subprocess.Process:
    """Start the driver with these flags, away from the machine's credentials."""
    away = {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "webhooks.elbv2", *flags),
        stderr=asyncio.subprocess.PIPE,
        env=dict(os.environ) | away | environ,
    )


@contextlib.asynccontextmanager
async def serving(
    *flags: str, **environ: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run the driver on a free port; give the process and its URL."""
    child = await started("--bind-address", "127.0.0.1:0", *flags, **environ)
    assert child.stderr is not None
    try:
        event = json.loads(await child.stderr.readline())
        yield child, f"http://{event['addresses'][0]}"
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def test_a_life_over_http(
    emulator: Emulator, group: EmulatedGroup, credentials: Path, tmp_path: Path
) -> None:
    """A second process knows what the first one put there, though it was killed."""
    flags = ("--endpoint-url", emulator.url, "--credentials-dir", str(credentials))
    claims = ("--claims-file", str(tmp_path / "claims"))
    body: dict[str, object] = {
        "recordID": RECORD,
        "lbInfo": an_identity(group),
        "backendAddr": ADDRESS,
    }
    seen = []
    async with ClientSession() as client:
        for operation in ("ensureBackend", "deregisterBackend"):
            async with serving(*flags, *claims) as (child, url):
                async with client.post(f"{url}/{operation}", json=body) as response:
                    seen.append((await response.json())["status"])
                seen.append(dict(group.owners))
                if operation == "deregisterBackend":
                    child.send_signal(signal.SIGTERM)
                    seen.append(await child.wait())

    assert ["Succ", {KEY: OURS}, "Succ", {}, 0] == seen


async def test_the_chain_of_aws(emulator: Emulator, group: EmulatedGroup) -> None:
    """Without a folder, credentials and region come from where AWS' tools look."""
    body = {"recordID": RECORD, "lbSpec": {"targetGroups": "web"}}
    async with (
        serving(
            *("--endpoint-url", emulator.url),
            AWS_ACCESS_KEY_ID=OURS,
            AWS_SECRET_ACCESS_KEY=emulator.keys[OURS].secret,
            AWS_DEFAULT_REGION="eu-test-1",
        ) as (_child, url),
        ClientSession() as client,
        client.post(f"{url}/createLoadBalancer", json=body) as response,
    ):
        answer = await response.json()

    assert group.arn == answer["lbInfo"]["targetGroups"]


async def test_without_credentials_and_region(emulator: Emulator) -> None:
    """Each is asked for in a message of its own."""
    said = []
    async with (
        serving("--endpoint-url", emulator.url) as (_child, url),
        ClientSession() as client,
    ):
        for region in ({}, {"region": "eu-test-1"}):
            body = {"recordID": RECORD, "lbSpec": {"targetGroups": "web"} | region}
            async with client.post(f"{url}/createLoadBalancer", json=body) as response:
                said.append((await response.json())["msg"])

    assert "no region" in said[0]
    assert "Unable to locate credentials" in said[1]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--credentials-dir", "/nowhere"), "--credentials-dir /nowhere is no folder"),
        (("--endpoint-url", "ftp://x"), "--endpoint-url 'ftp://x' is no http"),
        (("--claims-file", "/nowhere/claims"), "--claims-file"),
        (("--bogus",), "--bogus"),
    ],
)
async def test_wrong_flags(flags: tuple[str, ...], message: str) -> None:
    """A wrong flag ends the process with one line that names it."""
    child = await started(*flags)

    _, said = await child.communicate()

    assert message in said.decode()
    assert 1 == said.decode().count("\n")
    assert 2 == child.returncode
