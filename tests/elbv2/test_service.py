"""The driver as a process: flags, HTTP, credentials of AWS' chain, an orderly end."""

import signal

from pathlib import Path

from aiohttp import ClientSession

from tests.elbv2.clients import ADDRESS, KEY, RECORD, an_identity
from tests.elbv2.emulator import OURS, Emulator
from tests.elbv2.state import EmulatedGroup
from tests.webhooks.processes import running


DRIVER = "webhooks.elbv2"

AWAY = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
"""Keeps a driver away from the machine's own credentials."""


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
            async with running(DRIVER, *flags, *claims) as driver:
                async with client.post(
                    f"{driver.url}/{operation}", json=body
                ) as response:
                    seen.append((await response.json())["status"])
                seen.append(dict(group.owners))
                if operation == "deregisterBackend":
                    driver.child.send_signal(signal.SIGTERM)
                    seen.append(await driver.child.wait())

    assert ["Succ", {KEY: OURS}, "Succ", {}, 0] == seen


async def test_the_chain_of_aws(emulator: Emulator, group: EmulatedGroup) -> None:
    """Without a folder, credentials and region come from where AWS' tools look."""
    body = {"recordID": RECORD, "lbSpec": {"targetGroups": "web"}}
    found = AWAY | {
        "AWS_ACCESS_KEY_ID": OURS,
        "AWS_SECRET_ACCESS_KEY": emulator.keys[OURS].secret,
        "AWS_DEFAULT_REGION": "eu-test-1",
    }
    async with (
        running(DRIVER, "--endpoint-url", emulator.url, environ=found) as driver,
        ClientSession() as client,
        client.post(f"{driver.url}/createLoadBalancer", json=body) as response,
    ):
        answer = await response.json()

    assert group.arn == answer["lbInfo"]["targetGroups"]


async def test_without_credentials_and_region(emulator: Emulator) -> None:
    """Each is asked for in a message of its own."""
    said = []
    async with (
        running(DRIVER, "--endpoint-url", emulator.url, environ=AWAY) as driver,
        ClientSession() as client,
    ):
        for region in ({}, {"region": "eu-test-1"}):
            body = {"recordID": RECORD, "lbSpec": {"targetGroups": "web"} | region}
            async with client.post(
                f"{driver.url}/createLoadBalancer", json=body
            ) as response:
                said.append((await response.json())["msg"])

    assert "no region" in said[0]
    assert "Unable to locate credentials" in said[1]
