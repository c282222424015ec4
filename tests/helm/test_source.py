"""The chart of the manifests as they are: every value still has its place in them."""

from pathlib import Path

import pytest
import yaml

from manifests.helm.settings import VALUES


@pytest.mark.cluster
def test_chart_can_be_made(chart: Path) -> None:
    """Each value is in values.yaml, and each template belongs to something."""
    values = yaml.safe_load((chart / "values.yaml").read_text())
    for value in VALUES:
        inner = values
        for step in value.name.split("."):
            inner = inner[step]
    templates = {path.name for path in (chart / "templates").iterdir()}

    parts = {"crds", "controller", "drain-gate", "haproxy", "monitoring"}
    assert {"NOTES.txt", *(f"{part}.yaml" for part in parts)} < templates
