"""The page on the architecture has the packages and modules as they are."""

import re
import tomllib

from pathlib import Path

from tests.docs.names import exists


PAGE = Path("docs/architecture.md")
_MODULE = re.compile(r"\blbcf(?:\.\w+)+")
_LAYER = re.compile(r"`(\w+)`")


def layers() -> list[list[str]]:
    """The layers of the first import contract, from above."""
    contracts = tomllib.loads(Path("pyproject.toml").read_text())["tool"][
        "importlinter"
    ]
    return [row.split(" | ") for row in contracts["contracts"][0]["layers"]]


def test_named_modules_exist() -> None:
    """Who renames one takes the page along."""
    named = set(_MODULE.findall(PAGE.read_text()))

    assert named
    assert [] == sorted(name for name in named if not exists(name))


def test_layers_are_those_of_the_contract() -> None:
    """Each has a row, in the contract's order."""
    table = PAGE.read_text().partition("| layer |")[2].partition("\n\n")[0]
    told = [
        name
        for row in table.splitlines()[2:]
        for name in _LAYER.findall(row.split("|")[1])
    ]
    place = {name: number for number, row in enumerate(layers()) for name in row}
    order = [place[name] for name in told]

    assert place.keys() - {"__main__"} == set(told)
    assert sorted(order) == order
