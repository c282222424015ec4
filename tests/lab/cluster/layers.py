"""Layers of container images: reproducible tars, built in memory.

`images` fills layers and saves them as archives that containerd imports.
"""

import hashlib
import io
import json
import os
import tarfile

from collections.abc import Collection
from pathlib import Path


EPOCH = "1970-01-01T00:00:00Z"
PASSWD = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
GROUP = b"root:x:0:\nnogroup:x:65534:\n"


class Layer:
    """A tar in memory with fixed times and owners.

    Folders are made as they are needed; a path that is there already stays as it
    is, so that files may be added from several sides.
    """

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.open(  # noqa: SIM115  # lives as long as the layer
            fileobj=self._buffer, mode="w", format=tarfile.PAX_FORMAT
        )
        self._paths: set[str] = set()

    def add_folder(self, path: str, mode: int = 0o755) -> None:
        """Add a folder and the folders above it."""
        if (entry := self._entry(path, mode)) is not None:
            entry.type = tarfile.DIRTYPE
            self._tar.addfile(entry)

    def add_bytes(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Add a file with this content."""
        if (entry := self._entry(path, mode)) is not None:
            entry.size = len(content)
            self._tar.addfile(entry, io.BytesIO(content))

    def add_link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        if (entry := self._entry(path, 0o777)) is not None:
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            self._tar.addfile(entry)

    def add_file(self, source: Path, path: str = "", mode: int | None = None) -> None:
        """Add a file of this machine, at its own path by default; links followed."""
        mode = source.stat().st_mode & 0o777 if mode is None else mode
        self.add_bytes(path or str(source), source.read_bytes(), mode)

    def add_tree(
        self, source: Path, path: str = "", skip: Collection[str] = ()
    ) -> None:
        """Add a folder of this machine with all in it but the names to skip."""
        for folder, names, files in os.walk(source):
            names[:] = sorted(set(names) - set(skip))
            inside = Path(path or source) / Path(folder).relative_to(source)
            for name in sorted(files):
                if (file := Path(folder, name)).exists():  # not a dangling link
                    self.add_file(file, str(inside / name))

    def add_base(self) -> None:
        """Add what programs expect of any system: users, /tmp, /root."""
        self.add_bytes("etc/passwd", PASSWD)
        self.add_bytes("etc/group", GROUP)
        self.add_folder("tmp", 0o1777)
        self.add_folder("root", 0o700)

    def _entry(self, path: str, mode: int) -> tarfile.TarInfo | None:
        """A new entry below folders that exist, or None if the path is there."""
        path = path.strip("/")
        if not path or path in self._paths:
            return None
        self.add_folder(str(Path(path).parent).lstrip("."))
        self._paths.add(path)
        entry = tarfile.TarInfo(path)
        entry.mode = mode
        return entry

    def tar(self) -> bytes:
        """The finished tar; nothing can be added any more."""
        self._tar.close()
        return self._buffer.getvalue()


def save_image(reference: str, layer: Layer, path: Path, **config: object) -> None:
    """Write an image of one layer as a docker archive.

    Args:
        reference: The image's name and tag.
        layer: All its files.
        path: The archive to write.
        config: The image's `config`: Entrypoint, Cmd, Env, WorkingDir, User, StopSignal.
    """
    content = layer.tar()
    digest = hashlib.sha256(content).hexdigest()
    image = {
        "architecture": _architecture(),
        "os": "linux",
        "created": EPOCH,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": EPOCH}],
    }
    description = json.dumps(image, sort_keys=True).encode()
    name = f"{hashlib.sha256(description).hexdigest()}.json"
    layers = [f"{digest}/layer.tar"]
    manifest = [{"Config": name, "RepoTags": [reference], "Layers": layers}]
    with tarfile.open(path, "w") as archive:
        _put(archive, name, description)
        _put(archive, layers[0], content)
        _put(archive, "manifest.json", json.dumps(manifest).encode())


def _put(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Add one file to the archive."""
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _architecture() -> str:
    """This machine's architecture as Go and container images call it."""
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
