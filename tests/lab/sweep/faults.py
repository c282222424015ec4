"""How one step of I/O may go: the effect at the far end, and what the caller learns.

`process` carries them out, `explore` chooses the step and the mode.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto

import attrs


class Kind(Enum):
    """What a step is."""

    READ = auto()
    LIST = auto()
    WATCH = auto()
    WRITE = auto()
    CALL = auto()


class Effect(Enum):
    """When the far end acts, if it does."""

    NONE = auto()
    NOW = auto()
    LATE = auto()
    """As late as it is allowed to: for a driver just under lateEffectSeconds."""
    OVER = auto()
    """Later than that: what no protocol can bear, and what the oracle must see."""


class Ending(Enum):
    """What the caller learns."""

    ANSWER = auto()
    CRASH = auto()
    TIMEOUT = auto()
    RESET = auto()
    UNSENT = auto()
    BROKEN = auto()
    THROTTLED = auto()
    CONFLICT = auto()
    FAIL = auto()
    RUNNING = auto()
    CANCEL = auto()


class Trouble(Enum):
    """What happens to the process around a step that itself goes well."""

    LAG = auto()
    """Its watches tell nothing for a while, or those of one kind."""
    GAP = auto()
    """The same, and then they are told to list again: what came and went is missed."""
    OLD = auto()
    """It crashes, and what its successor lists first is older than what it has seen."""
    TWIN = auto()
    """Another one of its kind begins to work beside it."""
    SLOW = auto()
    """The effect comes at once, its answer just before the sender gives up."""
    PAUSE = auto()
    """It stands still for a while: nothing comes in, nothing goes out."""
    STALL = auto()
    """The same, for not quite as long as a permission is good without another look."""
    SUSPEND = auto()
    """Its machine is suspended: it stands still, and so does its monotonic clock."""
    AHEAD = auto()
    """The wall clock of its machine is set ahead by an hour."""
    BACK = auto()
    """The same, back by an hour."""


@attrs.frozen
class Mode:
    """One way.

    Attributes:
        watch: the kind whose watches alone the trouble meets, empty: all of them.
    """

    effect: Effect = Effect.NOW
    ending: Ending = Ending.ANSWER
    trouble: Trouble | None = None
    watch: str = ""


_ANY_STEP = {
    "crash-before": Mode(Effect.NONE, Ending.CRASH),
    "crash-after": Mode(Effect.NOW, Ending.CRASH),
    "timeout": Mode(Effect.NONE, Ending.TIMEOUT),
    "reset": Mode(Effect.NONE, Ending.RESET),
    "unsent": Mode(Effect.NONE, Ending.UNSENT),
    "5xx": Mode(Effect.NONE, Ending.BROKEN),
    "old-list": Mode(Effect.NOW, Ending.CRASH, Trouble.OLD),
    "lag": Mode(trouble=Trouble.LAG),
    "gap": Mode(trouble=Trouble.GAP),
    "twin": Mode(trouble=Trouble.TWIN),
    "pause": Mode(trouble=Trouble.PAUSE),
    "stall": Mode(trouble=Trouble.STALL),
    "suspend": Mode(trouble=Trouble.SUSPEND),
    "clock-ahead": Mode(trouble=Trouble.AHEAD),
    "clock-back": Mode(trouble=Trouble.BACK),
}
_ONE_WATCH = {
    "lag-records": Mode(trouble=Trouble.LAG, watch="backendrecords"),
    "lag-groups": Mode(trouble=Trouble.LAG, watch="backendgroups"),
    "lag-load-balancers": Mode(trouble=Trouble.LAG, watch="loadbalancers"),
    "lag-pods": Mode(trouble=Trouble.LAG, watch="pods"),
    "lag-drivers": Mode(trouble=Trouble.LAG, watch="loadbalancerdrivers"),
    "lag-nodes": Mode(trouble=Trouble.LAG, watch="nodes"),
    "lag-services": Mode(trouble=Trouble.LAG, watch="services"),
    "lag-leases": Mode(trouble=Trouble.LAG, watch="leases"),
    "gap-records": Mode(trouble=Trouble.GAP, watch="backendrecords"),
    "gap-pods": Mode(trouble=Trouble.GAP, watch="pods"),
}
_SLOW = {"slow": Mode(trouble=Trouble.SLOW)}
_EFFECT_WITHOUT_ANSWER = {
    "crash-late": Mode(Effect.LATE, Ending.CRASH),
    "lost": Mode(Effect.NOW, Ending.RESET),
    "reset-late": Mode(Effect.LATE, Ending.RESET),
    "timeout-now": Mode(Effect.NOW, Ending.TIMEOUT),
    "timeout-late": Mode(Effect.LATE, Ending.TIMEOUT),
    "5xx-now": Mode(Effect.NOW, Ending.BROKEN),
    "5xx-late": Mode(Effect.LATE, Ending.BROKEN),
}
_CANCELLED = {
    "cancel": Mode(Effect.NONE, Ending.CANCEL),
    "cancel-late": Mode(Effect.LATE, Ending.CANCEL),
}
_THROTTLED = {"429": Mode(Effect.NONE, Ending.THROTTLED)}
_BY_API = {**_THROTTLED, "409": Mode(Effect.NONE, Ending.CONFLICT)}
_BY_DRIVER = {
    "fail": Mode(Effect.NONE, Ending.FAIL),
    "running": Mode(Effect.NONE, Ending.RUNNING),
    "running-late": Mode(Effect.LATE, Ending.RUNNING),
}
_LISTS = ("crash-before", "crash-after", "timeout", "5xx", "pause", "twin")

MODES: Mapping[Kind, Mapping[str, Mode]] = {
    Kind.WRITE: {
        **_ANY_STEP,
        **_ONE_WATCH,
        **_EFFECT_WITHOUT_ANSWER,
        **_CANCELLED,
        **_BY_API,
        **_SLOW,
    },
    Kind.CALL: {
        **_ANY_STEP,
        **_ONE_WATCH,
        **_EFFECT_WITHOUT_ANSWER,
        **_CANCELLED,
        **_BY_DRIVER,
        **_SLOW,
    },
    Kind.READ: {
        **_ANY_STEP,
        **_THROTTLED,
        **_SLOW,
        "cancel": _CANCELLED["cancel"],
    },
    Kind.LIST: {**{name: _ANY_STEP[name] for name in _LISTS}, **_THROTTLED},
    Kind.WATCH: {name: _ANY_STEP[name] for name in ("crash-before", "5xx", "gap")},
}
"""Which modes a step of each kind is tried with, by name."""

OVER_BOUND = {
    "timeout-over": Mode(Effect.OVER, Ending.TIMEOUT),
    "running-over": Mode(Effect.OVER, Ending.RUNNING),
    "crash-over": Mode(Effect.OVER, Ending.CRASH),
}
"""Modes that break a driver's word; never part of a sweep."""

