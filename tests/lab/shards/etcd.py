"""Puts objects of our kinds straight into a cluster's etcd, a hundred in one go.

The API server takes one at a time, some 700 in a second at best on two cores. It reads these
as it reads its own, which are JSON in etcd, too, and its watches tell of them.
"""

import base64
import json

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import aiohttp

from lbcf.core.model.names import API_GROUP
from lbcf.kube.kinds import Resource
from tests.lab.cluster import Cluster


AT_ONCE = 100
"""Objects in a transaction: etcd takes 128."""
_ROOT = f"/registry/{API_GROUP}"


class Etcd:
    """The etcd of a cluster; `opened` makes it."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def put(
        self, resource: Resource[Any], bodies: Iterable[Mapping[str, Any]]
    ) -> None:
        """Write objects, whether they are there or not; their versions are etcd's."""
        requests = ({"requestPut": _entry(resource, body)} for body in bodies)
        for some in _batches(requests):
            await self._ask("txn", {"success": some})

    async def _ask(self, what: str, body: object) -> Any:
        async with self._session.post(f"/v3/kv/{what}", json=body) as answer:
            if answer.status != 200:
                raise RuntimeError(f"etcd, {what}: {await answer.text()}")
            return await answer.json()


def _batches(requests: Iterable[object]) -> Iterator[list[object]]:
    found = iter(requests)
    while some := list(islice(found, AT_ONCE)):
        yield some


def _entry(resource: Resource[Any], body: Mapping[str, Any]) -> dict[str, str]:
    meta = {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
    key = f"{_ROOT}/{resource.plural}/{meta['namespace']}/{meta['name']}"
    return {"key": _coded(key), "value": _coded(json.dumps({**body, "metadata": meta}))}


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@asynccontextmanager
async def opened(cluster: Cluster) -> AsyncIterator[Etcd]:
    """Give the etcd of a cluster."""
    url = f"http://127.0.0.1:{cluster.plan.etcd_ports[0]}"
    async with aiohttp.ClientSession(url) as session:
        yield Etcd(session)
