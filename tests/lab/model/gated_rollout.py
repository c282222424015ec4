"""L4, S9 to S13: the gates beside rollouts, undo, evictions under a budget and an autoscaler.

All pods of one Deployment (`maxSurge: 1`, `maxUnavailable: 0`), as its controller, a
PodDisruptionBudget (`maxUnavailable: 1`) and a HorizontalPodAutoscaler treat them. Pods are
alike, so that a moment has a multiset of them. Faults come as often as they like: the
controller crashes, the load balancer loses a member, the user changes the template or
undoes that, a node is to be emptied, the autoscaler thinks better of it. L4 is searched
after the last of them as a fair lasso (`fair`).
"""

from __future__ import annotations

import time

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from tests.lab.model.fair import Graph, Move


class Ways(NamedTuple):
    """How the gates are kept.

    Attributes:
        by_ready: a pod is registered once its condition Ready is True.
        early: a readiness gate opens as soon as there is a record.
        latched: an open gate stays open, whatever becomes of the record.
        by_events: only who has seen the registration itself opens a gate.
        newest_alone: gates of pods of the newest ReplicaSet are opened alone.
        awaits: SIGTERM comes once no record names the pod.
        ends_first: a record is ended when its pod is deleted, not when it is gone.
    """

    by_ready: bool = False
    early: bool = False
    latched: bool = True
    by_events: bool = False
    newest_alone: bool = False
    awaits: bool = True
    ends_first: bool = True


class World(NamedTuple):
    """What may befall the pods.

    Attributes:
        text: what it is.
        least: how many pods the autoscaler wants at least.
        most: how many it wants at most; there is none where these are the same.
        room: for how many pods nodes have room, those that end included.
        evictions: how many pods have to leave their nodes; None: as many as like.
        refuses: from some moment on the load balancer takes nobody in any more.
        probes: those of a pod that is in fail, and succeed again.
        edits: the template is changed, and that is undone.
    """

    text: str
    least: int = 2
    most: int = 2
    room: int = 3
    evictions: int | None = 0
    refuses: bool = False
    probes: bool = False
    edits: bool = True


SURGE = 1
BUDGET = 1

BUILT = Ways()
WORLDS = {
    "g1": World("2 pods, a rollout that is undone and begun again", room=4),
    "g2": World("2 pods, the same and evictions", evictions=None),
    "g3": World("1 to 2 pods by an autoscaler", least=1),
    "g4": World("the same and evictions", least=1, evictions=None),
    "g5": World("2 to 3 pods by an autoscaler, room for 4", most=3, room=4),
    "g6": World(
        "2 pods, an eviction, registrations are refused", evictions=1, refuses=True
    ),
}
LARGE = frozenset({"g4", "g5", "g29", "g30"})
PROBES = World("2 pods, their probes fail", probes=True)


class Pod(NamedTuple):
    """A pod.

    Attributes:
        revision: of its template; there are 0 and 1.
        containers: are ready.
        is_open: its readiness gate is True.
        record: none, wanted (written down), in, unseen (in, before the controller began),
            lost (by the load balancer) or ending.
        leaves: it is to be evicted.
        deleted: its preStop hook waits.
    """

    revision: int = 0
    containers: bool = False
    is_open: bool = False
    record: str = "none"
    leaves: bool = False
    deleted: bool = False

    @property
    def is_ready(self) -> bool:
        """Say what the kubelet makes of it."""
        return self.containers and self.is_open and not self.deleted

    @property
    def is_in(self) -> bool:
        """Say whether it is registered."""
        return self.record in {"in", "unseen"} and not self.deleted

    @property
    def serves(self) -> bool:
        """Say whether it is in service, but for what the load balancer itself has lost."""
        lost = self.record == "lost" and not self.deleted
        return self.containers and (self.is_in or lost)


SERVES = Pod(containers=True, is_open=True, record="in")
ENDS = SERVES._replace(deleted=True)


