"""The protocol as built holds, and each rule is needed: without it the model is refuted."""

import re
import shutil
import subprocess

from pathlib import Path

import pytest

from tests.lab.model import lasting, page
from tests.lab.model.__main__ import is_as_expected
from tests.lab.model.built import BUILT, QUICK
from tests.lab.model.rules import Rules
from tests.lab.model.search import search
from tests.lab.model.variants import Variant
from tests.lab.model.weaker import LARGE, SLOW, WEAKER


ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "counterexamples.md"
"""What `make model` wrote."""

IN_TIME = [v for v in WEAKER if v.name not in {*SLOW, *LARGE}]
QUICKLY = [v for v in BUILT if v.name in QUICK]


@pytest.mark.parametrize("variant", IN_TIME, ids=lambda v: f"{v.name} {v.rule}")
def test_a_weaker_protocol_is_refuted(variant: Variant) -> None:
    """A rule that is taken away leaves a way to break the promise that it keeps."""
    found = search(variant.rules, alive=variant.alive)

    assert variant.breaks == found.broken[: len(variant.breaks)]
    assert page.section(variant, found) in PAGE.read_text()


@pytest.mark.parametrize("variant", QUICKLY, ids=lambda v: f"{v.name} {v.rule}")
def test_what_is_built_holds(variant: Variant) -> None:
    """No state of the built protocol breaks a promise, and none is a dead end."""
    found = search(variant.rules, alive=variant.alive)

    assert is_as_expected(variant, found), found.trace
    assert page.row(variant, found) in PAGE.read_text()


@pytest.mark.skipif(shutil.which("pypy3") is None, reason="pypy3 is not installed")
def test_the_larger_searches_come_out_as_well(tmp_path: Path) -> None:
    """Under PyPy the larger weaker ones are refuted, and two larger built ones hold."""
    own = tmp_path / "page.md"
    names = [*SLOW, "b01", "b20"]
    command = ["pypy3", "-m", "tests.lab.model", "--page", str(own), *names]

    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert "all as expected" in done.stdout, done.stdout[-2000:] + done.stderr
    whole = PAGE.read_text()
    for entry in re.split(r"(?=\n### |\| b)", own.read_text()):
        assert entry in whole


def test_a_shortest_trace_tells_the_way_in_words() -> None:
    """The counterexample of a record released too early is the known one."""
    found = search(Rules(registrars=1, deregistrars=1, releases_on_final=False))

    assert "A1 creates R1 with its address" == found.trace[0]
    assert "the load balancer executes A1's ensure(R1)" == found.trace[-1]
    assert found.broken.startswith("S3")


def test_a_search_that_is_cut_short_proves_nothing() -> None:
    """A limit that is reached leaves the search incomplete."""
    found = search(Rules(), limit=1000)

    assert not found.complete
    assert not found.broken


def test_each_rule_has_a_variant_without_it() -> None:
    """Every rule that can be taken away is taken away by some weaker variant."""
    plain = Rules()
    rules = [name for name, on in vars(plain).items() if on is True]
    world = {"keyed", "crashes", "silences"}

    missed = [
        name
        for name in rules
        if name not in world
        and all(getattr(v.rules, name) for v in WEAKER + lasting.WEAKER)
    ]

    assert [] == missed


def test_names_are_unique() -> None:
    """A name on the command line means one variant."""
    names = [v.name for v in BUILT + WEAKER + lasting.WEAKER]

    assert len(set(names)) == len(names)
