"""The manifests of this version: in the wheel beside this file, in the repository above it."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml

from lbcf.ctl.errors import CtlError


Json = Mapping[str, Any]
"""An object of the API."""

FOLDERS: Final = ("crds", "admission", "rbac", "deploy", "webhook")
"""Those that every installation has, but for the last one, which may be left out."""

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one of libyaml is some eight times as fast (measured), where PyYAML comes with it."""


def documents(*kinds: str) -> Iterator[Json]:
    """Return the objects of these kinds.

    Raises:
        CtlError: the manifests did not come with the package.
    """
    return (found for found in _shipped() if found["kind"] in kinds)


@cache
def _shipped() -> tuple[Json, ...]:
    """Read all of them, once.

    Read for each part of a check, they kept the event loop busy for so long that requests
    timed out whose answers had come.
    """
    inside = files("lbcf.ctl") / "manifests"
    above = Path(__file__).parents[2] / "manifests"
    root = inside if inside.is_dir() else above
    if not (root / FOLDERS[0]).is_dir():
        raise CtlError(
            f"there are no manifests in {root}: check needs the wheel, or the repository"
        )
    texts = [
        file.read_text(encoding="utf-8")
        for folder in FOLDERS
        for file in sorted((root / folder).iterdir(), key=lambda one: one.name)
        if file.name.endswith(".yaml")
    ]
    found = (one for text in texts for one in yaml.load_all(text, _LOADER))
    return tuple(one for one in found if one)
