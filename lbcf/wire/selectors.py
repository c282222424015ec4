"""Label selectors in JSON, as groups have them."""

from collections.abc import Iterable, Mapping

import msgspec

from lbcf.core.model.selectors import Operator, Requirement, Selector
from lbcf.wire.errors import Malformed


class WireExpression(msgspec.Struct):
    """One of matchExpressions."""

    key: str
    operator: str
    values: list[str] | None = None


def parse_selector(
    labels: Mapping[str, str] | None, expressions: Iterable[WireExpression] | None
) -> Selector:
    """Read a selector.

    Raises:
        Malformed: an operator is unknown.
    """
    requirements = tuple(_parse_expression(e) for e in expressions or ())
    return Selector(labels or {}, requirements)


def _parse_expression(expression: WireExpression) -> Requirement:
    """Read one expression of a selector."""
    try:
        operator = Operator(expression.operator)
    except ValueError as error:
        raise Malformed(f"operator {expression.operator!r} is unknown") from error
    return Requirement(expression.key, operator, frozenset(expression.values or ()))
