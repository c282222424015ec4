"""Runs `lbcf ctl` as people do, with nobody at the terminal or with somebody there."""

import asyncio
import json
import os
import pty
import sys

from pathlib import Path
from typing import Any

import attrs

from tests.e2e.stage import Stage
from tests.patience import PATIENCE


ROLES = Path(__file__).parents[2] / "manifests" / "rbac" / "users.yaml"

END_OF_INPUT = "\x04"
"""Ctrl-D, which a terminal takes for the end of input."""


@attrs.frozen
class Answer:
    """What came of a command."""

    status: int
    out: str
    err: str

    @property
    def report(self) -> Any:
        """The report, where it is JSON."""
        return json.loads(self.out)


async def ask(
    stage: Stage,
    *words: str,
    login: Path | None = None,
    stdin: int = asyncio.subprocess.DEVNULL,
) -> Answer:
    """Run a command in the stage's namespace, with nobody at the terminal."""
    argv = [
        *(sys.executable, "-m", "lbcf", "ctl", *words, "-n", stage.namespace),
        *("--kubeconfig", str(login or stage.cluster.kubeconfig)),
    ]
    running = await asyncio.create_subprocess_exec(
        *argv,
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(running.communicate(), PATIENCE)
    assert running.returncode is not None
    return Answer(running.returncode, out.decode(), err.decode())


async def a_tenant(stage: Stage) -> Path:
    """Make somebody with the role `view` in the stage's namespace; returns the login."""
    cluster, user = stage.cluster, f"tenant-{stage.namespace}"
    await asyncio.to_thread(cluster.kubectl, "apply", "-f", ROLES)
    grant = ("create", "rolebinding", user, "-n", stage.namespace, "--clusterrole=view")
    await asyncio.to_thread(cluster.kubectl, *grant, f"--user={user}")
    login = cluster.kubeconfig_for(user, groups=())

    async def allowed() -> bool:
        """Whether the roles have been added to those of the cluster."""
        return (await ask(stage, "drains", login=login)).status == 0

    await stage.until("the tenant may look", allowed)
    return login


async def answered(stage: Stage, *words: str, typed: str) -> Answer:
    """Run a command with somebody at the terminal, who types this when asked."""
    person, terminal = pty.openpty()
    try:
        # The terminal keeps what is typed until somebody reads it.
        os.write(person, typed.encode())
        return await ask(stage, *words, stdin=terminal)
    finally:
        os.close(person)
        os.close(terminal)
