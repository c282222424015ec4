"""What a trace says, read from JSON: steps, and records as they were seen.

    {"memberKey": "Record" or "Address",
     "settling": {"ensure": 25.0, "deregister": 25.0, "drain": 25.0},
     "steps": [STEP, ...]}

Steps stand in the order in which they ended; those of one actor on one record never
overlap. A STEP has

    actor      a registrar's incarnation as `status.ensuring` has it, any name for the
               others; a restart has a new name
    step       create, update, delete, read, write, lock, call, release, abandon, crash, or
               inherit: of a deregistrar in the place of one that had ended at `began`
    name       of an inherit: whose name it goes by from then on
    record     uid
    began, ended   seconds of one clock; `began` is what Permission.at says
    of         the version that it was based on, or the whole FACTS of it: a watch may
               show a version whose writer never heard of its success
    op         of a call: ensure, deregister, drain or generate
    final      of a deregister: it counts
    proof      of a release: deregistered, never or abandoned
    lock       of a lock: its name
    outcome    observed, gone, conflicted, succeeded, running, refused, unanswered (it
               may land), unsent (it cannot), superseded, taken, held, released,
               or unknown
    now        FACTS, where the outcome shows the record

and FACTS are

    {"version": 7, "generation": 1, "deleting": false, "held": true, "address": "",
     "ensuring": "", "registered": false, "always": false, "deregistrar": ""}
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
        deleting: its end was asked for.
        held: our finalizer is on it.
        address: what may be registered.
        ensuring: the mark.
        registered: the present spec is in the load balancer.
        always: its policy.
        deregistrar: who alone may call for its end without telling; empty: unknown.
    """

    version: int
    generation: int
    deleting: bool
    held: bool
    address: str
    ensuring: str
    registered: bool
    always: bool
    deregistrar: str = ""


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
    outcome: str
    of: int | None
    based_on: Facts | None
    now: Facts | None
    op: str
    final: bool
    proof: str
    lock: str
    name: str = ""


def facts_of(given: Mapping[str, Any]) -> Facts:
    """Read FACTS.

    Raises:
        KeyError: one is missing.
    """
    names = Facts.__dataclass_fields__
    known = {"deregistrar": "", **given}
    return Facts(**{name: known[name] for name in names})


def event_of(number: int, given: Mapping[str, Any]) -> Event:
    """Read a STEP.

    Raises:
        KeyError: what every step has is missing.
    """
    of, now = given.get("of"), given.get("now")
    return Event(
        number=number,
        actor=given["actor"],
        step=given["step"],
        record=given.get("record", ""),
        began=given["began"],
        ended=given["ended"],
        outcome=given.get("outcome", ""),
        of=of["version"] if isinstance(of, Mapping) else of,
        based_on=facts_of(of) if isinstance(of, Mapping) else None,
        now=None if now is None else facts_of(now),
        op=given.get("op", ""),
        final=given.get("final", False),
        proof=given.get("proof", ""),
        lock=given.get("lock", ""),
        name=given.get("name", ""),
    )
