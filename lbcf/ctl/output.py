"""Writes reports to standard output: as JSON with the API's spelling, or as tables.

`rich`, which draws the tables, is optional and slow: imported only when one is drawn.
"""

import sys

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from lbcf.ctl.errors import CtlError


ReportWriter = Callable[[object], None]
"""Writes one report."""


def report_writer(output: str, *, watching: bool = False) -> ReportWriter:
    """Return what writes reports.

    Args:
        output: `json` or `table`.
        watching: several follow: JSON takes one line each.

    Raises:
        CtlError: the library that draws tables is not installed.
    """
    if output == "json":
        return print_line if watching else print_json
    try:
        from lbcf.ctl import tables  # noqa: PLC0415
    except ModuleNotFoundError as error:
        lacking = (
            f"{error}: lbcf is installed without its extra `ctl` (docs/kubectl.md)"
        )
        raise CtlError(f"{lacking}; -o json needs none") from error
    return tables.print_report


def is_interactive(output: str) -> bool:
    """Return whether tables go to a terminal."""
    return output != "json" and sys.stdout.isatty()


@contextmanager
def screen(output: str) -> Iterator[ReportWriter]:
    """Provide what redraws a report in its place; into a pipe, one after the other.

    Raises:
        CtlError: the library that draws tables is not installed.
    """
    write = report_writer(output, watching=True)
    if not is_interactive(output):
        yield lambda report: _write_and_flush(write, report)
        return
    from lbcf.ctl import tables  # noqa: PLC0415

    with tables.live() as redraw:
        yield redraw


def _write_and_flush(write: ReportWriter, report: object) -> None:
    write(report)
    sys.stdout.flush()


def print_json(report: object) -> None:
    """Write a report for programs."""
    text = msgspec.json.format(msgspec.json.encode(as_builtins(report)), indent=2)
    sys.stdout.write(f"{text.decode()}\n")


def print_line(report: object) -> None:
    """Write a report for programs, in one line."""
    sys.stdout.write(f"{msgspec.json.encode(as_builtins(report)).decode()}\n")


def as_builtins(report: object) -> object:
    """Turn a report into JSON's types, its fields spelled as in the API."""
    return _camel_cased(msgspec.to_builtins(report))


def _camel_cased(value: object) -> object:
    # No report has a map with keys of users: all keys are names of fields.
    match value:
        case dict():
            return {_camel(str(key)): _camel_cased(one) for key, one in value.items()}
        case list() | tuple():
            return [_camel_cased(one) for one in value]
        case _:
            return value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
