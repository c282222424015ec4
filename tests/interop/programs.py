"""Runs a client as a program, and reads the JSON that it prints last."""

import asyncio
import json
import os
import sys

from collections.abc import Mapping
from pathlib import Path
from typing import Any


PATIENCE = 300.0
"""Seconds; a Go program is compiled in them, and ansible takes its time."""


async def run(
    *words: str | Path,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program to its end; return what it printed.

    Raises:
        AssertionError: it failed; with all that it said.
    """
    child = await asyncio.create_subprocess_exec(
        *(str(word) for word in words),
        cwd=folder,
        env=os.environ | dict(environment or {}),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            printed, complained = await child.communicate()
    except TimeoutError:
        child.kill()
        await child.wait()
        raise
    text = printed.decode()
    assert 0 == child.returncode, f"{words[0]} failed:\n{text}\n{complained.decode()}"
    return text


async def run_for_json(
    *words: str | Path,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> object:
    """Run a program whose last line is JSON; return that."""
    printed = await run(*words, folder=folder, environment=environment)
    return json.loads(printed.strip().splitlines()[-1])


async def play(playbook: Path, variables: Mapping[str, object], folder: Path) -> Any:
    """Play a playbook of ansible; return the JSON that it left at `result`."""
    result = folder / "result.json"
    said = dict(variables) | {
        "result": str(result),
        "ansible_python_executor": sys.executable,
    }
    await run(
        Path(sys.executable).parent / "ansible-playbook",
        playbook,
        "--extra-vars",
        json.dumps(said),
        folder=folder,
        environment={"ANSIBLE_LOCALHOST_WARNING": "False", "HOME": str(folder)},
    )
    return json.loads(result.read_text())
