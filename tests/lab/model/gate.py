"""L3, S9, S10: a pod's readiness gate opens once it is registered, and is never stuck.

One pod that is to take the place of another in a rollout, one record, and a controller that
may end at any moment. The controller may hear of the group later than of the pod, which was
made after it. The group may stop to select the pod, the record's end may be asked for, and the
load balancer may lose its members. Six weaker ways to keep a gate are compared.
L3 is searched as a fair lasso (`fair`): whoever can act all the time does so in the end.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.lab.model.fair import Graph, Move


class Ways(NamedTuple):
    """How a gate is kept.

    Attributes:
        by_ready: a pod is registered once its condition Ready is True.
        early: a gate opens as soon as there is a record.
        latched: an open gate stays open, whatever becomes of the record.
        by_events: only who has seen the registration itself opens a gate.
        frees: a pod that no group selects has its gate opened.
        unread: whether one selects it is taken from what watches have told.
    """

    by_ready: bool = False
    early: bool = False
    latched: bool = True
    by_events: bool = False
    frees: bool = True
    unread: bool = False


BUILT = "built"
WAYS = {
    BUILT: Ways(),
    "eligible by Ready": Ways(by_ready=True),
    "opened by the record": Ways(early=True),
    "closed again": Ways(latched=False),
    "opened by events alone": Ways(by_events=True),
    "kept shut unselected": Ways(frees=False),
    "opened by the cache": Ways(unread=True),
}
CRASHES = 2
LOSSES = 1


class Moment(NamedTuple):
    """A moment of a rollout.

    Attributes:
        containers: the containers of the new pod are ready.
        selected: its group selects it.
        known: this incarnation has heard of the group.
        record: none, wanted (written down), in, or ending.
        was_in: it was registered at some time, or nobody wanted it to be.
        is_open: its gate is True.
        was_open: it has been.
        old: the pod before it still serves.
        runs: the controller does.
        saw: this incarnation saw the record become registered.
        crashes: how many are left.
        losses: how often the load balancer can still lose its members.
    """

    containers: bool = False
    selected: bool = True
    known: bool = False
    record: str = "none"
    was_in: bool = False
    is_open: bool = False
    was_open: bool = False
    old: bool = True
    runs: bool = True
    saw: bool = False
    crashes: int = CRASHES
    losses: int = LOSSES

    @property
    def is_ready(self) -> bool:
        """Say what the kubelet makes of it."""
        return self.containers and self.is_open


class Outcome(NamedTuple):
    """What comes of a way.

    Attributes:
        broken: the promises that some moment breaks, in order.
        states: how many moments there are.
        way: steps that go on for ever while the gate is shut, in words; empty: none do.
    """

    broken: tuple[str, ...]
    states: int
    way: tuple[str, ...] = ()


def steps(ways: Ways, now: Moment) -> list[Moment]:
    """Say what may come next: what comes of itself, and what may befall it."""
    return [*fair_steps(ways, now), *_befalls(now)]


def fair_steps(ways: Ways, now: Moment) -> list[Moment]:
    """Say what kubelet, Deployment, deregistrar and controller do of themselves."""
    following = [] if now.containers else [now._replace(containers=True)]
    if now.is_ready and now.old:
        following.append(now._replace(old=False))
    if now.record == "ending":
        following.append(now._replace(record="none"))
    if not now.runs:
        return [*following, now._replace(runs=True)]
    return [*following, *_of_controller(ways, now)]


def _befalls(now: Moment) -> list[Moment]:
    """Let the user think better of it, the load balancer forget, the controller crash."""
    following = []
    if now.selected:
        following.append(now._replace(selected=False, was_in=True))
    if now.losses and now.record == "in":
        lost = now._replace(record="wanted", saw=False, losses=now.losses - 1)
        following.append(lost)
    if now.crashes and now.runs:
        crash = now._replace(
            runs=False, known=False, saw=False, crashes=now.crashes - 1
        )
        following.append(crash)
    return following


def _of_controller(ways: Ways, now: Moment) -> list[Moment]:
    """Let it write and call; each is one step."""
    following = [] if now.known else [now._replace(known=True)]
    if _may_open(ways, now):
        following.append(now._replace(is_open=True, was_open=True))
    if _would_shut(ways, now):
        following.append(now._replace(is_open=False))
    able = now.is_ready if ways.by_ready else now.containers
    if able and now.selected and now.known and now.record == "none":
        following.append(now._replace(record="wanted"))
    if now.record == "wanted":
        following.append(now._replace(record="in", was_in=True, saw=True))
    if not now.selected and now.record in {"wanted", "in"}:
        following.append(now._replace(record="ending"))
    return following


def _may_open(ways: Ways, now: Moment) -> bool:
    if now.is_open or not now.containers:
        return False
    if not now.selected or (ways.unread and not now.known):
        return ways.frees
    if ways.early:
        return now.record != "none"
    return now.record == "in" and (now.saw or not ways.by_events)


def _would_shut(ways: Ways, now: Moment) -> bool:
    return now.is_open and now.selected and now.record != "in" and not ways.latched


def outcome(ways: Ways) -> Outcome:
    """Search all moments, and all that may come after the last fault."""
    first = Moment()
    seen, work = {first}, [first]
    for now in work:
        for following in steps(ways, now):
            if following not in seen:
                seen.add(following)
                work.append(following)
    broken = {word for now in work for word in _broken(now)}
    graph = Graph(work, lambda now: _moves(ways, now))
    lasso = graph.lasso(lambda now: now.is_open, work.index)
    if lasso is None:
        return Outcome(tuple(sorted(broken)), len(work))
    knot = _told(first, graph.states[lasso.knot])
    way = (f"with {knot}", *(lasso.cycle or ("nothing happens any more",)))
    return Outcome(tuple(sorted({*broken, STUCK})), len(work), way)


def _moves(ways: Ways, now: Moment) -> list[Move]:
    """Return what comes of itself; each kind of it is an actor's."""
    return [
        Move(text, text, following)
        for following in fair_steps(ways, now)
        for text in (_told(now, following),)
    ]


def _told(before: Moment, now: Moment) -> str:
    """Say what has changed."""
    changes = (
        f"{name}: {after}"
        for name, was, after in zip(Moment._fields, before, now)  # noqa: B905 - PyPy
        if was != after
    )
    return ", ".join(changes)


STUCK = "L3 a gate stays shut for ever"
EARLY = "S9 the old pod went before the new one was registered"
SHUT = "S10 an open gate was closed"


def _broken(now: Moment) -> list[str]:
    """Say which promises a moment breaks."""
    found = [EARLY] if not now.old and not now.was_in else []
    return [*found, SHUT] if now.was_open and not now.is_open else found


def lines() -> list[str]:
    """Say how each way comes out."""
    found = {name: outcome(ways) for name, ways in WAYS.items()}
    return [
        line
        for name, one in found.items()
        for line in (
            f"{name:22} {'; '.join(one.broken) or 'holds'} ({one.states} moments)",
            *(f"{'':22} * {step}" for step in one.way),
        )
    ]


def show() -> int:
    """Print the ways; answers how many did not come out as they should."""
    for line in lines():
        print(f"gate  {line}")
    return sum(
        bool(outcome(ways).broken) == (name == BUILT) for name, ways in WAYS.items()
    )
