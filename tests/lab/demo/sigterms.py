"""When the app's pods got SIGTERM: each says so itself, by a datagram.

    python -m tests.lab.demo.sigterms HOST:PORT

runs in the cluster's network, and passes on what comes, a JSON object for each datagram, to
standard output: the pod's name, and the moment of SIGTERM by its own reading of the machine's clock,
in seconds since 1970.
"""

import asyncio
import contextlib
import json
import socket
import sys

from collections.abc import AsyncIterator, Sequence

from tests.lab.demo import children
from tests.lab.demo.errors import DemoError
from tests.lab.demo.ground import Ground


SIZE = 300


class Sigterms:
    """The moments so far.

    Attributes:
        moments: by the pod's name.
    """

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child
        self.moments: dict[str, float] = {}

    async def read(self) -> None:
        """Take in what comes, until it ends.

        Raises:
            DemoError: it ended by itself.
        """
        if self._child.stdout is not None:
            async for line in self._child.stdout:
                found = json.loads(line)
                self.moments[found["pod"]] = found["at"]
        raise DemoError("nobody listens to the pods any more: see sigterms.log")


@contextlib.asynccontextmanager
async def listening(ground: Ground, address: str) -> AsyncIterator[Sigterms]:
    """Listen at HOST:PORT to what pods tell; the caller lets `read` run."""
    argv = (sys.executable, "-m", "tests.lab.demo.sigterms", address)
    log = ground.folder / "sigterms.log"
    child = await children.start(ground, log, argv, piped=True)
    try:
        yield Sigterms(child)
    finally:
        await children.end(child)


def main(arguments: Sequence[str]) -> None:
    """Listen until killed."""
    host, _, port = arguments[0].rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((host, int(port)))
        while True:
            pod, _, at = listener.recv(SIZE).decode().partition(" ")
            print(json.dumps({"pod": pod, "at": int(at) / 1e9}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
