"""Two LoadBalancer objects of one load balancer, whose lock keys change at different moments.

The searches of `built` know one lock for an address. Here it has a lock under each key, and
a record's life is what those searches show: who has the address is registered as long as it
exists, late calls included, and goes after a deregistration that counts. What is searched is
who takes which locks by which view. K2 is searched as a fair lasso (`fair`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tests.lab.model.breadth import Found, Reached, Step, section
from tests.lab.model.fair import Graph, Move


T = TypeVar("T")

ABSENT, LIVE, ENDING, GONE = range(4)
"""What becomes of a record."""
OLD, NEW, NEWEST = range(3)
"""Keys, by the URLs that they come of."""
BACK = (OLD, NEW, OLD)
RECORDS = 2
NAMES = ("old", "new", "newest")

Keys = tuple[int, ...]
Objects = tuple[Keys, ...]
"""The keys of both objects, the newest first; none: it is not there yet."""


class Record(NamedTuple):
    """A record; all want one address.

    Attributes:
        phase: what has become of it.
        at: the object that it names.
        has: the address is written into it.
    """

    phase: int = ABSENT
    at: int = 0
    has: bool = False


class Turn(NamedTuple):
    """What a controller is about with a record.

    Attributes:
        keys: whose locks it takes, in this order; empty: nothing is under way.
        taken: how many of them it has.
        sure: the keys were still the same when it had all.
    """

    keys: Keys = ()
    taken: int = 0
    sure: bool = False


class Controller(NamedTuple):
    """A controller, with views that lag.

    Attributes:
        view: the version of the objects that it sees.
        seen: by record, whether it sees the address there.
        turns: by record.
        locked: by object, the key under which it has locked the members; -1: none.
    """

    view: int = 0
    seen: tuple[bool, ...] = ()
    turns: tuple[Turn, ...] = ()
    locked: tuple[int, ...] = (-1, -1)


class State(NamedTuple):
    """All there is.

    Attributes:
        urls: by driver, how often its URL has changed.
        history: the objects as they have been, up to the present.
        locks: by key, who has the lock: 1 + the record, 0 nobody.
        crashes: how many are left.
    """

    urls: tuple[int, ...]
    history: tuple[Objects, ...]
    records: tuple[Record, ...]
    locks: tuple[int, ...]
    controllers: tuple[Controller, ...]
    crashes: int

    @property
    def objects(self) -> Objects:
        """Return the objects as they are."""
        return self.history[-1]


@dataclass(frozen=True)
class Rules:
    """A world, and a way in it; what is built, unless a rule is taken away.

    Attributes:
        name: of the variant.
        text: the world, or what it lacks.
        breaks: the promise that it breaks, empty for none.
        path: the key that goes with the driver's URL, one after another.
        late: an object that is made later, by the URL of then; -1: none.
        drivers: LoadBalancerDriver objects, 2: each object has its own.
        most: keys that an object keeps.
        crashes: how often one may end, and begin with views that are older.
        each: the lock of each key is taken; else the newest one's, and the others are
            only looked at.
        together: keys of all objects that are the same to their driver count.
        members_first: a key is written when the members are locked under it.
        oldest_first: locks are taken in this order.
        stays: a key that an object has already is not written again as its newest.
        passes_on: who writes a key writes those of the other objects of its driver below.
    """

    name: str
    text: str
    breaks: str = ""
    path: Keys = (OLD, NEW)
    late: int = -1
    drivers: int = 1
    most: int = 4
    crashes: int = 1
    each: bool = True
    together: bool = True
    members_first: bool = True
    oldest_first: bool = True
    stays: bool = True
    passes_on: bool = True

    def driver(self, o: int) -> int:
        """Say which driver an object has."""
        return o if self.drivers > 1 else 0

    def key(self, s: State, o: int) -> int:
        """Say which key an object has by its driver's URL."""
        return self.path[s.urls[self.driver(o)]]

    def is_due(self, s: State, o: int, keys: Keys) -> bool:
        """Say whether an object's key is to be written."""
        key = self.key(s, o)
        return bool(keys) and (key not in keys if self.stays else key != keys[0])

    def known(self, objects: Objects, o: int) -> Keys:
        """Return under which keys members of an object are locked, the newest first."""
        if self.drivers > 1 or not self.together:
            return objects[o]
        longest = sorted(objects, key=len, reverse=True)
        return tuple(dict.fromkeys(key for keys in longest for key in keys))

    def order(self, objects: Objects, o: int) -> Keys:
        """Return them as they are taken."""
        known = self.known(objects, o) if objects[o] else ()
        return known[::-1] if self.oldest_first and self.each else known


