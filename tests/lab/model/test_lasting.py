"""Every fair run of the protocol as built ends well; without a rule some fair run does not."""

from pathlib import Path

import pytest

from tests.lab.model import lasting, liveness
from tests.lab.model.built import BUILT
from tests.lab.model.fair import Graph, Move
from tests.lab.model.lasting import STUCK, WEAKER
from tests.lab.model.liveness import Ended
from tests.lab.model.search import Search
from tests.lab.model.variants import Variant


PAGE = Path(__file__).parents[3] / "docs" / "counterexamples.md"
LARGE = ("l05", "l13", "l14", "w26")
"""Those that are too much for CPython: by `make model` alone."""
QUICK = ("b33", "b34")


def searched(variant: Variant) -> Ended:
    """Search a variant, and all that may come after its last fault."""
    search = Search(variant.rules)
    return liveness.check(search, search.run(), variant.rules)


@pytest.mark.parametrize(
    "variant",
    [v for v in WEAKER + STUCK if v.name not in LARGE],
    ids=lambda v: f"{v.name} {v.rule}",
)
def test_a_rule_taken_away_leaves_a_fair_run_that_ends_badly(variant: Variant) -> None:
    """Its lasso is the one that the page tells."""
    ended = searched(variant)

    assert lasting.is_as_expected(variant, ended)
    assert lasting.entry(variant, ended) in PAGE.read_text()


@pytest.mark.parametrize(
    "variant", [v for v in BUILT if v.name in QUICK], ids=lambda v: f"{v.name} {v.rule}"
)
def test_what_is_built_ends_in_what_is_desired(variant: Variant) -> None:
    """Whatever the faults have left, it comes about, and stays."""
    ended = searched(variant)

    assert lasting.is_as_expected(variant, ended), lasting.told(ended)
    assert lasting.entry(variant, ended) in PAGE.read_text()


def test_safety_holds_where_liveness_alone_is_lost() -> None:
    """What is refuted here has no shorter trace to a broken promise."""
    assert len(WEAKER + STUCK) >= 10
    assert all(v.breaks == "L" for v in WEAKER)
    assert searched(WEAKER[0]).complete


def test_a_search_that_is_cut_short_proves_nothing() -> None:
    """A limit that is reached says nothing of liveness."""
    built = BUILT[0]
    search = Search(built.rules, limit=1000)

    ended = liveness.check(search, search.run(), built.rules)

    assert not lasting.is_as_expected(built, ended)


# --- graphs by hand: 9 is desired -----------------------------------------------------


def ends_badly(*edges: tuple[int, str, int], turn: str = "") -> list[str] | None:
    """Look for a lasso from 0 on; steps whose actor is `turn` begin one."""

    def moves(here: int) -> list[Move]:
        return [
            Move(f"{who}{a}-{b}", who, b, who if who == turn else "")
            for a, who, b in edges
            if a == here
        ]

    lasso = Graph([0], moves).lasso(lambda here: here == 9, lambda here: here)
    return None if lasso is None else lasso.cycle


def test_a_state_without_a_way_on_is_an_end() -> None:
    """Nothing happens any more."""
    assert ends_badly((0, "a", 1)) == []


def test_one_actor_alone_does_not_go_round_for_ever() -> None:
    """Whoever could go on all the time does (weak fairness)."""
    assert ends_badly((0, "a", 1), (1, "a", 0)) == ["a0-1", "a1-0"]
    assert ends_badly((0, "a", 1), (1, "a", 0), (0, "b", 9), (1, "b", 9)) is None


def test_who_is_hindered_now_and_then_may_wait_for_ever_unless_it_has_a_turn() -> None:
    """Strong fairness is asked for turns alone."""
    edges = ((0, "a", 1), (1, "a", 0), (0, "b", 9))

    assert ends_badly(*edges) == ["a0-1", "a1-0"]
    assert ends_badly(*edges, turn="b") is None


def test_what_is_desired_has_to_stay() -> None:
    """A run that leaves it again and again ends badly."""
    assert ends_badly((0, "a", 9), (9, "a", 0)) == ["a0-9", "a9-0"]
