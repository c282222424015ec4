"""Makes many runs on a few cores, in any order, with the same tally every time."""

import gc
import multiprocessing

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import structlog

from tests.lab.sweep.explore import Case, Tally


SILENT = 50
"""Nothing but what is critical."""
_BETWEEN_COLLECTIONS = 200_000
"""Allocations, a few runs' worth: each run ends in cycles, and has few before. At Python's
own 700, a sixth of the time of a run goes into looking for them (measured)."""


def silence() -> None:
    """Let nothing be logged: for a process that does nothing but runs."""
    wrapper = structlog.make_filtering_bound_logger(SILENT)
    structlog.configure(
        wrapper_class=wrapper,
        logger_factory=structlog.ReturnLoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _prepare() -> None:
    """Get a process ready that does nothing but runs."""
    silence()
    gc.freeze()
    gc.set_threshold(_BETWEEN_COLLECTIONS, 10, 10)


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
    with multiprocessing.get_context("fork").Pool(workers, _prepare) as pool:
        return _add_all(whole, pool.imap_unordered(work, cases), told)


def _add_all(
    whole: Tally, tallies: Iterable[Tally], told: Callable[[int, Tally], None]
) -> Tally:
    """Add tallies up."""
    for done, tally in enumerate(tallies, 1):
        whole.add(tally)
        told(done, whole)
    return whole
