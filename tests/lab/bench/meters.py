"""What processes use of the machine, read from /proc; and how late their loops are."""

import os

from pathlib import Path

import aiohttp
import attrs


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
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{address}/metrics") as answer,
    ):
        page = await answer.text()
    for line in page.splitlines():
        name, _, number = line.partition(" ")
        if name == "lbcf_event_loop_lag_seconds":
            return float(number)
    raise LookupError(f"{address} tells no lag of its event loop")
