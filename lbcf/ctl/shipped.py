"""The manifests of this version: in the wheel beside this file, in the repository above it."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

import yaml

from lbcf.ctl.errors import CtlError


Json = Mapping[str, Any]
"""An object of the API."""

_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

FOLDERS: Final = ("crds", "admission", "rbac", "deploy", "webhook")
"""Those that every installation has, but for the last one, which may be left out."""


def documents(*kinds: str) -> Iterator[Json]:
    """Return the objects of these kinds.

    Raises:
        CtlError: the manifests did not come with the package.
    """
    return (found for found in _shipped() if found["kind"] in kinds)


@cache
def _shipped() -> tuple[Json, ...]:
    """Read all of them, once.

    Half a second of a slow machine without libyaml: no answer of the API server is read
    meanwhile, and the time-outs of requests go on.
    """
    inside = files("lbcf.ctl") / "manifests"
    above = Path(__file__).parents[2] / "manifests"
    root = inside if inside.is_dir() else above
    if not (root / FOLDERS[0]).is_dir():
        raise CtlError(
            f"there are no manifests in {root}: check needs the wheel, or the repository"
        )
    listed = [_sorted(root / folder) for folder in FOLDERS]
    texts = [file.read_text(encoding="utf-8") for found in listed for file in found]
    found = (one for text in texts for one in yaml.load_all(text, _Loader))
    return tuple(one for one in found if one)


def _sorted(folder: Traversable) -> Iterator[Traversable]:
    found = sorted(folder.iterdir(), key=lambda one: one.name)
    return (file for file in found if file.name.endswith(".yaml"))
