"""Calls of the cluster's command line, as a person makes them."""

import os
import subprocess
import sys

from pathlib import Path


REPOSITORY = Path(__file__).parents[2]
HANGS = 600.0
"""Seconds after which a call counts as hanging; a start may take some minutes."""


def call(
    *args: str | Path, before: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `python -m tests.lab.cluster` to its end.

    Args:
        args: Its arguments.
        before: Words that go before the command line.
        environment: Variables to set.
    """
    return subprocess.run(
        [*before, sys.executable, "-m", "tests.lab.cluster", *args],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )


def refusal(*args: str | Path, before: tuple[str, ...] = (), **environment: str) -> str:
    """The one line on stderr of a call that is refused with exit code 2."""
    done = call(*args, before=before, **environment)
    assert (2, "", 1) == (done.returncode, done.stdout, done.stderr.count("\n")), done
    return done.stderr
