"""Debian packages that real nodes and tests need, and their installation.

`prerequisites` asks what is missing; `python -m tests.lab.cluster packages` installs.
"""

import contextlib
import os
import subprocess

from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.lab.cluster.binaries import Say
from tests.lab.cluster.commands import environment, find_program
from tests.lab.cluster.errors import ClusterError, MissingError


# Each package with a program of it. The program counts, not the package: a machine
# may have it from elsewhere.
PACKAGES = {
    "busybox-static": "busybox",
    "conntrack": "conntrack",
    "containerd": "containerd",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "haproxy": "haproxy",
    "iproute2": "ip",
    "iptables": "iptables",
    "nftables": "nft",
    "runc": "runc",
    "socat": "socat",
    "util-linux": "unshare",
}
# What the search of the lifecycle's model runs on; a cluster does without.
SEARCH = {"gcc": "gcc", "pypy3": "pypy3", "spin": "spin"}
POLICY = Path("/usr/sbin/policy-rc.d")


def missing_packages(packages: Mapping[str, str] = PACKAGES) -> list[str]:
    """The packages whose program is nowhere on this machine."""
    return [
        package
        for package, program in packages.items()
        if find_program(program) is None
    ]


def install_packages(say: Say, packages: Mapping[str, str] = PACKAGES | SEARCH) -> None:
    """Install what is missing, if anything is.

    Args:
        say: Told what is installed.
        packages: Each with a program of it.

    Raises:
        MissingError: Something is missing and this is not root on Debian.
        ClusterError: apt-get failed.
    """
    missing = missing_packages(packages)
    if not missing:
        return
    if os.geteuid() or find_program("apt-get") is None:
        raise MissingError(
            f"missing: {', '.join(missing)}. As root on Debian or Ubuntu "
            "`python -m tests.lab.cluster packages` installs them; elsewhere install "
            "what has these programs yourself"
        )
    say(f"installing {', '.join(missing)}")
    _apt("update", "-q")
    with _no_service_starts():
        # Never in place of what is there: another containerd may be in use.
        flags = ["--no-upgrade", "--no-install-recommends", "--no-remove"]
        _apt("install", "-y", "-q", *flags, *missing)


def _apt(*args: str) -> None:
    """Run apt-get.

    Raises:
        ClusterError: It failed; the text ends with what it said.
    """
    done = subprocess.run(
        ["apt-get", *args],
        env={**environment(), "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stdout[-1500:].strip()
        raise ClusterError(f"`apt-get {' '.join(args)}` failed:\n{said}")


@contextlib.contextmanager
def _no_service_starts() -> Iterator[None]:
    """Keep packages from starting their services on installation."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()
