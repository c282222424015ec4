"""What a driver without batches is sent, byte for byte: no sign of batches is in it."""

import asyncio

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import attrs
import pytest

from prometheus_client import CollectorRegistry

from lbcf.core.lifecycle.steps import CallDriver, Permission, Reply, Succeeded
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    BackendRecord,
    DrainProgress,
    LoadBalancerDriver,
)
from lbcf.core.selection.desired import DesiredRecord
from lbcf.drivers.pool import DriverPool
from lbcf.executor import Executor, Subject
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import RECORDS
from lbcf.runtime.clock import SystemClock
from lbcf.wire.records import render_new_record
from tests.builders import a_driver, a_group, a_key, a_spec
from tests.drivers.servers import BESIDE_US, read_request, response, serving
from tests.kube.tiny_api import TinyApi


ID = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
NAMES = ("web-1", "web-2", "web-3")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIFE = (
    Operation.ENSURE_BACKEND,
    Operation.DRAIN_BACKEND,
    Operation.DEREGISTER_BACKEND,
)


class Still(SystemClock):
    """It is always noon, and all ids are one: what is sent can be written down."""

    def now(self) -> datetime:
        """Return noon."""
        return NOON

    def monotonic(self) -> float:
        """Return the same at all times."""
        return 1000.0

    def new_id(self) -> str:
        """Return the id."""
        return ID


@attrs.define
class Recorded:
    """A driver that keeps the bytes of each request, in order of arrival."""

    seen: list[bytes] = attrs.field(factory=list)

    async def talk(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer all requests of a connection."""
        while True:
            self.seen.append(await read_request(reader))
            writer.write(response())
            await writer.drain()


@pytest.fixture(name="recorded")
def _recorded() -> Recorded:
    """A driver that has had no request."""
    return Recorded()


@pytest.fixture(name="url")
async def _url(recorded: Recorded) -> AsyncIterator[str]:
    """Serve it."""
    async with serving(recorded.talk) as url:
        yield url


async def create(client: KubeClient, name: str) -> BackendRecord:
    """Create a record."""
    spec = a_spec(address="192.0.2.1:80")
    desired = DesiredRecord(a_group(), spec, spec.address, (name, 8080))
    key = a_key(name)
    await client.create(RECORDS, key.namespace, render_new_record(desired, name))
    return await client.get(RECORDS, key)


async def live(driver: LoadBalancerDriver) -> list[BackendRecord]:
    """Have three members live at a time, as storms have them; return their records."""
    client = KubeClient(TinyApi())
    records = [await create(client, name) for name in NAMES]
    async with DriverPool(Still(), CollectorRegistry(), allowlist=BESIDE_US) as pool:
        executor = Executor(client, pool, Still())

        def called(
            operation: Operation, record: BackendRecord
        ) -> "asyncio.Task[Reply]":
            step = CallDriver(
                operation,
                driver,
                Permission(record, Still().monotonic()),
                record.address,
                drain=DrainProgress(NOON, NOON),
            )
            subject = Subject(record.meta.key, record.meta.uid)
            return asyncio.ensure_future(executor.perform(subject, step))

        for operation in LIFE:
            replies = [called(operation, record) for record in records]
            for reply in replies:
                assert isinstance(await reply, Succeeded)
    return records


async def test_a_whole_life(recorded: Recorded, url: str) -> None:
    """Head and body of each of nine calls are those of the protocol without batches."""
    records = await live(attrs.evolve(a_driver(), url=url))

    expected = [
        sent(operation, record, url) for operation in LIFE for record in records
    ]
    assert sorted(expected) == sorted(recorded.seen)


def sent(operation: Operation, record: BackendRecord, url: str) -> bytes:
    """Return what a call of a life is on the wire."""
    last = {
        Operation.ENSURE_BACKEND: '"namespace":"shop"',
        Operation.DRAIN_BACKEND: (
            '"drain":{"startedAt":"2026-01-01T12:00:00Z",'
            '"deadline":"2026-01-01T12:00:00Z"}'
        ),
        Operation.DEREGISTER_BACKEND: '"drained":false',
    }
    body = (
        f'{{"recordID":"{record.meta.uid}","retryID":"{ID}","dryRun":false,'
        '"notAfter":"2026-01-01T12:00:10Z","lbInfo":{"id":"front"},'
        '"backendAddr":"192.0.2.1:80","parameters":{},"injectedInfo":{},"memberKey":"Record",'
        f"{last[operation]}}}"
    )
    digits = ID.replace("-", "")
    head = (
        f"POST /{operation} HTTP/1.1",
        f"Host: {url.removeprefix('http://')}",
        "Accept: application/json",
        "Accept-Encoding: identity",
        "Content-Type: application/json",
        "User-Agent: lbcf",
        f"traceparent: 00-{digits}-{digits[16:]}-00",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join([*head, "", body]).encode()
