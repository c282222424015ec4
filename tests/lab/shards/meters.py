"""What a process holds and has read, and how that compares with one that has everything."""

from pathlib import Path

import attrs

from tests.lab.bench.meters import usage


MIB = 2**20


@attrs.frozen
class Load:
    """What a process bears.

    Attributes:
        resident: bytes of memory.
        read: bytes that it has read since its start: of files what its imports are, and of
            its connections all that came, encrypted and compressed as it was.
    """

    resident: int
    read: int

    def beyond(self, base: "Load") -> "Load":
        """Leave out what a process bears that has no part of the work."""
        return Load(self.resident - base.resident, self.read - base.read)


def load(pid: int) -> Load:
    """Read what a process bears.

    uvloop reads sockets by read(2), which the kernel counts among what a process has read.

    Raises:
        FileNotFoundError: it has ended.
    """
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    counted = dict(line.split(": ", 1) for line in lines)
    return Load(usage(pid).resident, int(counted["rchar"]))


@attrs.frozen
class Division:
    """One process with everything, and each of several with its part.

    Attributes:
        whole: what the one bears.
        parts: the same of each shard's leader.
    """

    whole: Load
    parts: tuple[Load, ...]

    @property
    def most_memory(self) -> float:
        """Return the greatest part of the memory, of 1."""
        return max(part.resident for part in self.parts) / self.whole.resident

    @property
    def most_read(self) -> float:
        """Return the greatest part of the bytes, of 1."""
        return max(part.read for part in self.parts) / self.whole.read
