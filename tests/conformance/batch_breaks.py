"""Drivers that each do one thing wrong with batches, and all else right."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from aiohttp import web

from lbcf import sdk
from tests.conformance.stages import Twist, decoded
from webhooks.memory import MemoryDriver
from webhooks.memory_control import Control
from webhooks.memory_members import Members


Outcomes = Mapping[str, sdk.Outcome]
Lenient = Callable[[str, bytes], bytes | web.Response]


def as_one(name: str, body: bytes) -> bytes:
    """Answer for the whole batch, as for a single call."""
    is_batch = name == "ensureBackends" and "results" in decoded(body)
    return msgspec.json.encode({"results": [], "status": "Succ"}) if is_batch else body


def twice(name: str, body: bytes) -> bytes:
    """Give each result two times."""
    results = decoded(body).get("results")
    if name != "ensureBackends" or not isinstance(results, list):
        return body
    return msgspec.json.encode({"results": results * 2})


def without_failures(_name: str, body: bytes) -> bytes:
    """Leave out the results of a batch that are Fail."""
    results = decoded(body).get("results")
    if not isinstance(results, list):
        return body
    kept = [one for one in results if one["status"] != "Fail"]
    return msgspec.json.encode({"results": kept})


def without_last(_name: str, body: bytes) -> bytes:
    """Leave out the result of the last item, unless it is the only one."""
    results = decoded(body).get("results")
    if not isinstance(results, list) or len(results) < 2:
        return body
    return msgspec.json.encode({"results": results[:-1]})


def items_without(field: str, operation: str) -> Callable[[str, bytes], bytes]:
    """Return what keeps a field of a batch's items from the driver."""

    def strip(name: str, body: bytes) -> bytes:
        """Take it out of each."""
        if name != operation:
            return body
        items = [
            {key: value for key, value in one.items() if key != field}
            for one in _items(body)
        ]
        return msgspec.json.encode({"items": items})

    return strip


def _items(body: bytes) -> list[dict[str, object]]:
    """Return the items of what is a batch; none of all else."""
    items = decoded(body).get("items")
    return items if isinstance(items, list) else []


def _lenient(is_wrong: Callable[[str, bytes], bool]) -> Lenient:
    """Return what answers a batch that should be refused."""

    def answer(name: str, body: bytes) -> bytes | web.Response:
        """Answer it, and perform nothing."""
        if name in {"ensureBackends", "deregisterBackends"} and is_wrong(name, body):
            return web.json_response({"results": []})
        return body

    return answer


def _has_twins(_name: str, body: bytes) -> bool:
    """Tell whether a recordID is there twice."""
    records = [one["recordID"] for one in _items(body)]
    return len(set(records)) < len(records)


LENIENT: Mapping[str, Lenient] = {
    "takes an empty batch": _lenient(lambda _name, body: body == b'{"items":[]}'),
    "takes a record twice in a batch": _lenient(_has_twins),
    "takes too many in a batch": _lenient(lambda _name, body: len(_items(body)) > 1000),
}
"""Answers batches with 200 that are to be refused as a whole."""


class OnceTogether(MemoryDriver):
    """Refuses, in a batch, what is there already."""

    batch = sdk.Batch()

    async def ensure_backends(
        self, requests: Sequence[sdk.EnsureBackendRequest]
    ) -> Outcomes:
        """Look at who is there."""
        found: dict[str, sdk.Outcome] = {}
        for one in requests:
            if self.members.has(one):
                found[one.record_id] = sdk.Fail("it is there already")
            else:
                found[one.record_id] = await self.ensure_backend(one)
        return found


class AllOrNothing(MemoryDriver):
    """Refuses a whole batch because of one item."""

    batch = sdk.Batch()

    async def ensure_backends(
        self, requests: Sequence[sdk.EnsureBackendRequest]
    ) -> Outcomes:
        """Look at all addresses first."""
        if any(":" not in one.backend_addr for one in requests):
            raise sdk.Fail("one of these has no port")
        return {one.record_id: await self.ensure_backend(one) for one in requests}


class DrainsWhatIsThere(MemoryDriver):
    """Says nothing of drains of what is not there."""

    batch = sdk.Batch()

    async def drain_backends(
        self, requests: Sequence[sdk.DrainBackendRequest]
    ) -> Outcomes:
        """Leave them out."""
        there = [one for one in requests if self.members.has(one)]
        return {one.record_id: await self.drain_backend(one) for one in there}


class ForgetsBatches(MemoryDriver):
    """Takes out, in a batch, only what it remembers, which a crash makes it forget."""

    batch = sdk.Batch()

    def __init__(self, members: Members) -> None:
        super().__init__()
        self.members = members
        self.control = Control(members)
        self.known: set[str] = set()

    async def ensure_backend(
        self, request: sdk.EnsureBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Remember it."""
        self.known.add(request.backend_addr)
        return await super().ensure_backend(request)

    async def deregister_backends(
        self, requests: Sequence[sdk.DeregisterBackendRequest]
    ) -> Outcomes:
        """Leave what it does not remember."""
        return {
            one.record_id: await self.deregister_backend(one)
            if one.backend_addr in self.known and self.members.has(one)
            else sdk.Succ()
            for one in requests
        }


SLOW = Twist(slow="ensureBackends")
"""Lets single calls overtake batches on their way."""

OVERTAKING = Twist(is_queued=True, seconds=0.015)
"""Lets batches overtake single calls."""
