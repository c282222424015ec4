"""Label selectors as Kubernetes defines them (matchLabels and matchExpressions)."""

from collections.abc import Mapping
from enum import StrEnum

import attrs


class Operator(StrEnum):
    """How an expression compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@attrs.frozen
class Requirement:
    """One expression of a selector. NotIn also holds where the label is missing."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet this requirement."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels


@attrs.frozen
class Selector:
    """All labels and all requirements must hold; an empty selector matches all."""

    labels: Mapping[str, str] = attrs.Factory(dict)
    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the selector."""
        return all(
            labels.get(key) == value for key, value in self.labels.items()
        ) and all(requirement.matches(labels) for requirement in self.requirements)
