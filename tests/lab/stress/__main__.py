"""Runs pytest under stress."""

import argparse
import secrets
import subprocess
import sys

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep so many processes computing."""
    with ExitStack() as stack:
        for _ in range(loops):
            loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(loop.wait)
            stack.callback(loop.kill)
        yield


def main() -> int:
    """Read the command line and run; return pytest's status."""
    parser = argparse.ArgumentParser(prog="tests.lab.stress", description=__doc__)
    parser.add_argument("--loops", type=int, default=4, help="busy ones; default: 4")
    parser.add_argument("--seed", type=int, help="of the order; default: a new one")
    parser.add_argument(
        "--stalls", action="store_true", help="let pytest's processes stand still, too"
    )
    parser.add_argument("pytest", nargs="*", help="what pytest is told, after --")
    flags = parser.parse_args()
    seed = secrets.randbelow(10**6) if flags.seed is None else flags.seed
    print(f"{flags.loops} busy loops, order of seed {seed}", flush=True)
    # pytest-xdist would sort the files by how many tests they have.
    order = ("--random-order", f"--random-order-seed={seed}", "--no-loadscope-reorder")
    stalls = ("-p", "tests.lab.stress.stalls") if flags.stalls else ()
    with busy(flags.loops):
        command = (sys.executable, "-m", "pytest", *order, *stalls, *flags.pytest)
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
