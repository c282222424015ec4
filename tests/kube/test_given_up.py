"""A watch that is given up leaves nothing open, whatever the API server does then."""

import asyncio
import contextlib
import socket
import ssl
import threading

from datetime import timedelta

import trustme
import uvloop

from lbcf.kube.client import connected
from lbcf.kube.connection import Connection
from lbcf.kube.list_watch import Selection
from lbcf.runtime.clock import SystemClock
from tests.drivers.secured import pem_of, server_tls
from tests.drivers.servers import response
from tests.kube.builders import THINGS
from tests.patience import PATIENCE


BEGUN = response(b"{}", headers=b"Content-Type: application/json\r\n")[:-1]
"""An answer that goes on."""


class SlowServer:
    """Begins to answer a request over TLS, and leaves a goodbye unanswered.

    Attributes:
        is_left: nobody is there any more, with or without a goodbye.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self.is_left = False
        self._context = context
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.host = f"https://localhost:{self._listening.getsockname()[1]}"

    def serve(self) -> None:
        """Serve one client, until it has left or is not waited for any longer."""
        with self._listening, self._listening.accept()[0] as taken:
            secure = self._context.wrap_socket(taken, server_side=True)
            secure.recv(65536)
            secure.sendall(BEGUN)
            with contextlib.suppress(ConnectionError):
                secure.recv(65536)
            with socket.socket(fileno=secure.detach()) as below:
                below.settimeout(PATIENCE)
                self.is_left = has_left(below)


def has_left(peer: socket.socket) -> bool:
    """Wait for the end of a connection; return whether it came."""
    try:
        while peer.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


async def give_up_a_watch(connection: Connection) -> None:
    """Watch until something comes, then be cancelled, and close the client."""
    begun = asyncio.Event()
    minute = timedelta(seconds=60)

    async with connected(connection, SystemClock()) as client:

        async def follow() -> None:
            watching = client.watch(
                THINGS, Selection(), version="1", seconds=60, silence=minute
            )
            async with watching as chunks:
                async for _ in chunks:
                    begun.set()

        task = asyncio.create_task(follow())
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])


def test_watch_that_is_given_up_is_closed_at_once() -> None:
    """TLS closed well waits for the peer's goodbye, and keeps the loop from closing."""
    authority = trustme.CA()
    tls = ssl.create_default_context(cadata=pem_of(authority).decode())
    server = SlowServer(server_tls(authority.issue_cert("localhost")))
    thread = threading.Thread(target=server.serve)
    thread.start()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(give_up_a_watch(Connection(server.host, tls=lambda: tls)))
    thread.join()

    assert server.is_left
