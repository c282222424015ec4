"""Chains of changes: what there is at first, one step after another, as JSON and back.

A state holds the manifests that somebody has written, by `Kind/name`. A step changes one
field, takes an object away, brings it back as it was at first, or undoes the step before.
"""

# ruff: noqa: S311 - a sample that can be drawn again is the point

import copy
import random

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import attrs

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.lab.specs.schemas import KINDS, NS, Field, fields, values


State = Mapping[str, Mapping[str, Any]]
LENGTH: Final = 24
"""Steps of a chain."""
SHARED: Final = f"lbcf-{NS}"
"""A driver and a load balancer in kube-system, of one namespace's chain alone."""
DRAIN: Final = "lbcf.tkestack.io/drain"


class Deed(StrEnum):
    """What a step does."""

    SET = "set"
    DELETE = "delete"
    CREATE = "create"
    BACK = "back"


@attrs.frozen
class Step:
    """One change.

    Attributes:
        deed: what is done.
        target: `Kind/name`; none of BACK.
        path: of SET: names, and indexes of lists.
        value: of SET; None takes the field out.
        rests: whether the next step waits until everything has come to rest.
    """

    deed: Deed
    target: str = ""
    path: tuple[str | int, ...] = ()
    value: Any = None
    rests: bool = True

    def __str__(self) -> str:
        """What people read."""
        end = "" if self.rests else " (and at once)"
        where = ".".join(str(step) for step in self.path)
        what = f" {where} = {self.value!r}" if self.deed is Deed.SET else ""
        return f"{self.deed} {self.target}{what}{end}"


@attrs.frozen
class Chain:
    """What is played in one namespace.

    Attributes:
        scenario: what there is at first.
        steps: what becomes of it.
    """

    scenario: str
    steps: tuple[Step, ...]


def _driver(member_key: str, **spec: Any) -> dict[str, Any]:
    called = ("drainBackend", "listBackends", "ensureBackend", "deregisterBackend")
    return {
        "driverType": "Webhook",
        "url": f"@{member_key}@",
        "memberKey": member_key,
        "lateEffectSeconds": 0,
        "webhooks": [{"name": name, "timeout": "2s"} for name in called],
        **spec,
    }


def _lb(name: str, driver: str) -> dict[str, Any]:
    return {"lbDriver": driver, "lbSpec": {"name": name}}


