"""The driver in docs/writing-a-driver.md works as it is written there."""

import asyncio
import json
import re
import sys

from pathlib import Path

import aiohttp

from lbcf import sdk
from lbcf.conformance.kit import examine
from lbcf.conformance.report import failed, lines_of
from lbcf.conformance.target import Target


GUIDE = Path(__file__).parents[2] / "docs" / "writing-a-driver.md"
LONGEST = 40


def _driver() -> str:
    """The first Python block of the guide."""
    found = re.search(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def test_guide_keeps_its_word_on_length() -> None:
    """An afternoon is too long for more."""
    assert len(_driver().splitlines()) < LONGEST


async def test_driver_of_the_guide_registers_and_deregisters(tmp_path: Path) -> None:
    """It runs as a process, keeps all rules, and answers both operations."""
    module = tmp_path / "switchboard.py"
    module.write_text(_driver())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, module, "--bind-address", "127.0.0.1:0"),
        cwd=GUIDE.parents[1],
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        url = "http://" + json.loads(await process.stderr.readline())["addresses"][0]
        member = {"recordID": "a", "backendAddr": "10.0.0.1:80", "lbInfo": {}}
        target = Target(
            url=url, lb_spec={"name": "lb"}, member_key=sdk.MemberKey.RECORD
        )
        results = await examine(target, sdk.SystemClock())
        assert [] == [lines_of(one) for one in results if failed([one])]
        async with aiohttp.ClientSession() as session:
            for operation in ("ensureBackend", "deregisterBackend"):
                async with session.post(f"{url}/{operation}", json=member) as answer:
                    assert "Succ" == (await answer.json())["status"]
    finally:
        process.terminate()
        await process.communicate()
    assert 0 == process.returncode
