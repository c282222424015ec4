"""Writes reports: as JSON with the API's spelling, or as tables.

Before it: a report, which is a frozen value. After it: standard output. What draws
tables is imported only when one is drawn.
"""

import sys

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from lbcf.ctl.errors import CtlError


Prints = Callable[[object], None]
"""Writes one report."""


def printer(output: str, *, watching: bool = False) -> Prints:
    """Say how reports are written.

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
        raise CtlError(f"{error}: pip install 'lbcf[ctl]', or use -o json") from error
    return tables.print_report


def is_looked_at(output: str) -> bool:
    """Tell whether a person reads along, at a terminal."""
    return output != "json" and sys.stdout.isatty()


@contextmanager
def screen(output: str) -> Iterator[Prints]:
    """Give what redraws a report in its place; where nobody looks, one after the other.

    Raises:
        CtlError: the library that draws tables is not installed.
    """
    write = printer(output, watching=True)
    if not is_looked_at(output):
        yield lambda report: _at_once(write, report)
        return
    from lbcf.ctl import tables  # noqa: PLC0415

    with tables.live() as redraw:
        yield redraw


def _at_once(write: Prints, report: object) -> None:
    """Write a report so that whoever reads a pipe has it now."""
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
    return _spelled(msgspec.to_builtins(report))


def _spelled(value: object) -> object:
    """Spell the names of fields; no report has maps with keys of users."""
    match value:
        case dict():
            return {_camel(str(key)): _spelled(one) for key, one in value.items()}
        case list() | tuple():
            return [_spelled(one) for one in value]
        case _:
            return value


def _camel(name: str) -> str:
    """Spell `load_balancer` as `loadBalancer`."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
