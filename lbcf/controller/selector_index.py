"""Finds which pods a group means, and which groups mean a pod, without trying all.

The `View` indexes by what is said here; `triggers` and `snapshot` ask it.
"""

from collections import Counter
from collections.abc import Iterator

from lbcf.core.model.cluster import Pod
from lbcf.core.model.node_backends import NodeSelection, ServiceSelection
from lbcf.core.model.nodes import Node
from lbcf.core.model.resources import BackendGroup, PodSelection
from lbcf.core.model.selectors import Selector


Template = tuple[str, tuple[tuple[str, str], ...]]
"""Namespace and all labels of a pod; the pods of one ReplicaSet have the same."""

Clue = tuple[str, str | tuple[str, str] | None]
"""Namespace, and the name of a pod, a label that it must have, or None for any pod."""


NodeClue = tuple[str, str] | tuple[()] | None
"""A label that a node must have, None for any node; () for every group of nodes."""


def template_of(pod: Pod) -> Iterator[Template]:
    """Index pods by their template."""
    # Equal labels are one template, in whichever order they were told.
    yield pod.meta.key.namespace, tuple(sorted(pod.meta.labels.items()))


def clues_of(group: BackendGroup) -> Iterator[Clue]:
    """Index groups by what every pod that they mean has; one label is enough."""
    namespace, selection = group.meta.key.namespace, group.selection
    if not isinstance(selection, PodSelection):
        return
    if selection.names is not None:
        yield from ((namespace, name) for name in selection.names)
    elif selection.selector is not None:
        labels = selection.selector.labels.items()
        yield namespace, min(labels, default=None)


def clues_for(pod: Pod) -> Iterator[Clue]:
    """Return under which clues the groups stand that may mean a pod."""
    namespace, name = pod.meta.key
    yield namespace, name
    yield namespace, None
    yield from ((namespace, label) for label in pod.meta.labels.items())


def node_clues_of(group: BackendGroup) -> Iterator[NodeClue]:
    """Index groups of nodes by a label that their nodes have; one is enough."""
    if isinstance(group.selection, NodeSelection | ServiceSelection):
        yield ()
        yield min(group.selection.selector.labels.items(), default=None)


def node_clues_for(node: Node) -> Iterator[NodeClue]:
    """Return under which clues the groups stand that may mean a node."""
    yield None
    yield from node.meta.labels.items()


def does_select(group: BackendGroup, pod: Pod) -> bool:
    """Return whether a group means a pod."""
    selection = group.selection
    return isinstance(selection, PodSelection) and selection.selects(
        pod.meta.key.name, pod.meta.labels
    )


class LabelSets:
    """The templates of all pods, by namespace, and how many pods each has.

    A selector is asked once for all pods of a template, however many there are.
    """

    def __init__(self) -> None:
        self._counts: dict[str, Counter[Template]] = {}

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Count a pod in, or out."""
        if old is not None and new is not None and old.meta.labels == new.meta.labels:
            return
        for pod, by in ((new, 1), (old, -1)):
            if pod is not None:
                self._count(pod, by)

    def matching(self, namespace: str, selector: Selector) -> list[Template]:
        """Find the templates whose pods a selector catches."""
        known = self._counts.get(namespace, ())
        return [found for found in known if selector.matches(dict(found[1]))]

    def _count(self, pod: Pod, by: int) -> None:
        """Change a count; what nobody has any more is forgotten."""
        template = next(template_of(pod))
        counts = self._counts.setdefault(pod.meta.key.namespace, Counter())
        counts[template] += by
        if not counts[template]:
            del counts[template]
        if not counts:
            del self._counts[pod.meta.key.namespace]