class Moment(NamedTuple):
    """A moment.

    Attributes:
        pods: in order.
        replicas: the desired number.
        target: the revision that is rolled out.
        runs: the controller does.
        evictions: how many pods may yet have to leave; None: as many as like.
        refuses: the load balancer takes nobody in any more.
    """

    pods: tuple[Pod, ...]
    replicas: int
    target: int = 0
    runs: bool = True
    evictions: int | None = 0
    refuses: bool = False

    @property
    def live(self) -> list[Pod]:
        """Return the pods that are not being deleted."""
        return [pod for pod in self.pods if not pod.deleted]

    @property
    def healthy(self) -> int:
        """Return how many are Ready."""
        return sum(pod.is_ready for pod in self.pods)


class Step(NamedTuple):
    """What may come next, whose it is, and the promise that it breaks."""

    who: str
    text: str
    state: Moment
    broken: str = ""


S9 = "S9 a gate opened before its pod was in"
S10 = "S10 an open gate was closed"
S11 = "S11 a rollout took a pod that was needed"
S12 = "S12 an eviction took a pod that was needed"
S13 = "S13 SIGTERM came before the drain had ended"
STUCK = "L4 pods, a rollout or an eviction wait for ever"


class Variant(NamedTuple):
    """A weaker way, the world that shows it, and what it breaks."""

    text: str
    ways: Ways
    world: World
    breaks: frozenset[str]


VARIANTS = {
    "g21": Variant(
        "eligible by Ready", Ways(by_ready=True), WORLDS["g1"], frozenset({STUCK})
    ),
    "g22": Variant(
        "a gate opens with the record, a rollout",
        Ways(early=True),
        WORLDS["g1"],
        frozenset({S9, S11}),
    ),
    "g23": Variant(
        "a gate opens with the record, evictions",
        Ways(early=True),
        WORLDS["g2"]._replace(edits=False),
        frozenset({S9, S12}),
    ),
    "g24": Variant(
        "a gate is shut with the load balancer's trouble",
        Ways(latched=False),
        WORLDS["g6"]._replace(edits=False),
        frozenset({S10, STUCK}),
    ),
    "g25": Variant(
        "a gate opens by the event of its registration alone",
        Ways(by_events=True),
        WORLDS["g1"],
        frozenset({STUCK}),
    ),
    "g26": Variant(
        "gates open in the newest ReplicaSet alone",
        Ways(newest_alone=True),
        WORLDS["g1"],
        frozenset({STUCK}),
    ),
    "g27": Variant(
        "SIGTERM does not wait", Ways(awaits=False), WORLDS["g1"], frozenset({S13})
    ),
    "g28": Variant(
        "a record ends after its pod",
        Ways(ends_first=False),
        WORLDS["g1"],
        frozenset({STUCK}),
    ),
    "g29": Variant(
        "as built, where a probe fails and succeeds again: a limit of the latch",
        BUILT,
        PROBES,
        frozenset({S11}),
    ),
    "g30": Variant(
        "the same, evictions",
        BUILT,
        PROBES._replace(edits=False, evictions=None),
        frozenset({S12}),
    ),
}


# --- what comes of itself -----------------------------------------------------------------


def fair_steps(ways: Ways, world: World, now: Moment) -> Iterator[Step]:
    """Go through what is no fault."""
    yield from _made(world, now)
    yield from _scaled_in(now)
    yield from _rolled(now)
    yield from _evicted(now)
    for pod in sorted(set(now.pods)):
        yield from _of_nodes(ways, now, pod)
        if now.runs:
            yield from _of_controller(ways, now, pod)
    if not now.runs:
        yield Step("controller", "the controller begins", now._replace(runs=True))


def _with(now: Moment, pods: Iterable[Pod]) -> Moment:
    return now._replace(pods=tuple(sorted(pods)))


def _without(now: Moment, pod: Pod) -> list[Pod]:
    pods = list(now.pods)
    pods.remove(pod)
    return pods


def _changed(now: Moment, pod: Pod, new: Pod) -> Moment:
    return _with(now, [*_without(now, pod), new])


def _deleted(now: Moment, pod: Pod) -> Moment:
    # Of a pod that ends nothing but its record matters.
    return _changed(now, pod, ENDS._replace(record=pod.record))


def _is_needed(now: Moment, pod: Pod, least: int) -> bool:
    """Say whether a pod that is Ready is taken while too few others serve."""
    left = sum(one.serves for one in now.pods) - pod.serves
    return pod.is_ready and left < least


