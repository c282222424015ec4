"""What is measured of shards: bytes that come over a connection count, and shares are right."""

import asyncio
import os

from collections import Counter

import uvloop

from tests.lab.shards.ground import EACH, spread
from tests.lab.shards.meters import MIB, Division, Load, load


async def _receive(size: int) -> None:
    """Receive so many bytes over a connection of this process to itself."""

    async def send(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(size))
        writer.close()

    server = await asyncio.start_server(send, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(host, port)
        assert size == len(await reader.read(-1))
        writer.close()


def test_bytes_of_connections_are_counted() -> None:
    """As the processes read them: in uvloop's loop."""
    before = load(os.getpid())
    uvloop.run(_receive(4 * MIB))

    read = load(os.getpid()).beyond(before).read

    assert 4 * MIB <= read < 5 * MIB


def test_greatest_share_is_that_of_one_shard() -> None:
    """Of memory and of bytes; the two need not be the same shard's."""
    parts = (Load(30, 10), Load(20, 25))

    division = Division(Load(100, 100), parts)

    assert (0.30, 0.25) == (division.most_memory, division.most_read)


def test_each_address_is_in_one_group() -> None:
    """And groups are of equal size, as many in each namespace."""
    groups = spread(1000, 4)

    assert {EACH} == {len(addresses) for addresses in groups.values()}
    assert 1000 == len({one for addresses in groups.values() for one in addresses})
    assert [5] * 4 == list(Counter(key.namespace for key in groups).values())
