"""The drivers in docs/writing-a-driver.md work as they are written there."""

import asyncio
import json
import os
import re
import sys

from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest

from lbcf import sdk
from lbcf.conformance.kit import examine
from lbcf.conformance.report import failed, lines_of
from lbcf.conformance.target import OPTIONAL, Target
from lbcf.core.model.operations import Operation


ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "writing-a-driver.md"
LONGEST = 52


def _modules() -> Mapping[str, str]:
    """The Python blocks of the guide, by the file that their first line names."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return {block.split("\n", 1)[0].removeprefix("# "): block for block in blocks}


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """A folder with all modules of the guide."""
    for name, text in _modules().items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_guide_keeps_its_word_on_length() -> None:
    """An afternoon is too long for more."""
    assert ["switchboard.py", "exchange.py", "trunk.py"] == list(_modules())
    assert len(_modules()["switchboard.py"].splitlines()) < LONGEST


async def test_types_of_the_guide_are_right(folder: Path) -> None:
    """What an author copies passes the strictest settings."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mypy", "--strict", "--no-error-summary"),
        *("--cache-dir", str(folder / "cache"), *_modules()),
        cwd=folder,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate()

    assert (0, "") == (process.returncode, told.decode())


@pytest.mark.parametrize(
    ("module", "declared"), [("switchboard.py", frozenset()), ("exchange.py", OPTIONAL)]
)
async def test_drivers_of_the_guide_register_and_deregister(
    folder: Path, module: str, declared: frozenset[Operation]
) -> None:
    """Each runs as a process, keeps all rules, and answers both operations."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, folder / module, "--bind-address", "127.0.0.1:0"),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        url = "http://" + json.loads(await process.stderr.readline())["addresses"][0]
        member = {"recordID": "a", "backendAddr": "10.0.0.1:80", "lbInfo": {}}
        target = Target(
            url=url,
            lb_spec={"name": "lb"},
            member_key=sdk.MemberKey.RECORD,
            declared=declared,
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