def _made(world: World, now: Moment) -> Iterator[Step]:
    """Let the Deployment make pods, as long as nodes have room."""
    new = sum(pod.revision == now.target for pod in now.live)
    wanted = len(now.live) < now.replicas + SURGE and new < now.replicas
    if wanted and len(now.pods) < world.room:
        following = _with(now, [*now.pods, Pod(now.target)])
        yield Step("Deployment", "a pod is made", following)


def _scaled_in(now: Moment) -> Iterator[Step]:
    """Let it delete what it has too many of, of each ReplicaSet those that are not Ready first.

    In a rollout it shares that out among ReplicaSets, which may take a pod that is Ready
    while one of another ReplicaSet is not: that is its own, whatever gates do.
    """
    sets = [[p for p in now.live if p.revision == one] for one in (0, 1)]
    rolls = len(now.live) > now.replicas + SURGE and all(sets)
    for one in sets if rolls else [sets[now.target]]:
        if rolls or len(one) > now.replicas:
            for pod in _first(one):
                needed = not rolls and _is_needed(now, pod, now.replicas)
                text, following = "a pod is scaled in", _deleted(now, pod)
                yield Step("Deployment", text, following, S11 if needed else "")


def _first(pods: list[Pod]) -> list[Pod]:
    """Return which pods of a ReplicaSet may be deleted first."""
    unready = sorted({pod for pod in pods if not pod.is_ready})
    return unready or sorted(set(pods))


def _rolled(now: Moment) -> Iterator[Step]:
    """Let the Deployment delete pods of the other ReplicaSet, those that are not Ready first."""
    old = [pod for pod in now.live if pod.revision != now.target]
    missing = sum(p.revision == now.target and not p.is_ready for p in now.live)
    if not old or len(now.live) - now.replicas - missing <= 0:
        return
    for pod in _first(old):
        if not pod.is_ready or now.healthy > now.replicas:
            broken = S11 if _is_needed(now, pod, now.replicas) else ""
            yield Step("Deployment", "an old pod goes", _deleted(now, pod), broken)


def _evicted(now: Moment) -> Iterator[Step]:
    """Grant what the budget has left; of pods that are not Ready if the budget is kept."""
    least = now.replicas - BUDGET
    for pod in sorted(set(now.pods)):
        idle = not pod.is_ready and now.healthy >= least > 0
        if pod.leaves and (now.healthy > least or idle):
            broken = S12 if _is_needed(now, pod, least) else ""
            yield Step("eviction", "a pod is evicted", _deleted(now, pod), broken)


def _of_nodes(ways: Ways, now: Moment, pod: Pod) -> Iterator[Step]:
    """Let the kubelet start and end a pod, and the deregistrar let go of its record."""
    if not pod.containers:
        started = _changed(now, pod, pod._replace(containers=True))
        yield Step("kubelet", "the containers of a pod are ready", started)
    if pod.record == "ending":
        free = _changed(now, pod, pod._replace(record="none"))
        yield Step("deregistrar", "a record is drained and gone", free)
    if pod.deleted and (pod.record == "none" or not ways.awaits):
        broken = "" if pod.record == "none" else S13
        yield Step(
            "kubelet", "a pod gets SIGTERM", _with(now, _without(now, pod)), broken
        )


def _of_controller(ways: Ways, now: Moment, pod: Pod) -> Iterator[Step]:
    """Let the controller write and call about a pod; each is one step."""
    for text, new in _acts(ways, now, pod):
        opens, shuts = new.is_open > pod.is_open, new.is_open < pod.is_open
        broken = S9 if opens and not pod.is_in else S10 if shuts else ""
        yield Step("controller", text, _changed(now, pod, new), broken)


def _acts(ways: Ways, now: Moment, pod: Pod) -> Iterator[tuple[str, Pod]]:
    if pod.deleted or not pod.containers:
        if pod.record not in {"none", "ending"} and ways.ends_first:
            yield "a record is ended", pod._replace(record="ending")
        return
    able = pod.is_ready if ways.by_ready else pod.containers
    if pod.record == "none" and able:
        yield "a record is written", pod._replace(record="wanted")
    if pod.record in {"wanted", "lost"} and not now.refuses:
        yield "a pod is registered", pod._replace(record="in")
    if _may_open(ways, pod):
        yield "a gate opens", pod._replace(is_open=True)
    if pod.is_open and not pod.is_in and not ways.latched:
        yield "a gate is shut", pod._replace(is_open=False)


