"""What a trace says, read from JSON: steps, and records as they were seen.

    {"keyed": ["shop/proxy"], "steps": [STEP, ...]}

`keyed` are the drivers whose members are named after records. Steps stand in the order in
which they ended; those of one actor on one record never overlap. A STEP has

    actor      a registrar's incarnation as `status.ensuring` has it, any name for the
               others; a restart has a new name
    step       create, update, delete, read, write, lock, cover, call, release, crash, or
               inherit: of a deregistrar in the place of one that had ended at `began`
    name       of an inherit: whose name it goes by from then on
    recalls    of an inherit: the actor whose knowledge of its calls it has; empty: nobody's
    record     uid
    began, ended   seconds of one clock, which is the API server's
    wall       what the actor's own wall clock showed at both
    of         the version that it was based on, or the whole FACTS of it: a watch may
               show a version whose writer never heard of its success
    op         of a call: ensure, deregister, drain or generate
    driver     of a call or lock: as the actor knew it then, {"drains": true, "settling":
               {"ensure": 25.0, "deregister": 25.0, "drain": 25.0, "generate": 25.0}}
    final      of a deregister: it counts
    clears     of a write: of the mark
    drained    of a deregister: it says that nothing was left
    proof      of a release: deregistered, never or abandoned
    lock       of a lock: its name
    settling   of a lock that was taken: for how long calls for its holder's end may take
               effect by what it says; of a cover: by what was announced
    outcome    observed, gone, conflicted, succeeded, running, refused, unanswered (it
               may land), unsent (it cannot), withheld (not made: nobody tried, or it was
               turned away), superseded, taken, held, covered, released, or unknown
    now        FACTS, where the outcome shows the record

and FACTS are

    {"version": 7, "generation": 1, "driver": "shop/proxy", "deleting": false,
     "deleted": 0.0, "held": true, "address": "", "ensuring": "", "registered": false,
     "always": false, "deregistrar": "", "settling": 25.0, "lock_settling": 0.0,
     "drain": 30.0, "drain_started": null, "drain_deadline": null,
     "backend_gone": false, "abandoned": false}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Facts:
    """A version of a record, as far as the protocol looks at it.

    Attributes:
        version: its resourceVersion, a number.
        generation: counts changes of the spec.
        driver: who is called for it.
        deleting: its end was asked for.
        deleted: in which second.
        held: our finalizer is on it.
        address: what may be registered.
        ensuring: the mark.
        registered: the present spec is in the load balancer.
        always: its policy.
        deregistrar: who alone may call for its end without telling; empty: unknown.
        settling: for how long an ensure may take effect, as it says.
        lock_settling: the same of calls for its end, as the lock on its address says.
        drain: for how long it is to be drained at most, 0: not at all.
        drain_started: when its drain began as it is written, by the writer's wall clock.
        drain_deadline: when that is to end.
        backend_gone: nobody is left to drain.
        abandoned: a person has said why it is to go without its driver.
    """

    version: int
    generation: int
    driver: str
    deleting: bool
    deleted: float
    held: bool
    address: str
    ensuring: str
    registered: bool
    always: bool
    deregistrar: str
    settling: float
    lock_settling: float
    drain: float
    drain_started: float | None
    drain_deadline: float | None
    backend_gone: bool
    abandoned: bool


@dataclass(frozen=True)
class Driver:
    """What an actor knew of a driver when it decided.

    Attributes:
        settling: for how long a call without a definite answer may take effect, by
            operation.
        drains: it can drain.
    """

    settling: Mapping[str, float]
    drains: bool

    @property
    def end_settling(self) -> float:
        """Return the longest of calls for a record's end."""
        drain = self.settling["drain"] if self.drains else 0.0
        return max(self.settling["deregister"], drain)


UNKNOWN_DRIVER = Driver({}, drains=False)


@dataclass(frozen=True)
class Event:
    """A step of a trace, as `facts` describes it.

    Attributes:
        number: its place, from 0.
    """

    number: int
    actor: str
    step: str
    record: str
    began: float
    ended: float
    wall: tuple[float, float]
    outcome: str
    of: int | None
    based_on: Facts | None
    now: Facts | None
    op: str
    driver: Driver
    final: bool
    clears: bool
    drained: bool
    proof: str
    lock: str
    settling: float
    name: str
    recalls: str


def facts_of(given: Mapping[str, Any]) -> Facts:
    """Read FACTS.

    Raises:
        KeyError: one is missing.
    """
    return Facts(**{name: given[name] for name in Facts.__dataclass_fields__})


def event_of(number: int, given: Mapping[str, Any]) -> Event:
    """Read a STEP.

    Raises:
        KeyError: what every step has is missing.
    """
    of, now, driver = given.get("of"), given.get("now"), given.get("driver")
    began, ended = given["began"], given["ended"]
    first, last = given.get("wall", (began, ended))
    return Event(
        number=number,
        actor=given["actor"],
        step=given["step"],
        record=given.get("record", ""),
        began=began,
        ended=ended,
        wall=(first, last),
        outcome=given.get("outcome", ""),
        of=of["version"] if isinstance(of, Mapping) else of,
        based_on=facts_of(of) if isinstance(of, Mapping) else None,
        now=None if now is None else facts_of(now),
        op=given.get("op", ""),
        driver=UNKNOWN_DRIVER if driver is None else Driver(**driver),
        final=given.get("final", False),
        clears=given.get("clears", False),
        drained=given.get("drained", False),
        proof=given.get("proof", ""),
        lock=given.get("lock", ""),
        settling=given.get("settling", 0.0),
        name=given.get("name", ""),
        recalls=given.get("recalls", ""),
    )
