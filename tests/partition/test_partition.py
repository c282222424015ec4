"""What a sender gave up never arrives, however long the network held it back.

`LBCF_TEST_PARTITION=20` makes 20 tries of each way with the time-outs that drivers have
by default; without it there are three, with shorter ones.
"""

import contextlib
import os
import signal
import sys
import time

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from subprocess import Popen

import pytest
import trustme

from tests.partition.sender import Way
from tests.partition.site import DRIVER, Site, a_site, heard, started, told


TRIES = int(os.environ.get("LBCF_TEST_PARTITION", "0"))
TIMEOUT = 10.0 if TRIES else 1.0
DELTA = TIMEOUT + 5
"""Seconds after which a call counts as over, of drivers without lateEffectSeconds."""

SIGNALS = {
    Way.KILLED: signal.SIGKILL,
    Way.KILLED_TLS: signal.SIGKILL,
    Way.STOPPED: signal.SIGSTOP,
}

pytestmark = pytest.mark.nodes


def write_certificates(folder: Path) -> None:
    """Write what the driver's certificate and its callers' trust are."""
    authority = trustme.CA()
    leaf = authority.issue_cert(DRIVER)
    leaf.private_key_and_cert_chain_pem.write_to_path(str(folder / "driver.pem"))
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))


@contextlib.contextmanager
def senders(site: Site, folder: Path) -> Iterator[dict[Way, Popen[str]]]:
    """Start a process for each way of giving up."""
    rest = (str(TRIES or 3), str(TIMEOUT), folder)
    program = (sys.executable, "-m", "tests.partition.sender")
    with contextlib.ExitStack() as stack:
        running = {
            way: stack.enter_context(started(site.callers, *program, way, *rest))
            for way in Way
        }
        for process in running.values():
            assert "ready" == heard(process)
        yield running


def give_up(running: dict[Way, Popen[str]]) -> None:
    """Have all calls made and given up."""
    for process in running.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    # Before their calls are over by themselves: all others say so only then.
    for way in SIGNALS:
        assert "go" == heard(running[way]), way
    time.sleep(0.3)  # the calls go out just after the word
    for way, number in SIGNALS.items():
        running[way].send_signal(number)
    for way in running.keys() - SIGNALS.keys():
        assert "go" == heard(running[way]), way


def test_what_was_given_up_never_arrives(tmp_path: Path) -> None:
    """Cut for longer than calls may live, then mended: only the naive call arrives."""
    write_certificates(tmp_path)
    program = (sys.executable, "-m", "tests.partition.receiver", tmp_path)
    with a_site() as site, started(site.driver, *program) as driver:
        assert "ready" == heard(driver)
        with senders(site, tmp_path) as running:
            for process in running.values():
                assert "warm" == told(process, "warm")
            began = time.monotonic()
            with site.cut():
                give_up(running)
                # Not from the beginning on: some go out late on a slow machine.
                time.sleep(DELTA)
            # The kernel doubles the time between retransmissions.
            time.sleep(time.monotonic() - began + 1)
        every = dict.fromkeys(Way, TRIES or 3)
        requests = arrived(driver, every[Way.NAIVE])

    assert every == count(path for path in requests if "healthz" in path)
    assert {Way.NAIVE: every[Way.NAIVE]} == late(requests)


def arrived(driver: Popen[str], naive: int) -> list[str]:
    """End the driver; return the paths of all requests that came to it.

    It has so many naive ones written down by then: they are there, and it may be slow.
    """
    paths: list[str] = []
    while late(paths).get(Way.NAIVE, 0) < naive:
        paths.append(heard(driver).split()[1])
    driver.kill()
    assert driver.stdout is not None
    return paths + driver.stdout.read().split()[1::2]


def late(paths: Iterable[str]) -> Mapping[Way, int]:
    """Count the requests that were given up."""
    return count(path for path in paths if "healthz" not in path)


def count(paths: Iterable[str]) -> Mapping[Way, int]:
    """Count requests by the way of their senders, whose name begins their paths."""
    return Counter(Way(path.split("/")[1].rpartition("-")[0]) for path in paths)
