"""What processes use of the machine, read from /proc; and how late their loops are."""

import os

from collections.abc import Sequence
from pathlib import Path

import aiohttp
import attrs

from lbcf.core.model.operations import BATCHED, SINGLE


_TICKS = os.sysconf("SC_CLK_TCK")
_KIB = 1024


@attrs.frozen
class Usage:
    """What a process has used.

    Attributes:
        cpu: seconds, user and system, of all its threads.
        resident: bytes of memory now.
        peak: bytes of memory at most since `forget_peak`.
    """

    cpu: float
    resident: int
    peak: int

    def since(self, cpu: float) -> "Usage":
        """Leave out the CPU seconds used up to then."""
        return attrs.evolve(self, cpu=self.cpu - cpu)


def usage(pid: int) -> Usage:
    """Read what a process has used.

    Raises:
        FileNotFoundError: it has ended.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    sizes = dict(line.split(":", 1) for line in lines)
    return Usage(
        cpu=(int(fields[11]) + int(fields[12])) / _TICKS,
        resident=int(sizes["VmRSS"].split()[0]) * _KIB,
        peak=int(sizes["VmHWM"].split()[0]) * _KIB,
    )


def forget_peak(pid: int) -> None:
    """Let the peak of a process's memory begin anew from what it has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def machine() -> float:
    """Return the CPU seconds that the whole machine has used since it started.

    Also those that its host took away from it: they were missing as well.
    """
    first = Path("/proc/stat").read_text().partition("\n")[0]
    user, nice, system, _idle, _waiting, *rest = map(int, first.split()[1:9])
    return (user + nice + system + sum(rest)) / _TICKS


async def loop_lag(address: str) -> float:
    """Ask a process of ours for its event loop's worst delay in half a minute."""
    for name, number in await _metrics(address):
        if name == "lbcf_event_loop_lag_seconds":
            return number
    raise LookupError(f"{address} tells no lag of its event loop")


async def member_calls(address: str) -> int:
    """Ask a process of ours how often it has called drivers about members."""
    return about_members(await _metrics(address))


def about_members(metrics: Sequence[tuple[str, float]]) -> int:
    """Return how many calls of drivers were about members; a batch is one."""
    return sum(
        int(number)
        for name, number in metrics
        if name.startswith("lbcf_driver_calls_total{")
        and any(f'operation="{one}"' in name for one in (*SINGLE, *BATCHED))
    )


async def _metrics(address: str) -> list[tuple[str, float]]:
    """Read the metrics of a process."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{address}/metrics") as answer,
    ):
        return samples(await answer.text())


def samples(page: str) -> list[tuple[str, float]]:
    """Return what a page of metrics has: names with labels, and numbers."""
    lines = [one for one in page.splitlines() if one and not one.startswith("#")]
    parted = (one.rpartition(" ") for one in lines)
    return [(name, float(number)) for name, _, number in parted]
