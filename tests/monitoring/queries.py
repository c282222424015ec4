"""What a query of Prometheus asks for: names of metrics, and labels of theirs."""

import re

from collections.abc import Iterable, Iterator

from tests.monitoring.registries import Family


ELSEWHERE = {
    "up": {"job", "pod"},
    "apiserver_admission_webhook_rejection_count": {"name", "error_type"},
}
"""Metrics of Prometheus and of the API server, which no page of ours has; the second one
is held against a real one by tests/e2e/test_admission.py."""
FOREIGN = {**ELSEWHERE, "process_resident_memory_bytes": {"job", "pod"}}
"""Those, and what Prometheus' library tells, with labels that the scraping adds."""
SCRAPED = {"job", "pod", "le"}
"""Labels that any series may have."""
_SERIES = re.compile(r"\b([a-z][a-z0-9_]*_[a-z0-9_]+|up)\b(?:\{([^}]*)\})?(?!\s*\()")
_LABEL = re.compile(r"([a-z_]+)\s*(?:=~|!~|!=|=)")
_GROUPED = re.compile(r"\b(?:by|ignoring|on)\s*\(([^)]*)\)")
_WORDS = {"group_left", "humanize_duration"}


def series_of(query: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Find each series that a query names, with the labels it is asked for by."""
    bare = _GROUPED.sub(" ", query)
    for name, selector in _SERIES.findall(bare):
        if name not in _WORDS and not name.startswith("__"):
            yield name, frozenset(_LABEL.findall(selector))


def grouping_of(query: str) -> frozenset[str]:
    """Find the labels that a query groups by."""
    found = ",".join(_GROUPED.findall(query)).split(",")
    return frozenset(label.strip() for label in found) - {""}


def unknown_in(query: str, families: Iterable[Family]) -> list[str]:
    """Say what a query asks for that no process has."""
    labels = {name: SCRAPED | set(f.labels) for f in families for name in f.names}
    labels |= FOREIGN
    wrong = []
    known: set[str] = set()
    for name, asked in series_of(query):
        if name not in labels:
            wrong.append(f"{name} is no metric")
            continue
        known |= labels[name]
        wrong += [f"{name} has no label {one}" for one in asked - labels[name]]
    return [*wrong, *(f"nothing has {one}" for one in grouping_of(query) - known)]
