"""A controller as it should not be: nodes that are NotReady or cordoned leave at once.

    python -m tests.lab.nodes.naive --api SOCKET --driver URL --namespace NAME --socket PATH

It stands in for ours in `--naive` runs, to show that the script sees an outage where
there is one. Many controllers have been like it (KEP-3458 tells of them).
"""

import argparse
import asyncio
import contextlib
import json

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from tests.lab.demo.api import Api
from tests.lab.demo.haproxy import BACKEND


PAUSE = 0.3
PREFIX = "naive-"


def is_wanted(node: Mapping[str, Any]) -> bool:
    """Tell whether a naive controller has a node in its load balancers."""
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node.get("status", {}).get("conditions", [])
    )
    return ready and not node.get("spec", {}).get("unschedulable")


class Naive:
    """Keeps the members of one backend equal to the ready, schedulable nodes."""

    def __init__(self, api: Api, arguments: argparse.Namespace) -> None:
        self._api = api
        self._url: str = arguments.driver
        self._namespace: str = arguments.namespace
        self._info = {"sockets": arguments.socket, "backend": BACKEND}
        self._members: dict[str, str] = {}

    async def run(self) -> None:
        """Look again and again."""
        async with aiohttp.ClientSession() as session:
            while True:
                with contextlib.suppress(Exception):
                    await self._turn(session)
                await asyncio.sleep(PAUSE)

    async def _turn(self, session: aiohttp.ClientSession) -> None:
        """Bring in who is wanted, and drop everybody else."""
        path = f"/api/v1/namespaces/{self._namespace}/services/web"
        port = (await self._api.get(path))["spec"]["ports"][0]["nodePort"]
        nodes = (await self._api.get("/api/v1/nodes"))["items"]
        wanted = {
            node["metadata"]["name"]: f"{_address(node)}:{port}"
            for node in nodes
            if is_wanted(node)
        }
        for name in self._members.keys() - wanted.keys():
            await self._call(session, "deregisterBackend", name, self._members[name])
            del self._members[name]
        for name in wanted.keys() - self._members.keys():
            await self._call(session, "ensureBackend", name, wanted[name])
            self._members[name] = wanted[name]

    async def _call(
        self, session: aiohttp.ClientSession, operation: str, node: str, address: str
    ) -> None:
        """Ask the driver until it is done."""
        body = {
            "recordID": f"{PREFIX}{node}",
            "retryID": "1",
            "lbInfo": self._info,
            "backendAddr": address,
        }
        while True:
            async with session.post(f"{self._url}/{operation}", json=body) as answer:
                status = (await answer.json(content_type=None))["status"]
            print(json.dumps({"event": operation, "node": node, "status": status}))
            if status == "Succ":
                return
            await asyncio.sleep(PAUSE)


def _address(node: Mapping[str, Any]) -> str:
    """Say where a node is."""
    addresses = node["status"]["addresses"]
    return next(str(a["address"]) for a in addresses if a["type"] == "InternalIP")


async def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="tests.lab.nodes.naive", description=__doc__)
    parser.add_argument("--api", type=Path, required=True)
    for flag in ("--driver", "--namespace", "--socket"):
        parser.add_argument(flag, required=True)
    arguments = parser.parse_args()
    async with Api(arguments.api) as api:
        await Naive(api, arguments).run()


if __name__ == "__main__":
    asyncio.run(main())
