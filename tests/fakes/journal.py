"""A journal in memory: what a run leaves for the one that begins in its place."""

from collections.abc import Mapping


class FakeJournal:
    """Shared by the runs of one place, one after another."""

    def __init__(self) -> None:
        self._run = ""
        self._values: dict[str, object] = {}

    def begin(self, run: str, after: str) -> Mapping[str, object] | None:
        """Take it over from the very run that wrote last."""
        found = dict(self._values) if after and after == self._run else None
        self._run, self._values = run, dict(found or {})
        return found

    def noted(self, kind: str) -> list[object]:
        """Return the values whose names begin so."""
        return [v for name, v in self._values.items() if name.startswith(kind)]

    def put(self, name: str, value: object | None) -> None:
        """Write a value, or take a name out."""
        if value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = value
