"""The least that it can cost: a bare loop making the writes of so many lifecycles.

Runs as a process of its own, as ours do: `python -m tests.lab.bench.floor`. It watches
nothing, decides nothing, calls no driver; its objects have the size of our records. It
waits for a line on standard input before it begins, and then prints what CPU it used.
"""

import argparse
import asyncio
import json
import sys
import time

from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from lbcf.core.model.names import FINALIZER_RECORD
from lbcf.kube.connection import connect
from tests.e2e.objects import RECORDS


AT_ONCE = 64
_JSON = {"Content-Type": "application/json"}
_MERGE = {"Content-Type": "application/merge-patch+json"}


def a_record(index: int, namespace: str, owner_uid: str) -> dict[str, Any]:
    """A record as large as ours are."""
    name = f"floor{index}"
    labels = {"lb-driver": "memory", "lb-name": "front", "backend-group": "web"}
    return {
        "apiVersion": RECORDS.api_version,
        "kind": RECORDS.kind,
        "metadata": {
            "name": f"web-{name}-80-0123456789ab",
            "namespace": namespace,
            "labels": {f"lbcf.tkestack.io/{k}": v for k, v in labels.items()},
            "finalizers": [FINALIZER_RECORD],
            "ownerReferences": [
                {
                    "apiVersion": RECORDS.api_version,
                    "kind": "BackendGroup",
                    "name": "web",
                    "uid": owner_uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "lbName": "front",
            "lbDriver": "memory",
            "lbInfo": {"name": "front"},
            "podBackend": {
                "name": name,
                "uid": owner_uid,
                "port": {"port": 80, "protocol": "TCP"},
            },
            "backendAddr": f"10.200.{index >> 8 & 255}.{index & 255}:80",
            "drain": {"timeoutSeconds": 30},
        },
    }


def a_status(index: int) -> dict[str, Any]:
    """The status of a record that is registered."""
    address = f"10.200.{index >> 8 & 255}.{index & 255}:80"
    condition = {
        "type": "Registered",
        "status": "True",
        "reason": "Registered",
        "message": f"{address} is registered",
        "observedGeneration": 1,
        "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    return {"status": {"backendAddr": address, "conditions": [condition]}}


class Loop:
    """Writes, so many at a time."""

    def __init__(
        self, session: aiohttp.ClientSession, host: str, namespace: str, owner: str
    ) -> None:
        self._session = session
        self._root = host + RECORDS.collection(namespace)
        self._namespace = namespace
        self._owner = owner

    async def register(self, index: int) -> None:
        """Create a record and write its status."""
        body = json.dumps(a_record(index, self._namespace, self._owner))
        await self._send("POST", self._root, body, _JSON)
        url = f"{self._url(index)}/status"
        await self._send("PATCH", url, json.dumps(a_status(index)), _MERGE)

    async def deregister(self, index: int) -> None:
        """Delete a record and take its finalizer off."""
        await self._send("DELETE", self._url(index), "{}", _JSON)
        body = json.dumps({"metadata": {"finalizers": None}})
        await self._send("PATCH", self._url(index), body, _MERGE)

    def _url(self, index: int) -> str:
        """Say where a record is."""
        return f"{self._root}/web-floor{index}-80-0123456789ab"

    async def _send(
        self, method: str, url: str, body: str, headers: dict[str, str]
    ) -> None:
        """Send one request.

        Raises:
            RuntimeError: it was refused.
        """
        async with self._session.request(
            method, url, data=body, headers=headers
        ) as answer:
            text = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {url}: {answer.status} {text[:300]!r}")


async def at_once(count: int, act: Callable[[int], Awaitable[None]]) -> None:
    """Act for every index, so many at a time."""
    indexes = iter(range(count))

    async def worker() -> None:
        """Take indexes until there are none."""
        for index in indexes:
            await act(index)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def run(chosen: argparse.Namespace) -> None:
    """Wait for the start, write, and print the CPU seconds used."""
    connection = await connect(chosen.kubeconfig)
    connector = aiohttp.TCPConnector(limit=AT_ONCE, ssl=connection.tls() or True)
    async with aiohttp.ClientSession(connector=connector) as session:
        loop = Loop(session, connection.host, chosen.namespace, chosen.owner)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        before = time.process_time()
        await at_once(chosen.count, getattr(loop, chosen.phase))
        print(json.dumps({"cpu": time.process_time() - before}), flush=True)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser("python -m tests.lab.bench.floor")
    parser.add_argument("phase", choices=["register", "deregister"])
    for flag in ("--kubeconfig", "--namespace", "--owner"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--count", type=int, required=True)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
