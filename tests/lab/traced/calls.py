"""What reached a driver, noted in front of its own code: when, by whom, and the answer."""

import json
import math

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import attrs

from aiohttp import web
from aiohttp.typedefs import Handler

from tests.lab.traced.moments import second


OPERATIONS = {
    "ensureBackend": "ensure",
    "deregisterBackend": "deregister",
    "drainBackend": "drain",
    "generateBackendAddr": "generate",
}
_LATE = "not performed: its notAfter"
"""How the SDK refuses what comes late."""


@attrs.define
class Call:
    """A call that arrived.

    Attributes:
        op: as the model names it.
        record: uid.
        agent: the User-Agent of who calls.
        address: of the member.
        not_after: until when it may be performed, as it says; infinite: it does not.
        drained: it says that nothing was left.
        began: when it had arrived.
        ended: when it was answered; None: it was not.
        outcome: succeeded, running, refused, or failed for what is no valid answer.
        heard: whoever called was there still when it was answered.
        late: it was refused for having come late.
        batched: it is an item of a batch.
        shares: and a further one: the batch takes one place in all.
    """

    op: str
    record: str
    agent: str
    address: str
    not_after: float
    drained: bool
    began: float
    ended: float | None = None
    outcome: str = "unanswered"
    heard: bool = False
    late: bool = False
    batched: bool = False
    shares: bool = False


def _now() -> float:
    """Return the present as tapes have it."""
    return second(datetime.now(UTC))


def _untold(_number: int, _call: Call) -> None:
    """Tell nobody."""


class Calls:
    """All calls about members, in the order of their arrival.

    Args:
        tell: told of each with its number, when it has arrived and when it is answered.
    """

    def __init__(self, tell: Callable[[int, Call], None] = _untold) -> None:
        self.all: list[Call] = []
        self._tell = tell

    @web.middleware
    async def note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note a call and its answer, or those of each item of a batch."""
        path = request.path.strip("/")
        op = OPERATIONS.get(path.removesuffix("s"))
        if op is None:
            return await handler(request)
        began, agent = _now(), request.headers.get("User-Agent", "")
        body = await request.json()
        is_batch = path.endswith("s")
        items = body["items"] if is_batch else [body]
        calls = {
            len(self.all) + n: _call(op, item, agent, began, n if is_batch else None)
            for n, item in enumerate(items)
        }
        self.all += calls.values()
        self._tell_all(calls)
        response = await handler(request)
        ended, heard = _now(), request.transport is not None
        for call in calls.values():
            call.ended, call.heard = ended, heard
            call.outcome, call.late = _outcome(response, call.record)
        self._tell_all(calls)
        return response

    def _tell_all(self, calls: Mapping[int, Call]) -> None:
        for number, call in calls.items():
            self._tell(number, call)


def _call(
    op: str,
    body: dict[str, Any],
    agent: str,
    began: float,
    place: int | None,
) -> Call:
    """Read a request, or the item at a place of a batch."""
    return Call(
        op=op,
        record=body["recordID"],
        agent=agent,
        address=body.get("backendAddr", ""),
        not_after=_end(body.get("notAfter")),
        drained=bool(body.get("drained")),
        began=began,
        batched=place is not None,
        shares=bool(place),
    )


def _end(moment: str | None) -> float:
    """Read until when a call may be performed; who knows only LBCF's protocol says nothing."""
    return math.inf if moment is None else second(datetime.fromisoformat(moment))


def _outcome(response: web.StreamResponse, record: str) -> tuple[str, bool]:
    """Read an answer about a record, and whether it refuses what came late."""
    body = getattr(response, "body", None)
    if response.status != 200 or not isinstance(body, bytes):
        return "failed", False
    answer = json.loads(body)
    results = {one["recordID"]: one for one in answer.get("results", ())}
    answer = results.get(record, answer)
    words = {"Succ": "succeeded", "Running": "running", "Fail": "refused"}
    late = str(answer.get("msg", "")).startswith(_LATE)
    return words.get(answer.get("status"), "failed"), late
