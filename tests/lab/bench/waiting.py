"""What pods that wait cost a deregistrar: `python -m tests.lab.bench.waiting [PODS]`.

Each pod has a connection to the gate, and asks anew after twenty seconds, as the waiter of
images/wait does. Their records drain: the API server, one in memory here, is asked nothing, and
nothing is written.
"""

import asyncio
import multiprocessing
import os
import resource
import socket
import sys

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import attrs
import uvloop

from lbcf.core.model.names import FINALIZER_RECORD, LABEL_POD_UID
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import Uid
from lbcf.deregistrar.drain_gate import DrainGate, GateMetrics, pod_of
from lbcf.deregistrar.gate_server import GateServer, Limits
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import RECORDS
from lbcf.kube.list_watch import Put
from lbcf.kube.store import Store
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.flags import BindAddress
from tests.kube.tiny_api import TinyApi
from tests.lab.bench.meters import usage


PODS: Final = 5_000
ROUND: Final = 30.0
"""Seconds of one question, as images/wait has it."""
PHASE: Final = 60.0
"""Seconds for which they are measured."""
PER_SECOND: Final = 250
"""Pods that begin to ask in a second."""
HOST: Final = "127.0.0.1"


@attrs.frozen
class Figures:
    """What was measured.

    Attributes:
        waiting: pods at the end.
        mebibytes: of memory, more than before.
        share: of a core, in percent.
        requests: to the API server meanwhile.
    """

    waiting: int
    mebibytes: float
    share: float
    requests: int

    def __str__(self) -> str:
        """Write them for people."""
        return (
            f"{self.waiting} pods wait: {self.mebibytes:.1f} MiB, {self.share:.1f} % of "
            f"a core, {self.requests} requests to the API server"
        )


def uid_of(number: int) -> Uid:
    """Make a uid."""
    return Uid(f"00000000-0000-4000-8000-{number:012x}")


async def ask(port: int, uid: Uid, within: float) -> None:
    """Ask again and again, as one pod that begins at some moment of these seconds."""
    await asyncio.sleep(within * SystemClock().jitter())
    path = f"/v1/pods/{uid}/drained?timeoutSeconds={ROUND:.0f}"
    while True:
        try:
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            await reader.read()
            writer.close()
        except OSError:
            await asyncio.sleep(1)


async def ask_all(port: int, pods: int) -> None:
    """Ask as all pods."""
    within = pods / PER_SECOND
    await asyncio.gather(*(ask(port, uid_of(n), within) for n in range(pods)))


def clients(port: int, pods: int) -> None:
    """Run the pods, in a process of their own."""
    uvloop.run(ask_all(port, pods))


@contextmanager
def asking(port: int, pods: int) -> Iterator[None]:
    """Let pods ask."""
    process = multiprocessing.get_context("spawn").Process(
        target=clients, args=(port, pods)
    )
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


async def fill(client: KubeClient, store: Store[BackendRecord], pods: int) -> None:
    """Make a record for each pod, which drains."""
    for number in range(pods):
        backend = {
            "name": f"web-{number}",
            "uid": uid_of(number),
            "port": {"portNumber": 80},
        }
        body = {
            "metadata": {
                "name": f"web-{number}",
                "labels": {LABEL_POD_UID: uid_of(number)},
                "finalizers": [FINALIZER_RECORD],
            },
            "spec": {"lbName": "front", "lbDriver": "memory", "podBackend": backend},
        }
        record = await client.create(RECORDS, "shop", body)
        ending = await client.delete(RECORDS, record.meta.key)
        if ending is not None:
            store.apply(Put(ending))


async def measure(pods: int, phase: float) -> Figures:
    """Measure one process before and while they wait."""
    api = TinyApi()
    client = KubeClient(api)
    store: Store[BackendRecord] = Store({"pod": pod_of}, keep=lambda r: r.is_deleting)
    await fill(client, store, pods)
    series = GateMetrics(None)
    gate = DrainGate(client, store, SystemClock(), series)
    store.on_change(gate.record_changed)
    server = GateServer(gate, series, Limits(per_peer=2 * pods))
    async with server.serve(BindAddress(HOST, 0)) as port:
        before, asked = usage(os.getpid()), len(api.requests)
        with asking(port, pods):
            while len(server.open) < pods:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.1)
            began = usage(os.getpid())
            await asyncio.sleep(phase)
            ended = usage(os.getpid())
            waiting = len(server.open)
    return Figures(
        waiting,
        mebibytes=(ended.resident - before.resident) / 2**20,
        share=(ended.cpu - began.cpu) / phase * 100,
        requests=len(api.requests) - asked,
    )


def main() -> None:
    """Print the figures."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    pods = int(sys.argv[1]) if len(sys.argv) > 1 else PODS
    print(
        uvloop.run(measure(pods, PHASE)),
        f"(files: {soft} -> {hard}, {socket.gethostname()})",
    )


if __name__ == "__main__":
    main()
