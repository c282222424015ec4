"""A name server for which some names hang, and namespaces in which it is the only one.

It listens at 127.0.0.1:53, knows `good.web.svc.cluster.test`, and says nothing of names with
`hanging` in them. /etc/resolv.conf searches as a pod's does.
"""

import asyncio
import sys

from pathlib import Path
from typing import cast

from tests.lab.cluster.commands import run


KNOWN = b"\x04good\x03web\x03svc\x07cluster\x04test\x00"
RESOLV_CONF = """\
search web.svc.cluster.test svc.cluster.test cluster.test
nameserver 127.0.0.1
options ndots:5
"""
SETUP = """\
ip link set lo up
mount --bind "$1/resolv.conf" /etc/resolv.conf
mount --bind "$1/hosts" /etc/hosts
shift
exec "$@"
"""


def run_with_own_names(folder: Path, module: str) -> str:
    """Run a module in namespaces of its own; return what it printed.

    Args:
        folder: for the files that stand in for those of /etc.
        module: such as `tests.partition.names`; it calls `serve_names` first.
    """
    (folder / "resolv.conf").write_text(RESOLV_CONF)
    (folder / "hosts").write_text("127.0.0.1 localhost\n127.0.0.1 neighbour\n")
    inside = ("sh", "-ec", SETUP, "sh", folder)
    program = (sys.executable, "-m", module)
    return run("unshare", "--net", "--mount", "--", *inside, *program)


class NameServer(asyncio.DatagramProtocol):
    """Knows one name, hangs for some, and denies the rest.

    Attributes:
        unanswered: questions about names that hang.
    """

    def __init__(self) -> None:
        self.unanswered: set[bytes] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what answers are sent by."""
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer a question (RFC 1035, 4.1)."""
        end = data.index(b"\x00", 12) + 5
        question, kind = data[12:end], data[end - 4 : end - 2]
        if b"hanging" in data:
            self.unanswered.add(question)
            return
        known = question[:-4].lower() == KNOWN
        answers = known and kind == b"\x00\x01"
        flags = b"\x81\x80" if known else b"\x81\x83"
        counts = b"\x00\x01" + (b"\x00\x01" if answers else b"\x00\x00") + bytes(4)
        found = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\x7f\x00\x00\x01"
        self.transport.sendto(
            data[:2] + flags + counts + question + (found if answers else b""), addr
        )


async def serve_names() -> NameServer:
    """Answer questions about names until the loop ends."""
    loop = asyncio.get_running_loop()
    _, server = await loop.create_datagram_endpoint(
        NameServer, local_addr=("127.0.0.1", 53)
    )
    return server