PROMISES = {
    "K1": "the member of a live record is never taken out by the end of another (S2)",
    "K2": "under weak fairness every key is written, and one of the live records has the "
    "address in the end: no two wait for each other",
}


# --- what may come next -----------------------------------------------------------------


def steps(s: State, rules: Rules) -> Iterator[Step]:
    """Go through all that may come next, faults and people included."""
    yield from _people(s, rules)
    for c in range(len(s.controllers) if s.crashes else 0):
        fresh = _fresh()
        n = _controller(s, c, **fresh._asdict())._replace(crashes=s.crashes - 1)
        yield Step(f"C{c + 1} ends; another begins in its place", n)
    yield from _fair(s, rules)


def _fresh() -> Controller:
    return Controller(0, (False,) * RECORDS, (Turn(),) * RECORDS)


def _people(s: State, rules: Rules) -> Iterator[Step]:
    """Let the driver be reached elsewhere, an object be made, and records come and go."""
    for d, url in enumerate(s.urls):
        if url + 1 < len(rules.path):
            whose = f" of L{d + 1}" * (rules.drivers > 1)
            n = s._replace(urls=_put(s.urls, d, url + 1))
            name = NAMES[rules.path[url + 1]]
            yield Step(f"the driver{whose} gets the URL of the {name} key", n)
    if rules.late >= 0 and not s.objects[rules.late]:
        key = rules.key(s, rules.late)
        n = _written(s, rules, rules.late, key, s.objects)
        yield Step(f"L{rules.late + 1} is made, with the {NAMES[key]} key", n)
    for r, one in enumerate(s.records):
        if one.phase == LIVE:
            yield Step(f"R{r + 1} is deleted", _record(s, r, phase=ENDING))
        before = s.records[r - 1].phase if r else LIVE
        for o in (0, 1):
            if one.phase == ABSENT and before != ABSENT and s.objects[o]:
                n = _record(s, r, phase=LIVE, at=o)
                yield Step(f"R{r + 1} is created, at L{o + 1}", n)


def _fair(s: State, rules: Rules) -> Iterator[Step]:
    """Go through what comes of itself."""
    for r, one in enumerate(s.records):
        if one.phase == ENDING:
            yield _gone(s, r, one)
    for c, controller in enumerate(s.controllers):
        yield from _catches_up(s, c, controller)
        for o in (0, 1):
            yield from _writes_key(s, c, o, rules)
        for r in range(RECORDS):
            yield from _registers(s, c, r, rules)


def _gone(s: State, r: int, one: Record) -> Step:
    """Let a record go: its end takes the address out, whoever has it by now."""
    n = _record(s, r, phase=GONE, has=False)
    if not one.has:
        return Step(f"R{r + 1} is gone, without an address", n)
    hit = [o for o, x in enumerate(s.records) if x.phase == LIVE and x.has]
    broken = f"K1: the end of R{r + 1} takes R{hit[0] + 1}'s member out" if hit else ""
    return Step(f"R{r + 1} is deregistered, and gone", n, broken)


def _put(values: tuple[T, ...], i: int, value: T) -> tuple[T, ...]:
    return (*values[:i], value, *values[i + 1 :])


def _record(s: State, r: int, **changes: object) -> State:
    one = s.records[r]._replace(**changes)  # type: ignore[arg-type]
    return s._replace(records=_put(s.records, r, one))


def _controller(s: State, c: int, **changes: object) -> State:
    one = s.controllers[c]._replace(**changes)  # type: ignore[arg-type]
    return s._replace(controllers=_put(s.controllers, c, one))


def _catches_up(s: State, c: int, one: Controller) -> Iterator[Step]:
    """Let a watch tell of the objects, and of a record."""
    if one.view + 1 < len(s.history):
        n = _controller(s, c, view=one.view + 1)
        yield Step(f"C{c + 1} sees a change of the objects", n)
    for r, record in enumerate(s.records):
        if record.has and not one.seen[r]:
            n = _controller(s, c, seen=_put(one.seen, r, True))
            yield Step(f"C{c + 1} sees that R{r + 1} has the address", n)


# --- keys of objects --------------------------------------------------------------------


