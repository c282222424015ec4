"""Programs of Debian packages that are unpacked beside the system, not installed.

Installed, Prometheus would bring a user and a service with it; what the tests of the
alerts and of the dashboard need are two programs of it. `python -m tests.lab.cluster
packages` fetches them beforehand.
"""

import os
import subprocess
import tempfile

from pathlib import Path

from tests.lab.cluster.binaries import Say, cache_folder
from tests.lab.cluster.commands import environment, find_program
from tests.lab.cluster.errors import ClusterError, MissingError


PACKAGE = "prometheus"


def promtool(say: Say) -> Path:
    """The path of promtool, from this machine or from the cache.

    Raises:
        MissingError: It is nowhere, and this is not Debian.
        ClusterError: It could not be fetched.
    """
    return _program("promtool", say)


def prometheus(say: Say) -> Path:
    """The path of Prometheus' server; raises what `promtool` raises."""
    return _program(PACKAGE, say)


def _program(name: str, say: Say) -> Path:
    """The path of one of the package's programs."""
    if found := find_program(name):
        return Path(found)
    kept = cache_folder() / PACKAGE
    if not kept.exists():
        if find_program("apt-get") is None or find_program("dpkg") is None:
            raise MissingError(
                f"missing: {name}. It comes with Prometheus: put it on PATH"
            )
        say(f"fetching {PACKAGE}")
        _fetch(kept)
    return kept / "usr" / "bin" / name


def _fetch(kept: Path) -> None:
    """Download the package and unpack it; another process may be faster.

    Raises:
        ClusterError: apt-get or dpkg failed.
    """
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        folder = Path(name)
        if not _succeeds(folder, "apt-get", "-q", "download", PACKAGE):
            if os.geteuid() == 0:
                _run(folder, "apt-get", "-q", "update")
            _run(folder, "apt-get", "-q", "download", PACKAGE)
        [archive] = folder.glob(f"{PACKAGE}_*.deb")
        _run(folder, "dpkg", "-x", archive.name, "unpacked")
        try:
            (folder / "unpacked").rename(kept)
        except OSError:
            if not kept.exists():
                raise


def _run(folder: Path, *argv: str) -> None:
    """Run a command in a folder.

    Raises:
        ClusterError: It failed; the text ends with what it said.
    """
    done = _done(folder, argv)
    if done.returncode:
        raise ClusterError(f"`{' '.join(argv)}` failed:\n{done.stdout[-1500:].strip()}")


def _succeeds(folder: Path, *argv: str) -> bool:
    """Whether a command in a folder ends with exit code 0."""
    return _done(folder, argv).returncode == 0


def _done(folder: Path, argv: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
    """Run a command in a folder to its end."""
    return subprocess.run(
        argv,
        cwd=folder,
        env={**environment(), "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
