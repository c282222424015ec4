"""What reaches a driver of another process is noted, also if that is killed meanwhile."""

import asyncio
import signal
import sys

from math import isinf
from pathlib import Path

import aiohttp

from lbcf.core.model.operations import Operation
from tests.lab.cluster.ports import free_ports
from tests.lab.traced.recording import recorded


ROOT = Path(__file__).parents[3]
NEVER = "2100-01-01T00:00:00Z"


def _asked(record: str) -> dict[str, object]:
    """Return what a call about a record says."""
    asked = {"recordID": record, "retryID": "r", "dryRun": False, "notAfter": NEVER}
    about = {"lbInfo": {"name": "front"}, "backendAddr": "192.0.2.1:80"}
    rest = {"parameters": {}, "injectedInfo": {}, "memberKey": "Address"}
    return {**asked, **about, **rest, "namespace": "shop"}


def _asked_by_lbcf(record: str) -> dict[str, object]:
    """Return what a call says of who knows its protocol alone: not until when."""
    return {key: said for key, said in _asked(record).items() if key != "notAfter"}


async def test_calls_of_a_killed_driver_are_kept(tmp_path: Path) -> None:
    """Single ones and those of a batch: by whom, about which record, with which answer."""
    path, port = tmp_path / "calls.jsonl", free_ports(1)[0]
    words = ("-m", "tests.lab.traced.recording", str(path), "webhooks.memory")
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, *words, "--bind-address", f"127.0.0.1:{port}"), cwd=ROOT
    )
    try:
        headers = {"User-Agent": "lbcf (me)"}
        url = f"http://127.0.0.1:{port}"
        async with aiohttp.ClientSession(url, headers=headers) as session:
            await _until_up(session)
            one, many = _asked("u-1"), {"items": [_asked("u-2"), _asked("u-3")]}
            for operation, body in (
                (Operation.ENSURE_BACKEND, one),
                (Operation.ENSURE_BACKENDS, many),
                (Operation.ENSURE_BACKEND, _asked_by_lbcf("u-4")),
            ):
                async with session.post(f"/{operation}", json=body) as response:
                    assert 200 == response.status, await response.text()
    finally:
        child.send_signal(signal.SIGKILL)
        await child.wait()

    found = list(recorded(path))

    assert ["u-1", "u-2", "u-3", "u-4"] == [call.record for call in found]
    assert [False, False, True, False] == [call.shares for call in found]
    assert [False, False, False, True] == [isinf(call.not_after) for call in found]
    assert {("ensure", "succeeded", "lbcf (me)", True)} == {
        (call.op, call.outcome, call.agent, call.heard) for call in found
    }


async def _until_up(session: aiohttp.ClientSession) -> None:
    """Wait until the driver answers."""
    while True:
        try:
            async with session.get("/healthz"):
                return
        except aiohttp.ClientConnectionError:
            await asyncio.sleep(0.1)