ALL_MODES: Mapping[str, Mode] = {
    name: mode
    for modes in (*MODES.values(), OVER_BOUND)
    for name, mode in modes.items()
}

Plan = Mapping[int, str]
"""Which steps, by number, go how."""


def spelled(plan: Plan) -> str:
    """Write a plan as the command line takes it."""
    return ",".join(f"{number}:{mode}" for number, mode in sorted(plan.items()))


def read_plan(text: str) -> dict[int, str]:
    """Read a plan.

    Raises:
        ValueError: no such mode, or not a number.
    """
    plan: dict[int, str] = {}
    for part in filter(None, text.split(",")):
        number, _, mode = part.partition(":")
        if mode not in ALL_MODES:
            raise ValueError(f"{part}: the modes are {', '.join(sorted(ALL_MODES))}")
        plan[int(number)] = mode
    return plan


@attrs.frozen
class Io:
    """One step.

    Attributes:
        what: for people.
        effect: what the far end does; returns its answer or raises its refusal.
        latency: seconds from sending to the effect and the answer.
        limit: seconds after which the sender gives up.
        late: seconds after which an effect without an answer comes at the latest.
        error: what the sender is told at the endings that tell something.
        said: the driver's answer instead of its own, None for the API server.
        watch: the kind that a watch is of; what breaks is that one.
        first_part: takes effect at once where the step fails after it was sent; None:
            all of it is one.
        is_over: tells whether the driver has answered Succ to such a call of that record
            since a second; what it has left running by then takes no effect any more.
    """

    kind: Kind
    what: str
    effect: Callable[[], bytes]
    latency: float
    limit: float
    late: float
    error: Callable[[Ending], Exception]
    said: Callable[[Ending], bytes] | None = None
    watch: str = ""
    is_over: Callable[[float], bool] = lambda _since: False
    first_part: Callable[[], None] | None = None
