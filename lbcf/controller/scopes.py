"""Which pods of a group changed since it was last looked at, so that cost follows change.

Between `triggers`, which notes them, and `reconciler`, which takes them.
"""

from lbcf.core.model.values import ObjectKey


class Scopes:
    """Names of changed pods by group; None stands for the whole group."""

    def __init__(self) -> None:
        self._changed: dict[ObjectKey, set[str] | None] = {}
        self._leaving: dict[ObjectKey, set[str]] = {}

    def note(self, group: ObjectKey, pod: str) -> None:
        """Note that one pod changed, as far as this group is concerned."""
        changed = self._changed.setdefault(group, set())
        if changed is not None:
            changed.add(pod)

    def widen(self, group: ObjectKey) -> None:
        """Note that everything about a group may have changed."""
        self._changed[group] = None

    def note_leaving(self, group: ObjectKey, pod: str) -> None:
        """Note that one pod goes while the group's turn is under way."""
        self._leaving.setdefault(group, set()).add(pod)

    def take_leaving(self, group: ObjectKey) -> set[str]:
        """Take the pods that went meanwhile; they are noted as changed as well."""
        return self._leaving.pop(group, set())

    def take(self, group: ObjectKey) -> set[str] | None:
        """Take what changed; a group that nobody noted anything of is looked at whole."""
        return self._changed.pop(group, None)
