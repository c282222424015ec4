"""Signals, sent to this process and, where they end one, to a real child."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

from collections.abc import Iterator
from pathlib import Path

import pytest

from lbcf.runtime.shutdown import (
    HURRIED_EXIT,
    RoundCutError,
    note_signals,
    stop_on_signals,
    until_asked,
)


ROOT = Path(__file__).parents[2]

CHILD = """
import asyncio, time
from lbcf.runtime.shutdown import note_signals, stop_on_signals

async def main():
    with note_signals() as request, stop_on_signals(request) as asked:
        print("listening", flush=True)
        await asked.wait()
        print("asked", flush=True)
        {then}

asyncio.run(main())
"""


TWICE = """
import asyncio, os
from lbcf.runtime.shutdown import note_signals, stop_on_signals

async def main(request):
    with stop_on_signals(request):
        os.kill(os.getpid(), {number})

with note_signals() as request:
    os.kill(os.getpid(), {number})
    asyncio.run(main(request))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_first_signal_sets_the_event(number: signal.Signals) -> None:
    """Each of the two asks for an orderly end."""
    with note_signals() as request, stop_on_signals(request) as asked:
        before = asked.is_set()
        os.kill(os.getpid(), number)
        await asked.wait()

    assert not before


async def test_request_is_made_while_the_loop_stands_still() -> None:
    """The event needs a turn of the loop, which a process that ends may have no more."""
    with note_signals() as request, stop_on_signals(request) as asked:
        before = request.is_made
        os.kill(os.getpid(), signal.SIGTERM)
        assert (True, False) == (request.is_made, asked.is_set())
        await asked.wait()

    assert not before


async def test_request_that_was_made_before_is_told_at_once() -> None:
    """As between two loops of a process."""
    with note_signals() as request:
        os.kill(os.getpid(), signal.SIGTERM)
        with stop_on_signals(request) as asked:
            assert asked.is_set()


async def test_signal_wakes_a_loop_that_sleeps() -> None:
    """One that another thread receives does not interrupt the loop's own sleep."""

    def interrupt() -> None:
        time.sleep(0.2)  # until the loop has nothing to do
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    with note_signals() as request, stop_on_signals(request) as asked:
        sender = threading.Thread(target=interrupt)
        sender.start()
        await asked.wait()
        sender.join()

    assert asked.is_set()


async def test_what_was_there_before_comes_back() -> None:
    """Leaving the block restores the handlers."""
    before = signal.getsignal(signal.SIGTERM)
    with note_signals() as request, stop_on_signals(request):
        during = signal.getsignal(signal.SIGTERM)

    assert before is signal.getsignal(signal.SIGTERM)
    assert before is not during


@contextlib.contextmanager
def child(then: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a process that listens, and does something once it is asked to end."""
    started = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(then=then)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert "listening\n" == next(iter(started.stdout or ()))
        yield started
    finally:
        # A process that did not end would outlive the test run.
        started.kill()
        started.wait()
        if started.stdout:
            started.stdout.close()


def test_asked_process_ends_as_it_likes() -> None:
    """After one signal the process goes through its own end, with status 0."""
    with child("print('tidy')") as process:
        process.terminate()
        output, _ = process.communicate()

    assert output.endswith("asked\ntidy\n")
    assert 0 == process.returncode


@pytest.mark.parametrize(
    "then", ["await asyncio.sleep(600)", "time.sleep(600)"], ids=["waiting", "stalled"]
)
def test_second_signal_ends_the_process_at_once(then: str) -> None:
    """Also while the event loop stands still."""
    with child(then) as process:
        process.terminate()
        for line in process.stdout or ():
            if line == "asked\n":
                break
        process.send_signal(signal.SIGINT)

        assert HURRIED_EXIT == process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_counts_the_one_before_the_loop(number: signal.Signals) -> None:
    """It ends the process at once all the same."""
    done = subprocess.run(
        [sys.executable, "-c", TWICE.format(number=number.value)], cwd=ROOT, check=False
    )

    assert HURRIED_EXIT == done.returncode


async def test_round_that_breaks_down_ends_the_waiting() -> None:
    """Nobody would miss it until the process begins anew; one that is through is no matter."""
    stop = asyncio.Event()

    async def ends() -> None:
        await asyncio.sleep(0)

    async def breaks() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("a defect")

    rounds = [asyncio.create_task(ends()), asyncio.create_task(breaks())]
    with pytest.raises(ValueError, match="a defect"):
        await until_asked(stop, rounds)


async def test_round_that_a_library_cancels_is_no_orderly_end() -> None:
    """As one that breaks down; nobody has asked for it."""

    async def is_cut() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RoundCutError, match="is_cut was cancelled"):
        await until_asked(asyncio.Event(), [asyncio.create_task(is_cut())])


async def test_waiting_ends_when_it_is_asked_for() -> None:
    """Rounds are left to whoever made them."""
    stop = asyncio.Event()
    going_on = asyncio.create_task(asyncio.Event().wait())
    waiting = asyncio.create_task(until_asked(stop, [going_on]))
    stop.set()
    await waiting

    assert not going_on.done()
    going_on.cancel()