def _writes_key(s: State, c: int, o: int, rules: Rules) -> Iterator[Step]:
    """Lock the members under a key, and write it, from the version that is seen."""
    one = s.controllers[c]
    keys, key = s.history[one.view][o], rules.key(s, o)
    is_due = rules.is_due(s, o, keys)
    n = _written(s, rules, o, key, s.history[one.view])
    forgets = any(set(x) - set(y) for x, y in zip(s.objects, n.objects, strict=True))
    if forgets and not _is_calm(s):
        return
    is_locked = one.locked[o] == key
    is_open = is_due if rules.members_first else bool(keys) and not is_due
    if is_open and not is_locked and not forgets:
        locked = _controller(s, c, locked=_put(one.locked, o, key))
        text = f"C{c + 1} locks members of L{o + 1} by the {NAMES[key]} key"
        yield Step(text, _also_locked(locked, c, o, key))
    if is_due and keys == s.objects[o]:
        if forgets and rules.members_first:
            n = _also_locked(n, c, o, key)
        elif rules.members_first and not is_locked:
            return
        n = _controller(n, c, locked=_put(one.locked, o, -1))
        yield Step(f"C{c + 1} writes the {NAMES[key]} key into L{o + 1}", n)


def _also_locked(s: State, c: int, o: int, key: int) -> State:
    """Let the members that are seen have one more lock, unless somebody else has it."""
    for r, record in enumerate(s.records):
        is_member = record.at == o and record.has and s.controllers[c].seen[r]
        if is_member and not s.locks[key]:
            s = s._replace(locks=_put(s.locks, key, r + 1))
    return s


def _written(s: State, rules: Rules, o: int, key: int, seen: Objects) -> State:
    """Write a key as an object's newest."""
    below = rules.known(seen, o) if rules.passes_on else s.objects[o]
    keys = (key, *(old for old in below if old != key))[: rules.most]
    if rules.stays and key in below[: rules.most]:
        keys = below[: rules.most]
    objects = _put(s.objects, o, keys)
    return s._replace(history=(*s.history, objects))


def _is_calm(s: State) -> bool:
    """Tell whether nobody is in the middle of anything, or lags.

    In truth an object keeps four keys: so many changes come in no such middle.
    """
    return all(
        one.view == len(s.history) - 1
        and not any(turn.keys for turn in one.turns)
        and all(seen or not r.has for seen, r in zip(one.seen, s.records, strict=True))
        for one in s.controllers
    )


# --- locks of records -------------------------------------------------------------------


def _registers(s: State, c: int, r: int, rules: Rules) -> Iterator[Step]:
    """Take the locks for a record, then write the address."""
    one, record = s.controllers[c], s.records[r]
    turn = one.turns[r]
    order = rules.order(s.history[one.view], record.at)
    if not turn.keys and (record.phase != LIVE or record.has or not order):
        return
    if not turn.keys:
        turn = Turn(order)
    if turn.sure:
        n = _controller(s, c, turns=_put(one.turns, r, Turn()))
        if record.phase != LIVE or record.has:
            yield Step(f"C{c + 1} cannot write the address: R{r + 1} has changed", n)
        else:
            n = _record(n, r, has=True)
            yield Step(f"C{c + 1} writes the address into R{r + 1}", n)
    elif turn.taken < len(turn.keys):
        yield _takes(s, c, r, turn, rules)
    elif turn.keys == order:
        n = _controller(s, c, turns=_put(one.turns, r, turn._replace(sure=True)))
        yield Step(f"C{c + 1} has all locks for R{r + 1}", n)
    else:
        n = _controller(s, c, turns=_put(one.turns, r, Turn(order)))
        yield Step(f"C{c + 1} sees other keys, and begins again for R{r + 1}", n)


def _takes(s: State, c: int, r: int, turn: Turn, rules: Rules) -> Step:
    """Take one lock, or find out who has it; a holder that is gone has none."""
    key = turn.keys[turn.taken]
    holder, turns = s.locks[key], s.controllers[c].turns
    if holder not in (0, r + 1) and s.records[holder - 1].phase != GONE:
        n = _controller(s, c, turns=_put(turns, r, Turn()))
        text = f"C{c + 1} finds that R{holder} has the {NAMES[key]} key's lock"
        return Step(f"{text}: R{r + 1} waits", n)
    n = _controller(s, c, turns=_put(turns, r, turn._replace(taken=turn.taken + 1)))
    if turn.taken and not rules.each:
        return Step(f"C{c + 1} looks at the {NAMES[key]} key's lock for R{r + 1}", n)
    n = n._replace(locks=_put(n.locks, key, r + 1))
    return Step(f"C{c + 1} takes the {NAMES[key]} key's lock for R{r + 1}", n)


