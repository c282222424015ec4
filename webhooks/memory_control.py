"""What a test may do to `webhooks.memory`, beside the protocol, below /control/.

    GET  members, history         what there is; what was called and when
    POST sessions                 {"backendAddr" or "recordID", "add" or "sessions": n}
    POST behave                   {"operation", "mode", "times", "every", "seconds", "msg"}
    POST keep                     {"pods": ["namespace/name"]}: judgePodDeregister
    POST restart                  lose all members, with a new epoch
    POST reset                    forget members, history and behaviours

A behaviour holds for the next `times` calls of its operation: `fail`, `run` (both
without effect), `slow` (the effect at once, the answer after `seconds`), `late` (the
effect after `seconds`, then the answer), `break` (an unexpected exception). With `every`
n it is each n-th call that is met, and those between go as they should.
"""

import collections

from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeVar

import msgspec

from aiohttp import web

from lbcf import sdk
from webhooks.memory_members import Member, Members


_T = TypeVar("_T")

_LONGEST_HISTORY = 200_000
"""Calls that are remembered; a benchmark of 50,000 lifecycles fits."""


class Mode(StrEnum):
    """How a call goes that does not go well."""

    FAIL = "fail"
    RUN = "run"
    SLOW = "slow"
    LATE = "late"
    BREAK = "break"


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """What the next calls of an operation meet; `seconds` is for slow and late.

    Attributes:
        times: so many calls are met.
        every: one call in so many is met, the last of these.
    """

    operation: sdk.Operation
    mode: Mode
    times: Annotated[int, msgspec.Meta(ge=1)] = 1
    every: Annotated[int, msgspec.Meta(ge=1)] = 1
    seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0
    msg: str = "told to"


class Sessions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Sessions of a member, named by its address or its record; `add` may be < 0."""

    backend_addr: str | None = None
    record_id: str | None = msgspec.field(name="recordID", default=None)
    sessions: Annotated[int, msgspec.Meta(ge=0)] | None = None
    add: int = 0

    def concerns(self, member: Member) -> bool:
        """Tell whether the member is named."""
        return (self.backend_addr is not None or self.record_id is not None) and all(
            said in {None, actual}
            for said, actual in (
                (self.backend_addr, member.backend_addr),
                (self.record_id, member.record_id),
            )
        )


class Keep(msgspec.Struct, frozen=True):
    """Pods, as namespace/name, that judgePodDeregister keeps."""

    pods: frozenset[str]


class Call(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A call that has ended; `outcome` is a status, or an exception's name."""

    operation: sdk.Operation
    record_id: str = msgspec.field(name="recordID", default="")
    retry_id: str = msgspec.field(name="retryID", default="")
    backend_addr: str = ""
    drained: bool | None = None
    began: datetime
    ended: datetime
    outcome: str


class Control:
    """What was told and what was seen.

    Attributes:
        keep: pods that judgePodDeregister keeps.
    """

    def __init__(self, members: Members) -> None:
        self.keep: frozenset[str] = frozenset()
        self._members = members
        self._behaviours: dict[sdk.Operation, tuple[Behaviour, int]] = {}
        """By operation, with how many calls are still to come under it."""
        self._history: collections.deque[Call] = collections.deque(
            maxlen=_LONGEST_HISTORY
        )

    def routes(self) -> list[web.RouteDef]:
        """Return the endpoints."""
        return [
            web.get("/control/members", self._list_members),
            web.get("/control/history", self._list_history),
            web.post("/control/sessions", self._set_sessions),
            web.post("/control/behave", self._set_behaviour),
            web.post("/control/keep", self._set_keep),
            web.post("/control/restart", self._restart),
            web.post("/control/reset", self._reset),
        ]

    def behave(self, behaviour: Behaviour) -> None:
        """Let the next calls of the operation go so."""
        calls = behaviour.times * behaviour.every
        self._behaviours[behaviour.operation] = (behaviour, calls)

    def next_behaviour(self, operation: sdk.Operation) -> Behaviour | None:
        """Return how this call is to go and count it; None: as it should."""
        behaviour, left = self._behaviours.pop(operation, (None, 0))
        if behaviour is None:
            return None
        if left > 1:
            self._behaviours[operation] = (behaviour, left - 1)
        return None if (left - 1) % behaviour.every else behaviour

    def remember(self, call: Call) -> None:
        """Note a call that has ended."""
        self._history.append(call)

    async def _list_members(self, _request: web.Request) -> web.Response:
        """Show all members, the epoch, and how many sessions were cut."""
        listed = {
            "epoch": self._members.epoch,
            "cut": self._members.cut,
            "members": [_shown(member) for member in self._members],
        }
        return web.Response(body=msgspec.json.encode(listed))

    async def _list_history(self, _request: web.Request) -> web.Response:
        """Show the calls that have ended."""
        return web.Response(body=msgspec.json.encode({"calls": list(self._history)}))

    async def _set_sessions(self, request: web.Request) -> web.Response:
        """Change the sessions of the members that are named."""
        wish = await _wish(request, Sessions)
        found = [member for member in self._members if wish.concerns(member)]
        for member in found:
            number = member.sessions if wish.sessions is None else wish.sessions
            member.sessions = max(number + wish.add, 0)
        return web.json_response({"changed": len(found)})

    async def _set_behaviour(self, request: web.Request) -> web.Response:
        """Let the next calls go so."""
        self.behave(await _wish(request, Behaviour))
        return _done()

    async def _set_keep(self, request: web.Request) -> web.Response:
        """Name the pods that stay."""
        self.keep = (await _wish(request, Keep)).pods
        return _done()

    async def _restart(self, _request: web.Request) -> web.Response:
        """Lose all members."""
        self._members.lose_all()
        return _done()

    async def _reset(self, _request: web.Request) -> web.Response:
        """Forget everything."""
        self._members.lose_all()
        self._members.cut = 0
        self._history.clear()
        self._behaviours.clear()
        self.keep = frozenset()
        return _done()


async def _wish(request: web.Request, kind: type[_T]) -> _T:
    """Read what a test wants.

    Raises:
        HTTPBadRequest: it cannot be read; says why.
    """
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from error


def _done() -> web.Response:
    """Return an answer that says nothing more."""
    return web.json_response({})


def _shown(member: Member) -> dict[str, object]:
    """Return a member as the protocol spells its fields."""
    return {
        "lbInfo": member.lb_info,
        "backendAddr": member.backend_addr,
        "recordID": member.record_id,
        "parameters": member.parameters,
        "state": member.state,
        "sessions": member.sessions,
    }