_PODS = {"ports": [{"port": 80}], "byLabel": {"selector": {"app": "web"}}}
_NODE_LABEL = {"specs": "yes"}
SPECS: Final[Mapping[str, dict[str, Any]]] = {
    "LoadBalancerDriver/mem": _driver("Record", addressSource="Backend"),
    "LoadBalancerDriver/addr": _driver("Address"),
    "LoadBalancer/front": _lb("front", "mem"),
    "LoadBalancer/back": _lb("back", "addr"),
    f"LoadBalancerDriver/{SHARED}": _driver("Record", addressSource="Backend", scope=[NS]),
    f"LoadBalancer/{SHARED}": {**_lb("shared", SHARED), "scope": [NS]},
    "LoadBalancer/own": _lb("own", SHARED),
    "BackendGroup/all": {"loadBalancers": [SHARED, "own"], "pods": _PODS},
    "BackendGroup/web": {"loadBalancers": ["front", "back"], "pods": _PODS},
    "BackendGroup/named": {
        "loadBalancers": ["front"],
        "pods": {"ports": [{"port": 8080}], "byName": ["p1", "p4"]},
    },
    "BackendGroup/fixed": {"loadBalancers": ["front"], "static": ["192.0.2.7:80"]},
    "BackendGroup/nodes": {
        "loadBalancers": ["front"],
        "nodes": {"selector": _NODE_LABEL, "ports": [{"port": 80}]},
    },
    "BackendGroup/ported": {
        "loadBalancers": ["front"],
        "service": {"name": "np", "port": {"port": 80}, "nodeSelector": _NODE_LABEL},
    },
    "Bind/both": {
        "loadBalancers": [
            {"name": name, "driver": driver, "spec": {"name": f"bind-{name}"}}
            for name, driver in (("one", "mem"), ("two", "addr"))
        ],
        "pods": _PODS,
    },
    f"LoadBalancerClass/{NS}": {"driver": "mem", "lbSpec": {"name": "{service}-{port}"}},
    "Service/np": {
        "type": "NodePort",
        "selector": {"app": "web"},
        "ports": [{"name": "http", "port": 80}],
    },
    "Service/svc": {
        "type": "LoadBalancer",
        "loadBalancerClass": f"lbcf.tkestack.io/{NS}",
        "selector": {"app": "web"},
        "ports": [{"name": "http", "port": 80}],
    },
}  # fmt: skip
_DRIVERS = ("LoadBalancerDriver/mem", "LoadBalancerDriver/addr")
_FRONT = ("LoadBalancerDriver/mem", "LoadBalancer/front")
_GROUPS = ("BackendGroup/web", "BackendGroup/named", "BackendGroup/fixed")
_OF_NODES = ("Service/np", "BackendGroup/nodes", "BackendGroup/ported")
_OF_ALL = (f"LoadBalancerDriver/{SHARED}", f"LoadBalancer/{SHARED}")
SCENARIOS: Final[Mapping[str, tuple[str, ...]]] = {
    "groups": (*_DRIVERS, "LoadBalancer/front", "LoadBalancer/back", *_GROUPS),
    "bind": (*_DRIVERS, "Bind/both"),
    "service": (_DRIVERS[0], f"LoadBalancerClass/{NS}", "Service/svc"),
    "nodes": (*_FRONT, *_OF_NODES),
    "shared": (*_OF_ALL, "LoadBalancer/own", "BackendGroup/all"),
}
PODS: Final = {
    name: {"app": "web", "tier": "a" if number < 3 else "b"}
    for number, name in enumerate(("p1", "p2", "p3", "p4"), 1)
}
"""Labels of the pods; the last one is never ready."""
UNREADY: Final = "p4"
_FREE: Final[Mapping[str, Mapping[tuple[str | int, ...], tuple[Any, ...]]]] = {
    "Service": {
        ("spec", "ports"): (
            [{"name": "http", "port": 80}],
            [{"name": "http", "port": 81, "targetPort": 8080}],
            [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}],
            [{"name": "http", "port": 80, "targetPort": "http"}],
        ),
        ("spec", "type"): ("ClusterIP", "NodePort", "LoadBalancer"),
        ("spec", "selector"): ({"app": "api"}, {"app": "web"}, None),
        ("spec", "sessionAffinity"): ("ClientIP", "None"),
        ("spec", "publishNotReadyAddresses"): (True, False),
        ("spec", "externalTrafficPolicy"): ("Local", "Cluster"),
        ("spec", "allocateLoadBalancerNodePorts"): (False, True),
        ("spec", "loadBalancerSourceRanges"): (["192.0.2.0/24"], [], ["nonsense"]),
        ("metadata", "annotations", "lbcf.tkestack.io/backends"): ("nodes", "x", None),
        ("metadata", "annotations", "lbcf.tkestack.io/shared-address"): ("a", "", None),
        ("metadata", "annotations", "lbcf.tkestack.io/external-traffic-policy"): (
            "Local",
            None,
        ),
    },
    "Pod": {
        ("metadata", "labels", "app"): ("web", "api", None),
        ("metadata", "labels", "tier"): ("a", "b", ""),
        ("metadata", "annotations", DRAIN): ("by hand", "", None),
    },
    "BackendGroup": {("metadata", "annotations", DRAIN): ("by hand", "", None)},
    "Bind": {("metadata", "annotations", DRAIN): ("by hand", "", None)},
    "LoadBalancerDriver": {
        ("metadata", "labels", "lbcf.tkestack.io/driver-draining"): ("true", "no", None)
    },
    "LoadBalancer": {
        ("metadata", "labels", "lbcf.tkestack.io/do-not-delete"): ("true", "", None)
    },
}  # fmt: skip
"""Labels and annotations that we read, and fields of kinds that are not ours."""


def first(scenario: str) -> State:
    """What there is at first."""
    made: dict[str, Any] = {
        f"Pod/{name}": {"metadata": {"labels": labels}} for name, labels in PODS.items()
    }
    made |= {
        target: {"metadata": {}, "spec": SPECS[target]}
        for target in SCENARIOS[scenario]
    }
    return copy.deepcopy(made)


def after(state: State, step: Step, scenario: str) -> State:
    """What there is after a step; the same where there is nothing to change.

    BACK is known only to whoever remembers the state before.
    """
    if step.deed is Deed.DELETE:
        return {target: body for target, body in state.items() if target != step.target}
    if step.deed is Deed.CREATE and step.target not in state:
        return {**state, step.target: first(scenario)[step.target]}
    if step.deed is not Deed.SET or step.target not in state:
        return state
    body = copy.deepcopy(dict(state[step.target]))
    _put(body, step.path, step.value)
    return {**state, step.target: body}


