"""Short commands that set a namespace up: `ip`, `mount`, files below /proc/sys.

Used by the processes inside (`nodes`, `node`) and from outside (`inside`).
"""

import os
import shutil
import subprocess

from pathlib import Path


# Where programs of the system are; not on everybody's PATH, not even root's.
PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
UNPROXIED = "127.0.0.1,localhost,198.18.0.0/15"


def environment() -> dict[str, str]:
    """This environment, so that system programs are found and no proxy is asked."""
    own = dict(os.environ)
    own["PATH"] = f"{own['PATH']}:{PLACES}" if own.get("PATH") else PLACES
    for name in ("NO_PROXY", "no_proxy"):
        own[name] = f"{own[name]},{UNPROXIED}" if own.get(name) else UNPROXIED
    return own


def find_program(name: str) -> str | None:
    """The path of a program, on PATH or where system programs are."""
    return shutil.which(name, path=environment()["PATH"])


def run(*argv: str | Path) -> str:
    """Run a command and return what it printed.

    Raises:
        RuntimeError: It failed; the text is what it said.
    """
    words = [str(word) for word in argv]
    done = subprocess.run(
        words, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"`{' '.join(words)}` failed: {done.stderr.strip()}")
    return done.stdout


def succeeds(*argv: str | Path) -> bool:
    """Whether a command ends with exit code 0."""
    done = subprocess.run(argv, env=environment(), capture_output=True, check=False)
    return done.returncode == 0


def mount_tmpfs(path: Path, *, size: str = "50%") -> None:
    """Mount an empty file system in memory."""
    run("mount", "-t", "tmpfs", "-o", f"mode=755,size={size}", "tmpfs", path)


def set_kernel(name: str, setting: int) -> None:
    """Set a kernel parameter, of this network namespace if it is one of those."""
    Path("/proc/sys", name).write_text(f"{setting}\n")
