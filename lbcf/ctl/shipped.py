"""The manifests of this version: in the wheel beside this file, in the repository above it."""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml

from lbcf.ctl.errors import CtlError


Json = Mapping[str, Any]
"""An object of the API."""

FOLDERS: Final = ("crds", "admission", "rbac", "deploy", "webhook")
"""Those that every installation has, but for the last one, which may be left out."""


def documents(*kinds: str) -> Iterator[Json]:
    """Return the objects of these kinds.

    Raises:
        CtlError: the manifests did not come with the package.
    """
    inside = files("lbcf.ctl") / "manifests"
    above = Path(__file__).parents[2] / "manifests"
    root = inside if inside.is_dir() else above
    if not (root / FOLDERS[0]).is_dir():
        raise CtlError(
            f"there are no manifests in {root}: check needs the wheel, or the repository"
        )
    for folder in FOLDERS:
        for file in sorted((root / folder).iterdir(), key=lambda one: one.name):
            if file.name.endswith(".yaml"):
                for found in yaml.safe_load_all(file.read_text(encoding="utf-8")):
                    if found and found["kind"] in kinds:
                        yield found
