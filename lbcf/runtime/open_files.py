"""How many files a process may have open: each connection is one (RLIMIT_NOFILE).

containerd 2 leaves containers the soft limit of systemd, 1,024, which is there for programs
that use select(2), and the hard one of 524,288 (systemd 240, NEWS).
"""

import contextlib
import sys


if sys.platform != "win32":  # where `kubectl lbcf` runs, and no process
    import resource


def raise_limit() -> None:
    """Raise the soft limit to the hard one, as Go's runtime does for each program."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS says that there is none, and takes none.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    """Return how many files may be open at a time."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
