"""Says in words what a group selects, as `kubectl` writes selectors."""

from lbcf.core.model.node_backends import NodeSelection, ServiceSelection
from lbcf.core.model.resources import PodSelection, Selection, StaticSelection
from lbcf.core.model.selectors import Operator, Requirement, Selector


def meant(selection: Selection) -> str:
    """Say what a group means by its backends."""
    match selection:
        case PodSelection(names=names) if names is not None:
            return f"pods named {', '.join(sorted(names))}"
        case PodSelection(selector=selector, excluded=excluded):
            but = f" except {', '.join(sorted(excluded))}" if excluded else ""
            return f"pods with {labels(selector or Selector())}{but}"
        case StaticSelection(addresses=addresses):
            return f"{len(addresses)} static addresses"
        case ServiceSelection(name=name, port=port):
            return f"port {port} of Service {name} on nodes"
        case NodeSelection(selector=selector):
            return f"nodes with {labels(selector)}"


def labels(selector: Selector) -> str:
    """Write a selector."""
    parts = [f"{key}={value}" for key, value in selector.labels.items()]
    parts += [_required(one) for one in selector.requirements]
    return ",".join(parts) or "any labels"


def _required(one: Requirement) -> str:
    """Write one expression."""
    values = f"({', '.join(sorted(one.values))})"
    match one.operator:
        case Operator.IN:
            return f"{one.key} in {values}"
        case Operator.NOT_IN:
            return f"{one.key} notin {values}"
        case Operator.EXISTS:
            return one.key
        case Operator.DOES_NOT_EXIST:
            return f"!{one.key}"
