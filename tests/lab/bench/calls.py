"""Reads the driver's history: which operation was called for which address, and when."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

import aiohttp
import attrs
import msgspec


class Call(msgspec.Struct, rename="camel"):
    """A call that has ended; `outcome` is a status, or an exception's name."""

    operation: str
    backend_addr: str
    began: datetime
    ended: datetime
    outcome: str


class _History(msgspec.Struct):
    """All calls that the driver remembers."""

    calls: list[Call]


_decode = msgspec.json.Decoder(_History).decode


async def history(driver_url: str) -> list[Call]:
    """Ask the driver for all its calls."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{driver_url}/control/history") as answer,
    ):
        return _decode(await answer.read()).calls


def counted(calls: Iterable[Call]) -> dict[str, int]:
    """Count calls by operation and outcome."""
    return dict(sorted(Counter(f"{c.operation} {c.outcome}" for c in calls).items()))


def first_began(calls: Iterable[Call], *operations: str) -> dict[str, float]:
    """Say when the first of these operations began, by address."""
    found: dict[str, float] = {}
    for call in calls:
        if call.operation in operations:
            moment = call.began.timestamp()
            found[call.backend_addr] = min(found.get(call.backend_addr, moment), moment)
    return found


@attrs.frozen
class Spread:
    """How long something took, in seconds, over many cases."""

    p50: float
    p99: float
    longest: float
    count: int


def spread(seconds: Iterable[float]) -> Spread | None:
    """Sum cases up, None where there are none."""
    found = sorted(seconds)
    if not found:
        return None
    last = len(found) - 1
    return Spread(found[last // 2], found[int(last * 0.99)], found[-1], len(found))


def between(begun: dict[str, float], done: dict[str, float]) -> Spread | None:
    """Sum up the times from one event to another of the same name."""
    return spread(done[name] - begun[name] for name in begun.keys() & done.keys())
