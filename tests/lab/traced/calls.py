"""What reached a driver, noted in front of its own code: when, by whom, and the answer."""

import json

from datetime import UTC, datetime
from typing import Any

import attrs

from aiohttp import web
from aiohttp.typedefs import Handler

from tests.lab.traced.audit import second


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
        not_after: until when it may be performed, as it says.
        drained: it says that nothing was left.
        began: when it had arrived.
        ended: when it was answered; None: it was not.
        outcome: succeeded, running, refused, or failed for what is no valid answer.
        heard: whoever called was there still when it was answered.
        late: it was refused for having come late.
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


def _now() -> float:
    """Return the present as tapes have it."""
    return second(datetime.now(UTC))


class Calls:
    """All calls about members, in the order of their arrival."""

    def __init__(self) -> None:
        self.all: list[Call] = []

    @web.middleware
    async def note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note a call and its answer."""
        op = OPERATIONS.get(request.path.strip("/"))
        if op is None:
            return await handler(request)
        began, agent = _now(), request.headers.get("User-Agent", "")
        call = _call(op, await request.json(), agent, began)
        self.all.append(call)
        response = await handler(request)
        call.ended = _now()
        call.heard = request.transport is not None
        call.outcome, call.late = _outcome(response)
        return response


def _call(op: str, body: dict[str, Any], agent: str, began: float) -> Call:
    """Read a request."""
    return Call(
        op=op,
        record=body["recordID"],
        agent=agent,
        address=body.get("backendAddr", ""),
        not_after=second(datetime.fromisoformat(body["notAfter"])),
        drained=bool(body.get("drained")),
        began=began,
    )


def _outcome(response: web.StreamResponse) -> tuple[str, bool]:
    """Read an answer, and whether it refuses what came late."""
    body = getattr(response, "body", None)
    if response.status != 200 or not isinstance(body, bytes):
        return "failed", False
    answer = json.loads(body)
    words = {"Succ": "succeeded", "Running": "running", "Fail": "refused"}
    late = str(answer.get("msg", "")).startswith(_LATE)
    return words.get(answer.get("status"), "failed"), late