# --- the search -------------------------------------------------------------------------


def _forgotten(s: State) -> State:
    """Forget what nobody will see any more."""
    first = 0 if s.crashes else min(one.view for one in s.controllers)
    if not first:
        return s
    moved = tuple(one._replace(view=one.view - first) for one in s.controllers)
    return s._replace(history=s.history[first:], controllers=moved)


def is_desired(s: State, rules: Rules) -> bool:
    """Tell whether all keys are written, and a live record has the address."""
    if any(rules.is_due(s, o, keys) for o, keys in enumerate(s.objects)):
        return False
    there = [one for one in s.records if one.phase in (LIVE, ENDING)]
    return all(one.phase == LIVE for one in there) and (
        not there or any(one.has for one in there)
    )


def search(rules: Rules) -> Found:
    """Search all states, and then for a fair way that leads to no good end."""
    key = rules.path[0]
    objects = tuple(() if o == rules.late else (key,) for o in (0, 1))
    start = State(
        urls=(0,) * rules.drivers,
        history=(objects,),
        records=(Record(),) * RECORDS,
        locks=(0,) * len(NAMES),
        controllers=(_fresh(),),
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
    return Found(len(reached.states), "K2: two records wait for each other", way)


def _moves(s: State, rules: Rules) -> list[Move]:
    """Return what may go on for ever; whatever can be done all the time is done."""
    return [
        Move(step.text, step.text, _forgotten(step.state)) for step in _fair(s, rules)
    ]


VARIANTS = (
    Rules("b85", "one driver: a key changes, and one object lags"),
    Rules("b86", "each object has its own driver, and one lags", drivers=2),
    Rules("b87", "the second object is made when the key has changed", late=1),
    Rules("b88", "the URL flips back", path=BACK, crashes=0),
    Rules(
        "b89",
        "the URL flips back, and the second object is made meanwhile",
        path=BACK,
        late=1,
        crashes=0,
    ),
    Rules(
        "b99",
        "each object has its own driver, and both URLs flip back",
        path=BACK,
        drivers=2,
        crashes=0,
    ),
    Rules(
        "w91",
        "the newest key's lock is taken, and older ones are looked at",
        "K1",
        drivers=2,
        crashes=0,
        each=False,
    ),
    Rules(
        "w92",
        "keys of one object alone count",
        "K1",
        late=1,
        crashes=0,
        together=False,
    ),
    Rules(
        "w93",
        "a key is written before the members are locked under it, and the oldest is forgotten",
        "K1",
        path=(OLD, NEW, NEWEST),
        most=2,
        crashes=0,
        members_first=False,
    ),
    Rules(
        "w94",
        "the newest key's lock is taken first",
        "K2",
        crashes=0,
        oldest_first=False,
    ),
    Rules(
        "w95",
        "who writes a key leaves out those of the other object",
        "K2",
        late=1,
        crashes=0,
        passes_on=False,
    ),
    Rules(
        "w96",
        "a key that an object has is written again as its newest",
        "K2",
        path=BACK,
        crashes=0,
        stays=False,
    ),
    Rules(
        "w97",
        "as built, each object has its own driver, and one is made when the key has changed: a limit",
        "K1",
        late=1,
        drivers=2,
        crashes=0,
    ),
    Rules(
        "w98",
        "as built, three keys, of which the oldest is forgotten: a limit",
        "K1",
        path=(OLD, NEW, NEWEST),
        most=2,
        crashes=0,
    ),
)


def is_as_expected(rules: Rules, found: Found) -> bool:
    """Tell whether a search came out as the variant says."""
    return found.broken.partition(":")[0] == rules.breaks


LARGE = tuple(one.name for one in VARIANTS if one.breaks != "K1" or one.most == 2)
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
## Lock keys that change

L1 and L2 are LoadBalancer objects of one load balancer, R1 and R2 records that want one address. A driver's URL changes, the
key of each object with it, one later than the other, or an object is made with the new key alone. C1 is a controller, whose
views of the objects and of the records lag, and begin with the oldest after a crash. Records live as the searches above know
them: a lock is free when its holder is gone. Where an object forgets a key, nobody is in the middle of anything: in truth
it keeps four. What is built does not hold everything: each *limit* is a way that is open. (w93 is in the world
of w98, and broken in a shorter way.)

| promise | means |
|---|---|
{"".join(f"| {name} | {text} |" + chr(10) for name, text in PROMISES.items())}"""
