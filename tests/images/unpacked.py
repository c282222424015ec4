"""The files of an image of ours, and how a container engine would start it."""

import json
import tarfile

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from images.build import build, unpack
from images.table import Image
from tests.lab.cluster.commands import find_program


@attrs.frozen
class Unpacked:
    """An image's files, and how it is started."""

    files: Path
    config: Mapping[str, Any]
    archive: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which it is started."""
        return dict(pair.split("=", 1) for pair in self.config["Env"])

    def command(self, root: str, user: str) -> tuple[str, ...]:
        """Say what starts it, as this user, with a folder as its root.

        Raises:
            FileNotFoundError: this machine has no chroot.
        """
        chroot = find_program("chroot")
        if chroot is None:
            raise FileNotFoundError("no chroot: it comes with coreutils")
        return (chroot, f"--userspec={user}", root, *self.config["Entrypoint"])


def unpacked(image: Image, folder: Path) -> Unpacked:
    """Build an image in a folder, and put its files beside it.

    Raises:
        BuildError: pip could not install what it needs.
    """
    archive, files = build(image, folder), folder / "root"
    unpack(archive, files)
    with tarfile.open(archive) as whole:
        whole.extractall(folder, filter="data")
    [manifest] = json.loads((folder / "manifest.json").read_text())
    config = json.loads((folder / manifest["Config"]).read_text())["config"]
    return Unpacked(files, config, archive)
