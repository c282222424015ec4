"""Makes many runs on a few cores, in any order, with the same tally every time.

    tally_all -> a worker per core: a bare case -> tally_apart -> a child per batch of its runs

Each run begins anew. A child forked at the step that fails would not have to repeat the
half of a run that comes before it; but it copies some 3,500 pages, if only for reference
counts, and that takes longer than this half does in most runs (13 to 20 ms, measured).
"""

import gc
import multiprocessing
import os
import pickle
import traceback

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NoReturn, cast

import structlog

from tests.lab.sweep.explore import Case, Tally, tally_of


SILENT = 50
"""Nothing but what is critical."""
_THRESHOLDS = (200_000, 10, 10)
"""Allocations, a few runs' worth: each run ends in cycles, and has few before. At Python's
own 700, a sixth of the time of a run goes into looking for them (measured)."""
_BATCH = 150
"""Runs of a process that looks for no cycles: it grows by half a megabyte in each. Its start
and the pages that it copies cost about as much as one run does."""


def silence() -> None:
    """Let nothing be logged: for a process that does nothing but runs."""
    wrapper = structlog.make_filtering_bound_logger(SILENT)
    structlog.configure(
        wrapper_class=wrapper,
        logger_factory=structlog.ReturnLoggerFactory(),
        cache_logger_on_first_use=True,
    )


def prepare() -> None:
    """Get a process ready that does nothing but runs, it and its children."""
    silence()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


def tally_apart(cases: Iterable[Case]) -> Tally:
    """Run cases in processes of their own, a batch in each, one process at a time.

    What a run leaves behind is collected by nobody, and goes with its process: looking for it,
    and taking it apart, is a fifth of the time of a run (measured).
    """
    whole = Tally()
    rest = iter(cases)
    while batch := list(islice(rest, _BATCH)):
        whole.add(_apart(batch))
    return whole


def _apart(batch: list[Case]) -> Tally:
    """Run cases in a child of this process.

    Raises:
        RuntimeError: the child died; it has told why.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        _tell_and_end(batch, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        tally = told.read()
    _, status = os.waitpid(child, 0)
    if status:
        cases = f"{batch[0]} to {batch[-1]}"
        raise RuntimeError(f"the process of {cases} ended with wait status {status}")
    return cast("Tally", pickle.loads(tally))  # noqa: S301 - of our own child


def _tell_and_end(batch: list[Case], writer: int) -> NoReturn:
    """Run cases, and end without tidying up."""
    gc.disable()
    status = 1
    try:
        with os.fdopen(writer, "wb") as told:
            pickle.dump(tally_of(batch), told)
        status = 0
    except BaseException:  # noqa: BLE001 - told, whatever it is: nothing of it goes up
        traceback.print_exc()
    finally:
        os._exit(status)


@contextmanager
def silenced() -> Iterator[None]:
    """Let nothing be logged for a while: for one test among others of a process.

    Loggers are not kept on first use, or they would stay silent after it.
    """
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(SILENT))
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Look for cycles as seldom as `prepare` has it, for a while: for one test among others."""
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def tally_all(
    work: Callable[[Case], Tally],
    cases: Sequence[Case],
    workers: int,
    told: Callable[[int, Tally], None] = lambda _done, _tally: None,
) -> Tally:
    """Have cases worked on, and add up what comes of it.

    Args:
        work: on one case.
        cases: all of them.
        workers: how many processes; 1: this one.
        told: after each case, how many are done and what is known.
    """
    whole = Tally()
    if workers == 1:
        return _add_all(whole, map(work, cases), told)
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        return _add_all(whole, pool.imap_unordered(work, cases), told)


def _add_all(
    whole: Tally, tallies: Iterable[Tally], told: Callable[[int, Tally], None]
) -> Tally:
    """Add tallies up."""
    for done, tally in enumerate(tallies, 1):
        whole.add(tally)
        told(done, whole)
    return whole
