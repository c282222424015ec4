"""Writes the chart: templates, values with their schema, and what Helm wants besides.

After it there is a folder that `helm install` takes.
"""

import json
import shutil

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from lbcf import __version__
from manifests.helm.settings import VALUES, Schema, Value
from manifests.helm.templates import Chart


NOTES: Final = Path(__file__).with_name("NOTES.txt")
SECRETS: Final = tuple(
    NOTES.with_name(name) for name in ("driver-tokens.yaml", "envoy-certificates.yaml")
)
"""What no manifest has: a file in a repository keeps no secret."""
_ABOUT: Final = {
    "apiVersion": "v2",
    "name": "lbcf",
    "description": "Finalizer-driven reconciler of load-balancer backends",
    "type": "application",
    "version": __version__,
    "appVersion": __version__,
    "kubeVersion": ">=1.30.0-0",
}
_DRAFT: Final = "http://json-schema.org/draft-07/schema#"


def write(chart: Chart, folder: Path) -> None:
    """Write a chart into a folder, which is emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    templates = folder / "templates"
    templates.mkdir(parents=True)
    for name, text in chart.templates.items():
        (templates / f"{name}.yaml").write_text(text)
    for path in (NOTES, *SECRETS):
        shutil.copyfile(path, templates / path.name)
    (folder / "Chart.yaml").write_text(yaml.safe_dump(_ABOUT, sort_keys=False))
    (folder / "values.yaml").write_text("\n".join(_lines(chart.values)) + "\n")
    (folder / "values.schema.json").write_text(json.dumps(schema(), indent=2) + "\n")


def schema() -> Schema:
    """Say what values may be; a name that is none is an error, so that no typo passes."""
    whole = _closed({"global": {"type": "object"}})
    for value in VALUES:
        *front, last = value.name.split(".")
        inner = whole
        for step in front:
            inner = inner["properties"].setdefault(step, _closed({}))
        inner["properties"][last] = {"description": value.about, **value.schema}
    return {"$schema": _DRAFT, **whole}


def _closed(properties: Schema) -> Schema:
    """Describe a mapping with these properties and no other."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }


def _lines(values: Mapping[str, Any], front: str = "") -> Iterator[str]:
    """Write values with their sentences."""
    known: dict[str, Value] = {value.name: value for value in VALUES}
    depth = "  " * front.count(".")
    for key, value in values.items():
        name = f"{front}{key}"
        if name in known:
            yield f"{depth}# {known[name].about}"
            yield f"{depth}{key}: {_inline(value)}"
        else:
            yield f"{depth}{key}:"
            yield from _lines(value, f"{name}.")


def _inline(value: Any) -> str:
    """Write a value on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=1 << 20)
    return text.removesuffix("\n").removesuffix("\n...")
