"""A driver, and an API server, that says which whole requests came to it.

    python -m tests.partition.receiver FOLDER

Listens at port 80, and with the certificate in the folder at 443; writes a line per
request: its method and its path.
"""

import asyncio
import ssl
import sys

from pathlib import Path

from tests.drivers.servers import read_request, response
from tests.partition.site import DRIVER


ANSWER = response(
    b'{"status": "Succ", "healthy": true, "succ": true}',
    headers=b"Content-Type: application/json\r\n",
)


async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer all requests of one connection."""
    try:
        while True:
            request = await read_request(reader)
            method, path = request.split(b" ", 2)[:2]
            print(method.decode(), path.decode(), flush=True)
            writer.write(ANSWER)
    except (OSError, asyncio.IncompleteReadError):
        pass  # the caller is gone
    finally:
        writer.close()


async def main(folder: Path) -> None:
    """Serve until killed."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "driver.pem")
    # Small buffers: a large request does not fit into the kernels of both sides.
    plain = await asyncio.start_server(talk, DRIVER, 80, limit=2**12)
    secure = await asyncio.start_server(talk, DRIVER, 443, ssl=tls)
    print("ready", flush=True)
    async with plain, secure:
        await asyncio.gather(plain.serve_forever(), secure.serve_forever())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
