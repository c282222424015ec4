"""A load balancer's object that is deleted and made again while it has records.

The searches of `built` know records of one load balancer that is always there. Here the
objects come and go, and a record is as those searches show it: it is ensured as long as it
exists, late calls included, and goes after a deregistration that counts. What is searched
is who creates, deletes and lets go by which view. M4 is searched as a fair lasso (`fair`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.lab.model.breadth import Found, Reached, Step, section
from tests.lab.model.fair import Graph, Move


USED, LEAVING, AWAY, ANEW = range(4)
"""What becomes of the object: the first one, the same being deleted, none, another one."""
ABSENT, LIVE, ENDING, GONE = range(4)
"""What becomes of a record."""
RECORDS = 2
NOTHING, CALLED, ANSWERED = range(3)
"""Of deleteLoadBalancer: not called, without an answer so far, answered."""
SENT, MADE = 1, 3
"""Of a create: sent for target 0 or 1, made as record 0 or one of the next."""


class Record(NamedTuple):
    """A record.

    Attributes:
        phase: what has become of it.
        at: the load balancer that it names (lbInfo), 0 or 1.
        is_in: its member is there.
        is_seen: the object was read for it, and was not being deleted.
    """

    phase: int = ABSENT
    at: int = 0
    is_in: bool = False
    is_seen: bool = False

    @property
    def exists(self) -> bool:
        """Say whether the API server has it."""
        return self.phase in (LIVE, ENDING)


class Controller(NamedTuple):
    """A controller, with views that lag, each on its own.

    Attributes:
        sees: the object, as its view has it.
        records: their phases, as its view has them.
        create: what it knows of its create that is under way; 0: there is none.
        delete: what has become of its deleteLoadBalancer.
        is_out: it knows of an own deleteLoadBalancer without an answer that is not over.
        has_listed: it has listed the records since it sees the object being deleted, and
            there was none.
        has_read: it has read the object before its create, and that was not being deleted.
    """

    sees: int = USED
    records: tuple[int, ...] = (ABSENT,) * RECORDS
    create: int = 0
    delete: int = NOTHING
    is_out: bool = False
    has_listed: bool = False
    has_read: bool = False


class State(NamedTuple):
    """All there is.

    Attributes:
        object: what has become of it.
        wanted: there is a pod to register.
        late_create: of one that has ended: 0 none, else 1 + the target.
        late_delete: one of the first object without an answer may take effect.
        crashes: how many are left.
    """

    object: int = USED
    wanted: bool = True
    records: tuple[Record, ...] = (Record(),) * RECORDS
    controllers: tuple[Controller, ...] = (Controller(),)
    late_create: int = 0
    late_delete: bool = False
    crashes: int = 0


@dataclass(frozen=True)
class Rules:
    """A world, and a way in it; what is built, unless a rule is taken away.

    Attributes:
        name: of the variant.
        text: the world, or what it lacks.
        breaks: the promise that it breaks, empty for none.
        same: the object that is made again stands for the same load balancer.
        forced: a person may take the finalizer off.
        leaders: controllers at work at the same time.
        crashes: how often one may end, and begin with lists that are older.
        silences: deleteLoadBalancer stays without an answer, and takes effect later.
        ordered: M1 is promised there.
        held: our finalizer is on the object.
        waits: it is not deleted as long as there is a record of it.
        lists: that is asked of the API server, and not of the view.
        looks: the object is read before a record is ensured.
        looks_late: and that once the record exists.
        compares: a record of another load balancer than the object's ends.
        keeps: a record is deregistered where it says itself, not where the object does.
        outlasts: the finalizer goes when own deletions without an answer are over, too.
        divided: C1 has the records, C2 the object: they are different shards.
    """

    name: str
    text: str
    breaks: str = ""
    same: bool = False
    forced: bool = False
    leaders: int = 1
    crashes: int = 0
    silences: bool = True
    ordered: bool = True
    held: bool = True
    waits: bool = True
    lists: bool = True
    looks: bool = True
    looks_late: bool = True
    compares: bool = True
    keeps: bool = True
    outlasts: bool = True
    divided: bool = False

    def target(self, seen: int) -> int:
        """Say which load balancer an object stands for."""
        return int(seen == ANEW and not self.same)

    def may_ensure(self, one: Record) -> bool:
        """Say whether a record may be ensured for all that was read for it."""
        return one.is_seen or not self.looks

    def is_needed(self, one: Record) -> bool:
        """Say whether a record needs its load balancer: its member may be there."""
        return one.exists and (one.is_in or self.may_ensure(one))


PROMISES = {
    "M1": "a load balancer is deleted, and its object goes, when no record names it any more "
    "whose member may be there",
    "M2": "a record that is gone has left nothing at the load balancer that it was at",
    "M3": "what was made anew is not deleted by a call for the one before",
    "M4": "under weak fairness the pod is in at the load balancer that the object stands for, "
    "and nowhere else",
}


# --- what may come next -----------------------------------------------------------------


def steps(s: State, rules: Rules) -> Iterator[Step]:
    """Go through all that may come next, faults and people included."""
    yield from _people(s, rules)
    for c in range(len(s.controllers)):
        if s.crashes:
            yield Step(f"C{c + 1} ends; another begins in its place", _crashed(s, c))
        if rules.silences and s.controllers[c].delete == CALLED:
            lost = _with(s, c, delete=NOTHING, is_out=True)._replace(late_delete=True)
            text = f"C{c + 1}'s deleteLoadBalancer is without an answer, and still out"
            yield Step(text, lost)
    if s.late_delete:
        text = "the load balancer of the first object is deleted LATE"
        yield Step(text, s, _deleted_too_early(s, rules))
    yield from _fair(s, rules)


def _people(s: State, rules: Rules) -> Iterator[Step]:
    """Let people delete the object and make it again, and the pod go."""
    if s.object == USED:
        ends = LEAVING if rules.held else AWAY
        broken = "" if rules.held else _gone_too_early(s, rules)
        yield Step("the object is deleted", s._replace(object=ends), broken)
    if s.object == LEAVING and rules.forced:
        text = "somebody takes the object's finalizer off"
        yield Step(text, s._replace(object=AWAY))
    if s.object == AWAY:
        yield Step("the object is made again", s._replace(object=ANEW))
    if s.wanted:
        yield Step("the pod goes", s._replace(wanted=False))


def _crashed(s: State, c: int) -> State:
    """Let a process end, and another one begin with the oldest lists."""
    create = s.controllers[c].create
    out = create if SENT <= create < MADE else s.late_create
    fresh = Controller(records=tuple(_oldest(one) for one in s.records))
    return s._replace(
        controllers=(*s.controllers[:c], fresh, *s.controllers[c + 1 :]),
        late_create=out,
        late_delete=s.late_delete or s.controllers[c].delete == CALLED,
        crashes=s.crashes - 1,
    )


def _oldest(one: Record) -> int:
    return GONE if one.phase == GONE else ABSENT


def _fair(s: State, rules: Rules) -> Iterator[Step]:
    """Go through what comes of itself."""
    yield from _lives(s, rules)
    if s.late_create:
        made = _made(s, s.late_create - SENT)
        if made is not None:
            n = made[1]._replace(late_create=0)
            yield Step(f"the API server creates R{made[0] + 1} LATE", n)
        yield Step("the late create is over", s._replace(late_create=0))
    if s.late_delete:
        known = tuple(one._replace(is_out=False) for one in s.controllers)
        over = s._replace(late_delete=False, controllers=known)
        yield Step("the late deleteLoadBalancer is over", over)
    yield from _reads(s, rules)
    for c, one in enumerate(s.controllers):
        yield from _catches_up(s, c, one)
        if not rules.divided or c == 0:
            yield from _creates(s, c, one, rules)
            yield from _removes(s, c, one, rules)
        if not rules.divided or c == 1:
            yield from _ends_object(s, c, one, rules)


def _with(s: State, c: int, **changes: object) -> State:
    one = s.controllers[c]._replace(**changes)  # type: ignore[arg-type]
    return s._replace(controllers=(*s.controllers[:c], one, *s.controllers[c + 1 :]))


def _record(s: State, r: int, **changes: object) -> State:
    one = s.records[r]._replace(**changes)  # type: ignore[arg-type]
    return s._replace(records=(*s.records[:r], one, *s.records[r + 1 :]))


def _lives(s: State, rules: Rules) -> Iterator[Step]:
    """Let records be ensured as long as they exist, and end."""
    for r, one in enumerate(s.records):
        if one.exists and not one.is_in and rules.may_ensure(one):
            yield Step(f"R{r + 1}'s member is put in", _record(s, r, is_in=True))
        if one.phase != ENDING:
            continue
        where = one.at if rules.keeps else rules.target(s.object)
        left = one.is_in and where != one.at
        broken = f"M2: R{r + 1} is gone, and its member is left where it was" * left
        text = f"R{r + 1} is deregistered, and gone"
        yield Step(text, _record(s, r, phase=GONE, is_in=left), broken)


def _made(s: State, target: int) -> tuple[int, State] | None:
    """Create a record; None: there is no room."""
    free = [r for r, one in enumerate(s.records) if one.phase == ABSENT]
    return (free[0], _record(s, free[0], phase=LIVE, at=target)) if free else None


# --- controllers ------------------------------------------------------------------------


def _catches_up(s: State, c: int, one: Controller) -> Iterator[Step]:
    """Let a watch tell what has become of the object, or of a record."""
    for seen in range(one.sees + 1, s.object + 1):
        text = f"C{c + 1} sees the object {_OBJECT[seen]}"
        yield Step(text, _with(s, c, sees=seen, delete=NOTHING, has_listed=False))
    for r, record in enumerate(s.records):
        if one.records[r] != record.phase:
            seen_so = _seen(one, r, record.phase)
            text = f"C{c + 1} sees R{r + 1} {_PHASE[record.phase]}"
            yield Step(text, _with(s, c, records=seen_so))


_OBJECT = {LEAVING: "being deleted", AWAY: "gone", ANEW: "made again"}
_PHASE = {ABSENT: "absent", LIVE: "live", ENDING: "being deleted", GONE: "gone"}


def _seen(one: Controller, r: int, phase: int) -> tuple[int, ...]:
    return (*one.records[:r], phase, *one.records[r + 1 :])


def _reads(s: State, rules: Rules) -> Iterator[Step]:
    """Read the object for a record that is seen, and find what the record names."""
    for r, record in enumerate(s.records):
        if rules.may_ensure(record) or not rules.looks_late:
            continue
        readers = s.controllers[:1] if rules.divided else s.controllers
        is_there = s.object in (USED, ANEW) and rules.target(s.object) == record.at
        if (
            is_there
            and record.phase == LIVE
            and any(one.records[r] == LIVE for one in readers)
        ):
            text = f"the object is read for R{r + 1}: it is there"
            yield Step(text, _record(s, r, is_seen=True))


def _creates(s: State, c: int, one: Controller, rules: Rules) -> Iterator[Step]:
    """Create a record by the view, and hear of it."""
    target = rules.target(one.sees)
    if one.create >= MADE:
        r = one.create - MADE
        phase = one.records[r] if one.records[r] != ABSENT else LIVE
        heard = _with(s, c, create=0, records=_seen(one, r, phase))
        yield Step(f"C{c + 1} hears that R{r + 1} is created", heard)
    elif one.create:
        made = _made(s, one.create - SENT)
        if _is_taken(s, one) or made is None:
            text = f"C{c + 1}'s create is refused: there is a record of that name"
            yield Step(text, _with(s, c, create=0))
        else:
            r, n = made
            n = _record(n, r, is_seen=one.has_read)
            text = f"the API server creates R{r + 1} for C{c + 1}"
            yield Step(text, _with(n, c, create=MADE + r, has_read=False))
    elif s.wanted and one.sees in (USED, ANEW) and not _is_served(s, one, rules):
        has_read = not rules.looks_late and s.object in (USED, ANEW)
        text = f"C{c + 1} {'reads the object, and ' * has_read}sends a create"
        yield Step(text, _with(s, c, create=SENT + target, has_read=has_read))


def _is_taken(s: State, one: Controller) -> bool:
    """Tell whether a record has the name: one that is seen as it ends gives it another."""
    return any(
        record.exists
        and record.at == one.create - SENT
        and one.records[r] not in (ENDING, GONE)
        for r, record in enumerate(s.records)
    )


def _is_served(s: State, one: Controller, rules: Rules) -> bool:
    """Tell whether the view has a live record that is kept."""
    target = rules.target(one.sees)
    return any(
        seen == LIVE and (s.records[r].at == target or not rules.compares)
        for r, seen in enumerate(one.records)
    )


def _removes(s: State, c: int, one: Controller, rules: Rules) -> Iterator[Step]:
    """Delete records by the view; nothing is deleted because an object is missing.

    Of two that say the same the first one stays.
    """
    for r, record in enumerate(s.records):
        if one.records[r] != LIVE or record.phase != LIVE or one.sees == AWAY:
            continue
        other = rules.compares and record.at != rules.target(one.sees)
        twice = any(one.records[o] == LIVE and s.records[o] == record for o in range(r))
        if one.sees == LEAVING or other or twice or not s.wanted:
            yield Step(f"C{c + 1} deletes R{r + 1}", _record(s, r, phase=ENDING))


def _ends_object(s: State, c: int, one: Controller, rules: Rules) -> Iterator[Step]:
    """Have the load balancer deleted, then take the finalizer off."""
    if LEAVING not in (one.sees, s.object):
        return  # neither the view says so, nor a read of the object
    waits = rules.outlasts and one.is_out
    if rules.lists and one.delete == NOTHING and not one.has_listed:
        phases = tuple(record.phase for record in s.records)
        none = not any(record.exists for record in s.records)
        n = _with(s, c, records=phases, has_listed=none)
        if n != s:
            text = (
                f"C{c + 1} lists the records: {'none' if none else 'not all are gone'}"
            )
            yield Step(text, n)
    elif one.delete == NOTHING and not _is_used(one, rules):
        calls = _with(s, c, delete=CALLED, has_listed=False)
        yield Step(f"C{c + 1} finds no record, and sends deleteLoadBalancer", calls)
    elif one.delete == CALLED:
        broken = _deleted_too_early(s, rules)
        text = f"the load balancer is deleted for C{c + 1}"
        yield Step(text, _with(s, c, delete=ANSWERED), broken)
    elif one.delete == ANSWERED and s.object == LEAVING and not waits:
        broken = _gone_too_early(s, rules)
        n = _with(s, c, delete=NOTHING, sees=AWAY)._replace(object=AWAY)
        yield Step(f"C{c + 1} takes the finalizer off: the object is gone", n, broken)


def _is_used(one: Controller, rules: Rules) -> bool:
    return rules.waits and any(phase in (LIVE, ENDING) for phase in one.records)


def _deleted_too_early(s: State, rules: Rules) -> str:
    if s.object == ANEW and rules.same:
        return "M3: what was made anew is deleted by a call for the one before"
    if rules.ordered and any(rules.is_needed(r) and r.at == 0 for r in s.records):
        return "M1: the load balancer is deleted before its records are gone"
    return ""


def _gone_too_early(s: State, rules: Rules) -> str:
    names = any(rules.is_needed(one) for one in s.records)
    return "M1: the object is gone before its records" * (rules.ordered and names)


# --- the search -------------------------------------------------------------------------


def _forgotten(s: State) -> State:
    """Forget records that are gone for everybody, so that there is room for others."""
    for r, one in enumerate(s.records):
        known = any(
            c.records[r] in (LIVE, ENDING) or c.create == MADE + r
            for c in s.controllers
        )
        if one.phase != GONE or one.is_in or known:
            continue
        s = _record(s, r, phase=ABSENT, at=0, is_seen=False)
        for c, other in enumerate(s.controllers):
            s = _with(s, c, records=_seen(other, r, ABSENT))
    return s


def is_desired(s: State, rules: Rules) -> bool:
    """Tell whether the pod is where it should be, and nowhere else."""
    if s.object == AWAY:
        return True  # records that were left wait for it: nothing missing is an order
    there = [one for one in s.records if one.exists]
    if s.object == LEAVING:
        return False
    if not s.wanted:
        return not there
    target = rules.target(s.object)
    return [(LIVE, target, True)] == [one[:3] for one in there]


def search(rules: Rules) -> Found:
    """Search all states, and then for a fair way that leads to no good end."""
    start = State(
        controllers=(Controller(),) * rules.leaders,
        crashes=rules.crashes,
    )

    def following(s: State) -> Iterator[Step]:
        for step in steps(s, rules):
            yield step._replace(state=_forgotten(step.state))

    reached = Reached(start, following)
    if reached.found.broken:
        return reached.found
    graph = Graph(reached.states, lambda s: _moves(s, rules))
    order = {s: number for number, s in enumerate(reached.states)}
    lasso = graph.lasso(lambda s: is_desired(s, rules), order.__getitem__)
    if lasso is None:
        return reached.found
    ends = lasso.cycle or ["nothing happens any more"]
    way = (
        *reached.way(graph.states[lasso.knot]),
        *(f"for ever: {line}" for line in ends),
    )
    return Found(len(reached.states), "M4: the pod is never where it should be", way)


def _moves(s: State, rules: Rules) -> list[Move]:
    """Return what may go on for ever; whatever can be done all the time is done."""
    return [
        Move(step.text, step.text, _forgotten(step.state)) for step in _fair(s, rules)
    ]


VARIANTS = (
    Rules("b90", "made again as another load balancer: 1 controller"),
    Rules("b91", "made again as the same: 1 controller", same=True, silences=False),
    Rules(
        "b92",
        "made again as another, also by force, and a crash: M2 and M4",
        forced=True,
        crashes=1,
        silences=False,
        ordered=False,
    ),
    Rules("b93", "made again as another: 2 controllers", leaders=2, silences=False),
    Rules("b94", "made again as the same, and deletions that are late", same=True),
    Rules("b95", "of another shard, made again as another", leaders=2, divided=True),
    Rules(
        "b96",
        "of another shard, made again as the same",
        leaders=2,
        divided=True,
        same=True,
    ),
    Rules(
        "b97",
        "of another shard, made again as another, and a crash",
        leaders=2,
        divided=True,
        crashes=1,
        silences=False,
    ),
    Rules("b98", "made again as another, and a crash", crashes=1),
    Rules(
        "w80",
        "the object has no finalizer",
        "M1",
        held=False,
    ),
    Rules(
        "w81",
        "it does not wait for records",
        "M1",
        waits=False,
        lists=False,
    ),
    Rules(
        "w82",
        "records are not listed before it is deleted, and a controller ends in the middle",
        "M1",
        crashes=1,
        lists=False,
    ),
    Rules(
        "w83",
        "records are not listed before it is deleted, and there are two controllers",
        "M1",
        leaders=2,
        lists=False,
    ),
    Rules(
        "w84",
        "which load balancer a record names is not compared",
        "M4",
        forced=True,
        ordered=False,
        compares=False,
    ),
    Rules(
        "w85",
        "a record is deregistered where the object says",
        "M2",
        forced=True,
        ordered=False,
        keeps=False,
    ),
    Rules(
        "w86",
        "the object is not read before a record is ensured, and a controller ends in the middle",
        "M1",
        crashes=1,
        looks=False,
    ),
    Rules(
        "w87",
        "the object is read before the record exists, and there are two controllers",
        "M1",
        leaders=2,
        divided=True,
        looks_late=False,
    ),
    Rules(
        "w88",
        "it does not wait for an own deletion that is late",
        "M3",
        same=True,
        outlasts=False,
    ),
    Rules(
        "w89",
        "as built, made again as the same, with two controllers: a limit",
        "M3",
        same=True,
        leaders=2,
        silences=False,
        ordered=False,
    ),
    Rules(
        "w90",
        "as built, made again as the same, and a controller ends in the middle: a limit",
        "M3",
        same=True,
        crashes=1,
        ordered=False,
    ),
)


def is_as_expected(rules: Rules, found: Found) -> bool:
    """Tell whether a search came out as the variant says."""
    return found.broken.partition(":")[0] == rules.breaks


LARGE = ("b93", "b97")
"""Too much for CPython: by `make model` alone."""


def show() -> int:
    """Print what was found; answers how many did not come out as they should."""
    wrong = 0
    for rules in VARIANTS:
        found = search(rules)
        wrong += not is_as_expected(rules, found)
        verdict = found.broken or "holds, every fair run ends well"
        print(f"{rules.name}  {found.states:>7,} states  {rules.text}: {verdict}")
    return wrong


def page() -> str:
    """Return the section of the page."""
    found = (section(one.name, one.text, search(one)) for one in VARIANTS)
    return "".join((HEAD, *found))


HEAD = f"""
## Load balancers that are made again

A LoadBalancer object is deleted, and made again, while a pod comes, is registered or goes. C1 and C2 are controllers; the
view of each lags, of the object and of each record by itself, and after a crash it begins with the oldest lists.
Records live as the searches above know them. M1 is promised unless somebody takes the finalizer off by force (b92):
then a record may be left, which is ended all the same (M2, M4). In b95 to b97 C1 has the records and C2 the load balancer:
they are different shards. What is built does not hold everything: each *limit* is a way that is known and left open.

| promise | means |
|---|---|
{"".join(f"| {name} | {text} |" + chr(10) for name, text in PROMISES.items())}"""
