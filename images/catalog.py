"""All images of ours, by name, and how each is made."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from images import waiter
from images.build import build
from images.table import IMAGES


REFERENCES: Final[Mapping[str, str]] = {
    **{name: image.reference for name, image in IMAGES.items()},
    waiter.NAME: waiter.REFERENCE,
}
"""How manifests name each."""


def make(name: str, folder: Path) -> Path:
    """Make an image, and its bill of materials beside it; return its archive.

    Raises:
        BuildError: it cannot be made.
    """
    if name == waiter.NAME:
        return waiter.build_waiter(folder)
    return build(IMAGES[name], folder)