def _may_open(ways: Ways, pod: Pod) -> bool:
    if pod.is_open or not pod.containers or (ways.newest_alone and not pod.revision):
        return False
    if ways.early:
        return pod.record != "none"
    return pod.record == "in" or (pod.record == "unseen" and not ways.by_events)


# --- what befalls it ----------------------------------------------------------------------


def _faults(ways: Ways, world: World, now: Moment) -> Iterator[Step]:
    """Go through what others do, as often as they like."""
    if world.edits:
        text = "the template is changed" if not now.target else "the change is undone"
        yield Step("user", text, now._replace(target=1 - now.target))
    for replicas in {world.least, world.most} - {now.replicas}:
        text = f"the autoscaler wants {replicas}"
        yield Step("autoscaler", text, now._replace(replicas=replicas))
    if now.runs:
        yield Step("fault", "the controller crashes", _crashed(ways, now))
    if world.refuses and not now.refuses:
        following = now._replace(refuses=True)
        yield Step("fault", "registrations are refused from now on", following)
    for pod in sorted(set(now.live)):
        yield from _befalls(world, now, pod)


def _crashed(ways: Ways, now: Moment) -> Moment:
    pods = [
        pod._replace(record="unseen") if ways.by_events and pod.record == "in" else pod
        for pod in now.pods
    ]
    return _with(now._replace(runs=False), pods)


def _befalls(world: World, now: Moment, pod: Pod) -> Iterator[Step]:
    """Let the load balancer lose a pod, its probe fail, or its node be emptied."""
    if pod.is_in:
        lost = _changed(now, pod, pod._replace(record="lost"))
        yield Step("fault", "the load balancer loses a pod", lost)
    if pod.containers and world.probes:
        failed = _changed(now, pod, pod._replace(containers=False))
        yield Step("fault", "a probe of a pod fails", failed)
    if not pod.leaves and now.evictions != 0:
        left = None if now.evictions is None else now.evictions - 1
        following = _changed(now, pod, pod._replace(leaves=True))
        text = "a pod has to leave its node"
        yield Step("user", text, following._replace(evictions=left))


