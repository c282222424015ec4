"""Two network namespaces with a link between them that can be cut.

    198.18.0.1 callers ---- driver 198.18.0.2

They are those of two processes of the test's own, and go with these.
"""

import contextlib
import subprocess
import time

from collections.abc import Iterator
from pathlib import Path

import attrs

from tests.lab.cluster.commands import environment, run


CALLERS, DRIVER = "198.18.0.1", "198.18.0.2"


@attrs.frozen
class Site:
    """Both namespaces, by the ids of the processes that hold them."""

    callers: int
    driver: int

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        """Drop, inside the block, whatever comes to the driver."""
        nft = [*_within(self.driver), "nft"]
        hook = "{ type filter hook input priority 0; policy drop; }"
        run(*nft, "add", "table", "inet", "cut")
        run(*nft, "add", "chain", "inet", "cut", "in", hook)
        try:
            yield
        finally:
            run(*nft, "delete", "table", "inet", "cut")


@contextlib.contextmanager
def a_site() -> Iterator[Site]:
    """Make the namespaces and the link."""
    with _namespace() as callers, _namespace() as driver:
        link = ("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0")
        run(*_within(callers), *link, "netns", str(driver))
        for holder, address in ((callers, CALLERS), (driver, DRIVER)):
            inside = _within(holder)
            run(*inside, "ip", "addr", "add", f"{address}/24", "dev", "eth0")
            run(*inside, "ip", "link", "set", "eth0", "up")
        yield Site(callers, driver)


@contextlib.contextmanager
def started(holder: int, *argv: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run a program in a namespace, until the block ends at the latest."""
    words = [*_within(holder), *(str(word) for word in argv)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, env=environment(), stdin=pipe, stdout=pipe, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[str], word: str) -> str:
    """Tell a program one word; return the line that it answers."""
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()
    return heard(process)


def heard(process: subprocess.Popen[str]) -> str:
    """Return a program's next line."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextlib.contextmanager
def _namespace() -> Iterator[int]:
    """Make a network namespace; give the id of the process that holds it."""
    argv = ["unshare", "--net", "sleep", "infinity"]
    with subprocess.Popen(argv, env=environment()) as holder:
        try:
            own = Path("/proc/self/ns/net").readlink()
            while Path(f"/proc/{holder.pid}/ns/net").readlink() == own:
                assert holder.poll() is None, "no network namespace: run as root"
                time.sleep(0.01)
            yield holder.pid
        finally:
            holder.kill()


def _within(holder: int) -> list[str]:
    """Return what runs a command in a namespace."""
    return ["nsenter", f"--net=/proc/{holder}/ns/net", "--"]
