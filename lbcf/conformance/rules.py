"""What a rule is; the modules of rules declare theirs with `rule`.

A rule's id is its function's name, its sentence the first line of the docstring.
"""

from collections.abc import Awaitable, Callable

import attrs

from lbcf.conformance.bench import Bench
from lbcf.core.model.operations import Operation


Check = Callable[[Bench], Awaitable[None]]

DRAIN = Operation.DRAIN_BACKEND
LIST = Operation.LIST_BACKENDS

BOTH_SIDES = "driver protocol, rules for both sides"
COMMON = "driver protocol, common parts"
OPERATIONS = "driver protocol, operations"
DRAINING = "driver protocol, drainBackend"
LOCK_KEY = "driver protocol, lockKey"
ADDITIONS = "driver protocol, what else a driver may use"


@attrs.frozen
class Rule:
    """One thing that drivers must do, and how to find out.

    Attributes:
        name: its id, in words with `-`.
        sentence: what drivers do that keep to it.
        source: the part of the protocol that says so.
        needs: optional operations without which it cannot be looked at.
        check: raises a Finding unless the rule is kept.
    """

    name: str
    sentence: str
    source: str
    needs: tuple[Operation, ...]
    check: Check


def rule(source: str, *needs: Operation) -> Callable[[Check], Rule]:
    """Make a rule of a function."""

    def made(check: Check) -> Rule:
        """Name it after the function."""
        name = getattr(check, "__name__", "").replace("_", "-")
        sentence = (check.__doc__ or "").splitlines()[0]
        return Rule(name, sentence, source, needs, check)

    return made