# --- the search ---------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What a search has found.

    Attributes:
        states: how many moments there are.
        steps: how many steps between them.
        seconds: how long it took, liveness and all.
        broken: each promise that is broken, with the shortest way there.
    """

    states: int
    steps: int
    seconds: float
    broken: dict[str, tuple[str, ...]]


Before = dict[Moment, tuple[Moment, str]]


@cache
def outcome(ways: Ways, world: World) -> Outcome:
    """Search all moments, and all that may come after the last fault."""
    began = time.perf_counter()
    pods = (SERVES,) * world.most
    first = Moment(pods, world.most, evictions=world.evictions)
    before: Before = {first: (first, "")}
    moves: dict[Moment, list[Move]] = {}
    broken: dict[str, tuple[str, ...]] = {}
    work, count = [first], 0
    for now in work:
        fair = list(fair_steps(ways, world, now))
        moves[now] = [Move(step.text, step.who, step.state) for step in fair]
        for step in (*fair, *_faults(ways, world, now)):
            count += 1
            if step.broken:
                broken.setdefault(step.broken, (*_way(before, now), step.text))
            if step.state not in before:
                before[step.state] = (now, step.text)
                work.append(step.state)
    order = {now: number for number, now in enumerate(work)}
    graph = Graph(work, moves.__getitem__)
    lasso = graph.lasso(_goal(world), order.__getitem__)
    if lasso is not None:
        last = (
            f"for ever: {line}" for line in lasso.cycle or ["nothing happens any more"]
        )
        broken[STUCK] = (*_way(before, graph.states[lasso.knot]), *last)
    return Outcome(len(work), count, time.perf_counter() - began, broken)


def _goal(world: World) -> Callable[[Moment], bool]:
    return _nobody_waits if world.refuses else _is_settled


def _is_settled(now: Moment) -> bool:
    """Say whether all pods are those that are wanted, in and Ready, and none has to go."""
    return len(now.pods) == now.replicas and all(
        pod.is_ready and pod.is_in and not pod.leaves and pod.revision == now.target
        for pod in now.pods
    )


def _nobody_waits(now: Moment) -> bool:
    """Say whether no eviction waits: nobody new can be in, but who has to leave can."""
    return not any(pod.leaves or pod.deleted for pod in now.pods)


def _way(before: Before, now: Moment) -> tuple[str, ...]:
    way: list[str] = []
    now, text = before[now]
    while text:
        way.append(text)
        now, text = before[now]
    return tuple(reversed(way))


# --- what is told -------------------------------------------------------------------------


def show() -> int:
    """Print what was found; answers how many did not come out as they should."""
    wrong = 0
    for name, world in WORLDS.items():
        found = outcome(BUILT, world)
        wrong += bool(found.broken)
        print(_line(name, found, "; ".join(found.broken) or "holds", world.text))
    for name, variant in VARIANTS.items():
        found = outcome(variant.ways, variant.world)
        wrong += variant.breaks != found.broken.keys()
        told = "; ".join(sorted(found.broken)) or "NOT REFUTED"
        print(_line(name, found, told, variant.text))
    return wrong


def _line(name: str, found: Outcome, told: str, text: str) -> str:
    return f"{name:4} {found.states:>7,} states {found.seconds:5.1f} s  {text}: {told}"


def row(name: str, world: World, found: Outcome) -> str:
    """Return a world's line of the table; its seconds come last but one."""
    told = "; ".join(found.broken) or "holds, every fair run ends well"
    size = f"{found.states:,} | {found.steps:,} | {found.seconds:.1f}"
    return f"| {name} | {world.text} | {size} | {told} |\n"


def section(name: str, variant: Variant, found: Outcome) -> str:
    """Return a weaker way's section: each promise that it breaks, with the shortest way."""
    parts = [f"\n### {name}: {variant.text}\n"]
    for broken, trace in sorted(found.broken.items()):
        way = "".join(f"{number:>3} {line}\n" for number, line in enumerate(trace, 1))
        parts.append(f"\n{broken}.\n\n```text\n{way}```\n")
    return "".join(parts)


def page() -> str:
    """Return the section of the page."""
    rows = (row(name, one, outcome(BUILT, one)) for name, one in WORLDS.items())
    weaker = (
        section(name, one, outcome(one.ways, one.world))
        for name, one in VARIANTS.items()
    )
    return "".join((HEAD, *rows, *weaker))


HEAD = """
## Gates beside rollouts, budgets and autoscalers (S9 to S13, L4)

All pods of one Deployment with both gates, `maxSurge: 1`, `maxUnavailable: 0`, under a PodDisruptionBudget with
`maxUnavailable: 1`. As often as they like the controller crashes, the load balancer loses a member, the user changes the
template back and forth, and, where a world has them, pods are to be evicted and an autoscaler changes the number. Nodes
have room for three pods, those that end included, where nothing else is said. What Kubernetes' controllers know
of pods is taken to be fresh. L4 is searched after the last of these.

| promise | means |
|---|---|
| S9 | a readiness gate opens when its pod is in |
| S10 | an open gate stays open |
| S11 | a rollout takes a pod that is Ready only if as many others as are desired are in service; a pod that the load balancer itself has lost counts as in |
| S12 | so does an eviction, with one less, as the budget says |
| S13 | SIGTERM comes when no record names the pod |
| L4 | in every fair run all pods are of the wanted revision and number, in and Ready in the end, and no rollout or eviction goes on; where registrations are refused, no eviction waits for ever |

When a Deployment scales in during a rollout it may take a pod that is Ready while one of its other ReplicaSet is
not; S11 does not speak of that. Neither S11 nor S12 holds where probes fail: an open gate stays open, so that a pod whose
probe succeeds again is Ready before it is in again (g29, g30).

| | world | states | steps | seconds | |
|---|---|---|---|---|---|
"""
