"""The YAML documents of the repository: our CRDs, policies, examples, samples.

Everything in this package reads them through here; nothing is written down twice.
What is cached is shared: change copies.
"""

import re

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml


ROOT = Path(__file__).parents[2]
CRDS = ROOT / "manifests" / "crds"
POLICIES = ROOT / "manifests" / "admission"
EXAMPLES = ROOT / "manifests" / "examples"
SAMPLES = Path(__file__).with_name("samples.yaml")

Document = dict[str, Any]

_BLOCK = re.compile(
    r"^([ \t]*)```ya?ml\b[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE
)


def read_all(path: Path) -> list[Document]:
    """All documents of a file."""
    return [found for found in yaml.safe_load_all(path.read_text()) if found]


@cache
def crds() -> dict[str, Document]:
    """Our CustomResourceDefinitions by kind."""
    found = (read_all(path)[0] for path in sorted(CRDS.glob("*.yaml")))
    return {crd["spec"]["names"]["kind"]: crd for crd in found}


@cache
def schemas() -> dict[str, Document]:
    """The schemas of our kinds."""
    versions = {kind: crd["spec"]["versions"][0] for kind, crd in crds().items()}
    return {k: version["schema"]["openAPIV3Schema"] for k, version in versions.items()}


@cache
def samples() -> dict[str, Document]:
    """The samples by kind and name, as `BackendGroup pods`."""
    return {f"{d['kind']} {d['metadata']['name']}": d for d in read_all(SAMPLES)}


def is_ours(document: object) -> bool:
    """Whether a document is an object of one of our kinds."""
    version = document.get("apiVersion") if isinstance(document, Mapping) else None
    return str(version).startswith("lbcf.tkestack.io/")


def shown(markdown: str) -> Iterator[object]:
    """All documents in the YAML blocks of a page."""
    for block in _BLOCK.finditer(markdown):
        indented = block[2].splitlines()
        text = "\n".join(line.removeprefix(block[1]) for line in indented)
        yield from yaml.safe_load_all(text)


def blocks(markdown: str) -> list[Document]:
    """Our objects in the YAML blocks of a page."""
    return [
        found for found in shown(markdown) if isinstance(found, dict) and is_ours(found)
    ]


def pages() -> list[Path]:
    """The repository's pages for people."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def published() -> Iterator[tuple[str, Document]]:
    """Every object of ours that the repository shows, with where it stands."""
    for path in sorted(EXAMPLES.glob("*.yaml")):
        yield from _numbered(path, read_all(path))
    for page in pages():
        yield from _numbered(page, blocks(page.read_text()))


def _numbered(path: Path, found: list[Document]) -> Iterator[tuple[str, Document]]:
    """Documents with the file and their number in it."""
    for number, document in enumerate(found, 1):
        yield f"{path.relative_to(ROOT)} {number}", document
