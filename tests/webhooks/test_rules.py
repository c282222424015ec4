"""Which namespaces may use which targets, as operators write it."""

from fnmatch import fnmatchcase
from functools import partial

import pytest

from webhooks.shared.rules import Rule, parse_rule, why_not


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("/run/*.sock", Rule("/run/*.sock")),
        ("/run/a.sock=shop", Rule("/run/a.sock", frozenset({"shop"}))),
        ("web=shop,pay-1", Rule("web", frozenset({"shop", "pay-1"}))),
        ("web=*", Rule("web", frozenset({"*"}))),
        ("web=", Rule("web", frozenset())),
        ("/run/a=b.sock", Rule("/run/a=b.sock")),
        ("/run/a=b.sock=shop", Rule("/run/a=b.sock", frozenset({"shop"}))),
        ("web=Shop", Rule("web=Shop")),
    ],
)
def test_a_rule(text: str, rule: Rule) -> None:
    """What is behind the last `=` is namespaces where it can be."""
    assert rule == parse_rule(text)


def refusal(rules: list[str], namespace: str | None, target: str = "web") -> str:
    """Say why a target may not be used."""
    return why_not(rules, partial(fnmatchcase, target), namespace)


@pytest.mark.parametrize(
    ("rules", "namespace", "why"),
    [
        (["*"], "shop", ""),
        (["*"], "", ""),
        (["web=shop"], "shop", ""),
        (["web=*"], "shop", ""),
        (["web=pay", "w*=shop"], "shop", ""),
        (["web=pay"], "shop", "is not open to load balancers of namespace shop"),
        (["web=pay"], "", "is not open to load balancers of an unknown namespace"),
        (["*", "web=pay"], "shop", "is not open to load balancers of namespace shop"),
        (["web=pay", "*"], "shop", "is not open to load balancers of namespace shop"),
        (["web="], "shop", "is not open to load balancers of namespace shop"),
        (["web="], None, ""),
        (["web=pay"], None, ""),
        (["other=pay"], None, "is not allowed by this driver; it may use other"),
        ([], "shop", "is not allowed by this driver; it may use none"),
    ],
)
def test_who_may_use_a_target(
    rules: list[str], namespace: str | None, why: str
) -> None:
    """A rule with namespaces counts before those without; departures always pass."""
    found = refusal(rules, namespace)

    assert found.startswith(why)
    assert bool(why) == bool(found)


def test_nobody_is_told_who_else_may() -> None:
    """A refusal names no namespace but the one that was refused."""
    rules = ["api=pay", "web=bank"]

    texts = [refusal(rules, "shop"), refusal(rules, "shop", "db")]

    assert [False] * 4 == [one in text for one in ("pay", "bank") for text in texts]