def _put(found: Any, path: Sequence[str | int], value: Any) -> None:
    """Put a value in its place; what leads there is made."""
    key: Any = path[0]
    if isinstance(found, list):
        key = min(int(key), len(found))
        if key == len(found):
            found.append(None)
    is_there = isinstance(found, list) or key in found
    if path[1:]:
        inner = found[key] if is_there else None
        if not isinstance(inner, dict | list):
            inner = [] if isinstance(path[1], int) else {}
            found[key] = inner
        _put(inner, path[1:], value)
    elif value is not None:
        found[key] = value
    elif is_there:
        del found[key]


def merge(old: Any, new: Any) -> Any:
    """The JSON merge patch from one manifest to another."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    gone = {key: None for key in old if key not in new}
    changed = {k: merge(old.get(k), v) for k, v in new.items() if old.get(k) != v}
    return {**gone, **changed}


def _values(field: Field, start: int, count: int) -> list[Any]:
    """Draw so many values of a field."""
    found: list[Any] = []

    @seed(start)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(values(field))
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


def _steps(scenario: str, start: int, count: int) -> list[Step]:
    """Draw that many steps, evenly over all fields of all objects."""
    chance = random.Random(f"{scenario} {start}")
    ours = SCENARIOS[scenario]
    free = [
        (target, path, value)
        for target in (*ours, *(f"Pod/{name}" for name in PODS))
        for path, found in _FREE.get(target.partition("/")[0], {}).items()
        for value in found
    ]
    known = [(t, f) for t in ours for f in _fields(t.partition("/")[0])]
    chosen = [chance.randrange(len(known)) for _ in range(count)]
    drawn = {n: _values(known[n][1], start, chosen.count(n)) for n in sorted({*chosen})}
    made = []
    for number in chosen:
        target, field = known[number]
        match chance.randrange(20):
            case 0:
                whole = chance.choice((Deed.DELETE, Deed.CREATE))
                made.append(Step(whole, chance.choice(ours)))
            case 1 | 2 | 3:
                made.append(Step(Deed.SET, *chance.choice(free)))
            case _:
                value = chance.choice(drawn[number])
                made.append(Step(Deed.SET, target, _path(field.path, chance), value))
    return made


def _fields(kind: str) -> list[Field]:
    return fields(kind) if kind in KINDS else []


def _path(path: tuple[str, ...], chance: random.Random) -> tuple[str | int, ...]:
    """Choose which item, or key, of a list or map is meant."""
    keys = ("weight", "app", "name", "refuse")
    chosen: dict[str, str | int] = {
        "[]": chance.randrange(2),
        "{}": chance.choice(keys),
    }
    return tuple(chosen.get(step, step) for step in path)


def chains(start: int, transitions: int) -> Iterator[Chain]:
    """Draw chains of so many transitions in all."""
    count = max(transitions // LENGTH, 1)
    chance = random.Random(start)
    weights = {"groups": 4, "bind": 3, "service": 2, "nodes": 2, "shared": 2}
    chosen = chance.choices(list(weights), list(weights.values()), k=count)
    drawn = {name: _steps(name, start, chosen.count(name) * LENGTH) for name in weights}
    for scenario in chosen:
        yield Chain(scenario, tuple(_line(drawn[scenario], chance)))


def _line(drawn: list[Step], chance: random.Random) -> Iterator[Step]:
    """Put steps in a line: some are undone, and some do not wait for rest."""
    for _ in range(LENGTH):
        rests = chance.random() < 0.8
        if not drawn or chance.random() < 0.25:
            yield Step(Deed.BACK, rests=rests)
        else:
            yield attrs.evolve(drawn.pop(), rests=rests)


def meets_others(chain: Chain) -> bool:
    """Whether a class becomes that of all Services without one, or a Service has none."""
    said = {
        "LoadBalancerClass": (("spec", "default"), True),
        "Service": (("spec", "type"), "LoadBalancer"),
    }
    return any(
        said.get(step.target.partition("/")[0]) == (step.path, step.value)
        for step in chain.steps
    )


def to_json(chain: Chain) -> dict[str, Any]:
    """A chain as JSON."""
    return attrs.asdict(chain)


def of_json(raw: Mapping[str, Any]) -> Chain:
    """A chain of JSON."""
    steps = (
        Step(Deed(s["deed"]), s["target"], tuple(s["path"]), s["value"], s["rests"])
        for s in raw["steps"]
    )
    return Chain(raw["scenario"], tuple(steps))
