"""What a variant is: `built` has those that must hold, `weaker` those that must not.

A weaker one has the smallest world in which its rule is missed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.lab.model.rules import Rules


@dataclass(frozen=True)
class Variant:
    """A protocol in a world, and what is to come of it.

    Attributes:
        name: short, for the command line.
        rule: what it has, or what it lacks.
        rules: the protocol and the world.
        breaks: what begins the promise that it breaks, empty for one that holds.
        alive: whether the way to the goal is looked for.
    """

    name: str
    rule: str
    rules: Rules
    breaks: str = ""
    alive: bool = False


def record(**changes: object) -> Rules:
    """Members named after their records: what the watch shows is enough to end them."""
    world = {"fresh_deregister": False, "registrars": 1, "deregistrars": 1}
    return Rules(**{**world, **changes})  # type: ignore[arg-type]


def address(**changes: object) -> Rules:
    """Members known by address alone: two records want the same one."""
    world = {"keyed": False, "records": 2, "registrars": 1, "deregistrars": 1}
    return Rules(**{**world, **changes})  # type: ignore[arg-type]
