"""Two calls that may go out in one batch: each is what the lifecycle takes a call for.

The searches of `built` know single calls: one takes effect within its life after its
permission, and what its caller learns is true. Here that is shown of the items of a batch,
whatever becomes of it: late, done in part, answered in part, in another order, or not.
That each is told something in the end is searched as a fair lasso (`fair`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from typing import NamedTuple

from tests.lab.model.breadth import Found, Reached, Step, section
from tests.lab.model.fair import Graph, Move


FRESH = 1
"""Ticks for which a permission may be sent."""
WINDOW = 2
"""Ticks from a permission to the end of its call (W)."""
LATE = 1
"""Ticks after that end in which a call may still take effect (L)."""

WAITING, SENT, TOLD, LEFT = range(4)
NOT_YET, DONE, NEVER = range(3)
NOTHING, SUCCESS, NO_EFFECT, UNKNOWN, NOT_SENT = range(5)


class Item(NamedTuple):
    """One call.

    Attributes:
        stage: where it is.
        age: ticks since its permission.
        changed: its record is another version than the permission shows.
        batch: which one it went with.
        left: ticks until the call that it went with is over; its effect may be later.
        effect: whether the driver has performed it, or never will.
        learnt: what its turn was told.
    """

    stage: int = WAITING
    age: int = 0
    changed: bool = False
    batch: int = 0
    left: int = 0
    effect: int = NOT_YET
    learnt: int = NOTHING


State = tuple[Item, ...]
START: State = (Item(), Item())


@dataclass(frozen=True)
class Rules:
    """A way of sending batches; what is built, unless a rule is taken away.

    Attributes:
        name: of the variant.
        text: what it does.
        breaks: the promise that it breaks, empty for none.
        judged_at_sending: permissions are looked at when the batch has its place.
        oldest_bounds: the call is over when the oldest permission says.
        renewed_by_version: a permission is renewed for the same version only.
        by_item: what is said of an item is its own result.
        by_record: results are told apart by recordID, not by their place.
        missing_is_unknown: an item without a result had no answer.
        error_is_unknown: so had all where the call failed.
        goes_later: who is not ready goes with a later batch.
    """

    name: str
    text: str
    breaks: str = ""
    judged_at_sending: bool = True
    oldest_bounds: bool = True
    renewed_by_version: bool = True
    by_item: bool = True
    by_record: bool = True
    missing_is_unknown: bool = True
    error_is_unknown: bool = True
    goes_later: bool = True


VARIANTS = (
    Rules("b70", "two calls, in one batch or in two"),
    Rules(
        "w70",
        "permissions are judged when calls begin to wait",
        "B1",
        judged_at_sending=False,
    ),
    Rules(
        "w71",
        "the newest permission of a batch bounds it",
        "B1",
        oldest_bounds=False,
    ),
    Rules("w72", "a success of the whole is each item's", "B2", by_item=False),
    Rules("w73", "results are in the order of the items", "B2", by_record=False),
    Rules(
        "w74",
        "an item without a result was not performed",
        "B3",
        missing_is_unknown=False,
    ),
    Rules(
        "w75",
        "nothing of a batch that failed was performed",
        "B3",
        error_is_unknown=False,
    ),
    Rules(
        "w76",
        "a permission is renewed whatever its record has become",
        "B4",
        renewed_by_version=False,
    ),
    Rules(
        "w77", "who is not ready when a batch goes is left out", "L", goes_later=False
    ),
)

PROMISES = {
    "B1": "an item takes effect within the life of its own permission",
    "B2": "what counts as done was done",
    "B3": "what counts as without effect has none, and will have none",
    "B4": "an item goes out for the version that its permission shows",
    "L": "under weak fairness every item is told something in the end, or is not sent",
}


def steps(s: State, rules: Rules) -> Iterator[Step]:
    """Go through all that may come next."""
    yield from _time(s)
    yield from _waits(s, rules)
    yield from _send(s, rules)
    yield from _driver(s)
    for batch in sorted({one.batch for one in s if one.stage == SENT}):
        yield from _answers(s, batch, rules)


def _with(s: State, i: int, **changes: object) -> State:
    return (*s[:i], s[i]._replace(**changes), *s[i + 1 :])  # type: ignore[arg-type]


def _is_out(one: Item) -> bool:
    return one.batch > 0 and one.effect == NOT_YET


def _time(s: State) -> Iterator[Step]:
    """Let time pass, unless something is to be over by now."""
    late = any(_is_out(one) and one.left + LATE <= 0 for one in s)
    unanswered = any(one.stage == SENT and one.left <= 0 for one in s)
    if not late and not unanswered:
        yield Step("time passes", tuple(_older(one) for one in s))


def _older(one: Item) -> Item:
    if one.stage == WAITING or _is_out(one) or one.stage == SENT:
        oldest = WINDOW + LATE + 1
        age = min(one.age + 1, oldest)
        return one._replace(age=age, left=one.left - 1 if one.batch else 0)
    return one


def _waits(s: State, rules: Rules) -> Iterator[Step]:
    """Let records change, and permissions be renewed."""
    for i, one in enumerate(s):
        if one.stage != WAITING:
            continue
        if not one.changed:
            yield Step(f"R{i + 1} is changed", _with(s, i, changed=True))
        if not one.age:
            continue
        read = f"A reads R{i + 1} again"
        if not one.changed:
            yield Step(f"{read}: as it was", _with(s, i, age=0))
        elif rules.renewed_by_version:
            told = _with(s, i, stage=TOLD, learnt=NOT_SENT)
            yield Step(f"{read}: changed; it is not sent", told)
        else:
            broken = f"B4: R{i + 1} goes out although it has changed"
            yield Step(f"{read}: changed", _with(s, i, age=0), broken)


def _send(s: State, rules: Rules) -> Iterator[Step]:
    """Send those that wait and may be sent."""
    ready = [
        i
        for i, one in enumerate(s)
        if one.stage == WAITING and (one.age <= FRESH or not rules.judged_at_sending)
    ]
    batch = 1 + max(one.batch for one in s)
    for chosen in chain.from_iterable(combinations(ready, n) for n in (1, 2)):
        ages = [s[i].age for i in chosen]
        bound = max(ages) if rules.oldest_bounds else min(ages)
        left, n = max(WINDOW - bound, 0), s
        for i in chosen:
            n = _with(n, i, stage=SENT, batch=batch, left=left)
        if not rules.goes_later:
            n = tuple(_left_out(one) for one in n)
        yield Step(f"A sends {_names(chosen)} in a batch", n)


def _left_out(one: Item) -> Item:
    return one._replace(stage=LEFT) if one.stage == WAITING else one


def _names(chosen: tuple[int, ...]) -> str:
    return " and ".join(f"R{i + 1}" for i in chosen) or "nothing"


def _driver(s: State) -> Iterator[Step]:
    """Let the driver perform an item that is out, or see to it that it never will."""
    for i, one in enumerate(s):
        if not _is_out(one):
            continue
        broken = ""
        if one.age > WINDOW + LATE:
            broken = f"B1: R{i + 1} is performed when its permission is long over"
        elif one.learnt == NO_EFFECT:
            broken = f"B3: R{i + 1} is performed, and counts as without effect"
        yield Step(f"the driver performs R{i + 1}", _with(s, i, effect=DONE), broken)
        yield Step(f"the driver refuses R{i + 1}", _with(s, i, effect=NEVER))


def _answers(s: State, batch: int, rules: Rules) -> Iterator[Step]:
    """Let a batch be answered, for some of its items, or end without an answer."""
    items = [i for i, one in enumerate(s) if one.batch == batch and one.stage == SENT]
    failed = UNKNOWN if rules.error_is_unknown else NO_EFFECT
    yield _told(s, "the batch has no answer", dict.fromkeys(items, failed))
    known = [i for i in items if s[i].effect != NOT_YET]
    for n in range(len(known) + 1):
        for some in combinations(known, n):
            for order in {some, some[::-1]}:
                text = f"the batch is answered, for {_names(order)}"
                yield _told(s, text, _learnt(s, items, order, rules))


def _learnt(
    s: State, items: list[int], order: tuple[int, ...], rules: Rules
) -> dict[int, int]:
    """Say what the caller makes of results in an order."""
    if not rules.by_item:
        return dict.fromkeys(items, SUCCESS)
    missing = UNKNOWN if rules.missing_is_unknown else NO_EFFECT
    said = [SUCCESS if s[i].effect == DONE else NO_EFFECT for i in order]
    whose = order if rules.by_record else items
    return dict.fromkeys(items, missing) | dict(zip(whose, said, strict=False))


def _told(s: State, text: str, learnt: dict[int, int]) -> Step:
    """Tell turns what came of their items."""
    n, broken = s, ""
    for i, what in learnt.items():
        n = _with(n, i, stage=TOLD, learnt=what)
        if what == SUCCESS and s[i].effect != DONE:
            broken = f"B2: R{i + 1} counts as done, and was not performed"
        elif what == NO_EFFECT and s[i].effect == DONE:
            broken = f"B3: R{i + 1} counts as without effect, and was performed"
    return Step(text, n, broken)


def search(rules: Rules) -> Found:
    """Search all states, and then for a fair way that leads to no end."""
    reached = Reached(START, lambda s: steps(s, rules))
    if reached.found.broken:
        return reached.found
    graph = Graph(reached.states, lambda s: _moves(s, rules))
    order = {s: number for number, s in enumerate(reached.states)}
    lasso = graph.lasso(_is_over, order.__getitem__)
    if lasso is None:
        return reached.found
    knot = graph.states[lasso.knot]
    waits = [one.stage != TOLD for one in knot].index(True)
    way = (*reached.way(knot), *(f"for ever: {line}" for line in lasso.cycle))
    return Found(len(reached.states), f"L: R{waits + 1} is never told anything", way)


def _is_over(s: State) -> bool:
    return all(one.stage == TOLD for one in s)


def _moves(s: State, rules: Rules) -> list[Move]:
    """Return what may go on for ever; an item that may be sent has its turn."""
    found = []
    for step in steps(s, rules):
        sent = [
            i for i, one in enumerate(s) if one.stage != step.state[i].stage == SENT
        ]
        if not sent:
            found.append(Move(step.text, step.text, step.state))
        found += [Move(step.text, "A sends", step.state, f"R{i} goes") for i in sent]
    return found


def is_as_expected(rules: Rules, found: Found) -> bool:
    """Tell whether a search came out as the variant says."""
    return found.broken.partition(":")[0] == rules.breaks


def show() -> int:
    """Print what was found; answers how many did not come out as they should."""
    wrong = 0
    for rules in VARIANTS:
        found = search(rules)
        wrong += not is_as_expected(rules, found)
        print(
            f"{rules.name}  {found.states:>6,} states  {rules.text}: {_verdict(found)}"
        )
    return wrong


def _verdict(found: Found) -> str:
    return found.broken or "holds, every fair run ends"


def page() -> str:
    """Return the section of the page."""
    promises = "".join(f"| {name} | {text} |\n" for name, text in PROMISES.items())
    found = (section(one.name, one.text, search(one)) for one in VARIANTS)
    return "".join((_HEAD, promises, *found))


_HEAD = f"""
## Batches

Two calls that may go out together. A permission may be sent for {FRESH} tick, its call is over {WINDOW} ticks after
it, and may take effect for {LATE} more. Each item is a call as the searches above know it:

| promise | means |
|---|---|
"""
