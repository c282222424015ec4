"""Which namespaces may use which targets: rules of operators. Pure.

    PATTERN            targets that every namespace may use
    PATTERN=shop,pay   the same for the load balancers of these namespaces alone
    PATTERN=           for none: what is there can still be drained and taken out

Where a pattern with namespaces matches a target, those without do not count for it: a
narrow rule beside a wide one means what it says, in whatever order they are.

A namespace is that of the LoadBalancer object, as the controller says it. Whoever else
can call a driver says what they like: so it needs a token as well.
"""

import re

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import attrs


ANY = "*"

_NAMESPACES = re.compile(r"(|[a-z0-9*]([-a-z0-9]{0,62})(,[a-z0-9*]([-a-z0-9]{0,62}))*)")


@attrs.frozen
class Rule:
    """A pattern of targets, and who may use them.

    Attributes:
        pattern: as the driver's kind of target has it.
        namespaces: None: not said, so all.
    """

    pattern: str
    namespaces: frozenset[str] | None = None

    def is_open_to(self, namespace: str) -> bool:
        """Tell whether load balancers of a namespace may use the targets."""
        known = self.namespaces
        return known is None or ANY in known or namespace in known


@lru_cache(256)
def parse_rule(text: str) -> Rule:
    """Read a rule; what is behind the last `=` is namespaces if it can be."""
    pattern, equals, names = text.rpartition("=")
    if not equals or _NAMESPACES.fullmatch(names) is None:
        return Rule(text)
    return Rule(pattern, frozenset(filter(None, names.split(","))))


def why_not(
    rules: Sequence[str], matches: Callable[[str], bool], namespace: str | None
) -> str:
    """Return why a target may not be used; empty: it may.

    Args:
        rules: of the operator.
        matches: tells whether a pattern means the target.
        namespace: of the load balancer; None: something that is there is to go, which
            it may from wherever it was put there.
    """
    found = [rule for rule in map(parse_rule, rules) if matches(rule.pattern)]
    if not found:
        said = ", ".join(_patterns(rules)) or "none"
        return (
            f"is not allowed by this driver; it may use {said}: choose one of these, or "
            "have its operator allow it"
        )
    narrow = [rule for rule in found if rule.namespaces is not None] or found
    if namespace is None or any(rule.is_open_to(namespace) for rule in narrow):
        return ""
    whose = f"of namespace {namespace}" if namespace else "of an unknown namespace"
    return f"is not open to load balancers {whose}: its operator has to allow it"


def _patterns(rules: Iterable[str]) -> list[str]:
    """Return the patterns alone: who else may use what is nobody's business."""
    return list(dict.fromkeys(parse_rule(one).pattern for one in rules))
