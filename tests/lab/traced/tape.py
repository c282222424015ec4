"""Makes one tape of the audit log and of what reached a driver.

A tape is JSON: {"keyed": [DRIVER'S NAME, ...], "drivers": {NAME: DRIVER}, "steps": [STEP,
...]}. Its steps are those of `tests.lab.model.facts` as far as one sees them from outside,
in the order in which they reached whoever did them: of one actor on one record that is
the order in which it made them, since it makes each when it has heard of the last. What
cannot be seen is left to the judge:

    which version a call went by, when exactly it was sent, whether its answer was heard,
    which deregister counted, by which proof a finalizer went, and, of a read, a lock or a
    write of conditions alone, whether it was part of a turn.

Beside what is said there, a STEP has

    line       of a request: its id in the audit log
    address, not_after, drained, heard, late, batched, shares    of a call, as in `calls`
    beside     of a read, write or lock: it was, or may have been, made beside the turns
    lost       of a write: it tells of a call whose connection ended, of this operation

A DRIVER has its name, how many calls it takes at a time (`places`), and how long each
operation's permission lasts (`window`) and may take effect (`settling`). Of one that is
changed meanwhile the last version counts.
"""

import json
import math

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import msgspec

from lbcf.core.model import names
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import MemberKey
from lbcf.drivers.errors import ConnectionLost
from lbcf.wire.records import parse_record
from lbcf.wire.resources import parse_driver
from tests.lab.model.tape import OPERATIONS, Json, facts
from tests.lab.traced.audit import Body, Request
from tests.lab.traced.calls import Call
from tests.lab.traced.sendings import SPARE, plain


RECORDS = ("backendrecords", "backendrecords/status")
OURS = ("lbcf-controller/", "lbcf-deregistrar/")
"""How the User-Agents of our processes begin, with those of their calls."""
_SKEW = 3.0
"""Seconds for a driver whose clock is behind, and for times that are cut to seconds."""
_LOST = ConnectionLost.reason
_BESIDE = {"waitingFor", "backendGone"}
"""What is written into the status of a record beside its turns."""


@attrs.frozen
class Run:
    """One run of one of our processes.

    Attributes:
        name: its incarnation.
        role: controller or deregistrar.
        began: when it was started.
        ended: when it was seen to have ended; None: it was not.
        agent: what its User-Agent has of it; it names no shard.
    """

    name: str
    role: str
    began: float
    ended: float | None
    agent: str = attrs.field()

    @agent.default
    def _its_name(self) -> str:
        return self.name


def strangers(
    asked: Iterable[Request], calls: Iterable[Call], runs: Iterable[Run]
) -> set[str]:
    """Return the controllers and deregistrars that a tape would not know."""
    about = {request.agent for request in asked if request.resource in RECORDS}
    agents = {agent for agent in about if agent.startswith(OURS)}
    agents |= {call.agent for call in calls}
    names = [run.agent for run in runs]
    return {agent for agent in agents if not any(name in agent for name in names)}


def a_tape(
    asked: Iterable[Request], calls: Iterable[Call], runs: Sequence[Run], until: float
) -> Json:
    """Put a tape together.

    Args:
        asked: requests of the audit log.
        calls: what reached the driver.
        runs: of our processes.
        until: what began later is left out.
    """
    ordered = sorted(asked, key=lambda request: request.began)
    drivers = _drivers(ordered)
    described = {str(d.meta.key): _described(d) for d in drivers}
    writer = _Writer(runs, list(described.values()))
    steps = [step for request in ordered for step in writer.steps_of(request)]
    crashes = list(_ends(runs, steps))
    ended = {crash["actor"]: crash["began"] for crash in crashes}
    steps += [*crashes, *(writer.call(call, ended) for call in calls)]
    keyed = [str(d.meta.key) for d in drivers if d.member_key is MemberKey.RECORD]
    chosen = [step for step in steps if step["began"] <= until]
    chosen.sort(key=lambda step: step["began"])
    return {"keyed": sorted(set(keyed)), "drivers": described, "steps": chosen}


def _drivers(asked: Iterable[Request]) -> list[LoadBalancerDriver]:
    """Read all versions of drivers."""
    kind = "loadbalancerdrivers"
    shown = (r.shown for r in asked if r.resource == kind and r.shown)
    return [parse_driver(_bytes(body)) for body in shown]


def _described(driver: LoadBalancerDriver) -> Json:
    """Write down a driver; what its times add up to is told here once more."""
    times = {
        name: driver.timeout(operation).total_seconds()
        for operation, name in OPERATIONS.items()
    }
    late = driver.late_effect.total_seconds() + _SKEW
    windows = {name: time + SPARE for name, time in times.items()}
    return {
        "name": str(driver.meta.key),
        "drains": driver.declares(Operation.DRAIN_BACKEND),
        "window": windows,
        "settling": {name: math.ceil(w + late) for name, w in windows.items()},
        "places": driver.max_concurrent_calls,
    }


def _bytes(body: Body) -> bytes:
    return msgspec.json.encode(body)


def _ends(
    runs: Iterable[Run], steps: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Tell who has ended: not before the last of its requests has come in."""
    for run in runs:
        if run.ended is not None:
            own = [s["began"] for s in steps if s["actor"] == run.name]
            at = max([run.ended, *own])
            yield {"actor": run.name, "step": "crash", "began": at, "ended": at}


class _Writer:
    """Turns requests and calls into steps.

    Args:
        runs: of our processes.
        drivers: that there are.
    """

    def __init__(self, runs: Sequence[Run], drivers: Sequence[Json]) -> None:
        self._runs = runs
        self._driver = drivers[0] if len(drivers) == 1 else None
        self._leaders: dict[str, str] = {}

    def steps_of(self, request: Request) -> Iterator[dict[str, Any]]:
        """Write down a request, if it is part of the protocol."""
        run = self._run_of(request.agent)
        if request.resource in RECORDS:
            yield from self._about_record(request, run)
        elif request.resource == "leases" and run is not None:
            yield from self._about_lease(request, run)

    def call(self, call: Call, ended: Mapping[str, float]) -> dict[str, Any]:
        """Write down a call; who has ended by its answer has not heard that."""
        run = self._run_of(call.agent)
        if run is None:
            return {"actor": call.agent, "step": "call", **attrs.asdict(call)}
        lived = (call.ended or math.inf) <= ended.get(run.name, math.inf)
        told = attrs.evolve(call, heard=call.heard and lived)
        return {"actor": run.name, "step": "call", **attrs.asdict(told)}

    def _run_of(self, agent: str) -> Run | None:
        """Find who asked; None: a person, or a program of somebody else's."""
        return next((run for run in self._runs if run.agent in agent), None)

    def _about_record(
        self, request: Request, run: Run | None
    ) -> Iterator[dict[str, Any]]:
        """Write down what was done to a record."""
        kind, way = _kind(request)
        shown = facts(parse_record(_bytes(request.shown))) if request.shown else None
        uid = request.shown.get("metadata", {}).get("uid") or _of(request, "uid")
        if not uid or (shown is None and kind not in ("write", "release")):
            return  # nothing came of it, and no turn learnt from that
        actor = request.user if run is None else run.name
        step = {"actor": actor, "step": kind, "record": uid, "line": request.id}
        step |= {"began": request.began, "ended": request.ended}
        step |= {"outcome": _outcome(request, kind, shown)}
        if version := _of(request, "resourceVersion"):
            step["of"] = int(version)
        if run is None:
            step |= {"actor": actor, "step": "delete" if kind == "delete" else "read"}
        elif kind == "delete":
            step["actor"] = f"{actor}-deletes"
        if way:
            step["beside"] = way
        if lost := _lost(request):
            step["lost"] = lost
        gone = step["outcome"] == "released"
        yield step if shown is None or gone else {**step, "now": shown}

    def _about_lease(self, request: Request, run: Run) -> Iterator[dict[str, Any]]:
        """Write down what was done to a lock on an address, or to an announcement."""
        spec = request.shown.get("spec", {})
        holder = str(spec.get("holderIdentity", "")).split("/")
        is_lock, is_end = (request.name.startswith(p) for p in ("addr-", "end-"))
        if len(holder) != 3 or request.verb == "delete" or self._driver is None:
            yield from self._inherited(request, run)
            return
        step: dict[str, Any] = {"actor": run.name, "record": holder[2]}
        step |= {"line": request.id, "began": request.began, "ended": request.ended}
        step |= {"settling": float(spec.get("leaseDurationSeconds") or 0)}
        version = int(request.shown["metadata"]["resourceVersion"])
        if is_lock:
            # Whose turn it was is not in it: another record's looks at it, too, that
            # wants the address, and locks get further keys beside all turns.
            named = {"step": "lock", "outcome": "taken", "lock": request.name}
            named["beside"] = "maybe"
            driver = plain(self._driver)
            yield {**step, **named, "driver": driver, "version": version}
        elif is_end and run.role == "deregistrar":
            yield {**step, "step": "cover", "outcome": "covered"}

    def _inherited(self, request: Request, run: Run) -> Iterator[dict[str, Any]]:
        """Write down that a process goes by the name of the one before it.

        It finds that one's journal, with what that knew of its calls.
        """
        meta = request.shown.get("metadata", {})
        text = meta.get("annotations", {}).get(f"{names.API_GROUP}/holder-process")
        is_led = request.name.startswith(("lbcf-deregistrar", "lbcf-controller"))
        if not is_led or request.verb == "get" or text is None:
            return
        spec, holder = request.shown["spec"], json.loads(text)
        if not str(spec.get("holderIdentity", "")).endswith(f"_{run.name}"):
            return
        before = self._leaders.get(request.name, run.name)
        self._leaders[request.name] = run.name
        if holder.get("inherited") and before != run.name:
            named = {"actor": run.name, "step": "inherit", "name": holder["inherited"]}
            named["recalls"] = before
            # Who stood by may have begun while its predecessor was at work.
            times = {"began": request.began, "ended": request.ended}
            yield {**named, "line": request.id, **times}


def _of(request: Request, field: str) -> str:
    """Return what a write, or a deletion, was to be made to."""
    meta = (
        request.sent.get("metadata", {}) or request.sent.get("preconditions", {}) or {}
    )
    return str(meta.get(field) or "")


def _kind(request: Request) -> tuple[str, str]:
    """Say which step a request was, and whether it was made beside the turns."""
    if request.verb == "get":
        return "read", "maybe"
    if request.verb in ("create", "delete"):
        return request.verb, ""
    if request.resource == "backendrecords/status":
        changed = set(request.sent.get("status", {}))
        if changed and changed <= _BESIDE:
            return "write", "sure"
        return "write", "maybe" if changed <= {"conditions"} else ""
    if "finalizers" in request.sent.get("metadata", {}):
        return "release", ""
    return ("update", "") if "spec" in request.sent else ("write", "")


def _lost(request: Request) -> str:
    """Say of which operation a write tells that a call's connection ended; empty: of none.

    A driver that was killed may have ended before it noted the call.
    """
    said = request.sent.get("status", {}).get("conditions") or ()
    texts = [c.get("message", "") for c in said if c.get("reason") == _LOST]
    found = (op for name, op in OPERATIONS.items() for t in texts if f" {name}:" in t)
    return next(found, "")


def _outcome(request: Request, kind: str, shown: Mapping[str, Any] | None) -> str:
    """Say what came of it."""
    if request.is_done:
        if kind == "release" and shown is not None and not _finalizers(request):
            return "released"
        return "observed" if shown is not None else "gone"
    words = {404: "gone", 409: "conflicted"}
    return words.get(request.code, "unknown")


def _finalizers(request: Request) -> Sequence[str]:
    found: Sequence[str] = request.shown["metadata"].get("finalizers", [])
    return found
