"""The images that go to the nodes: those that we ship, and HAProxy for the test."""

import io
import json
import tarfile

from collections.abc import Iterator
from pathlib import Path

from images.build import build
from images.table import IMAGES
from tests.lab.cluster.commands import find_program
from tests.lab.cluster.errors import MissingError
from tests.lab.cluster.images import shared_libraries
from tests.lab.cluster.layers import Layer, save_image


HAPROXY = "lbcf.local/haproxy:test"
SHIPPED = ("lbcf", "haproxy")
NEXT = "next"
"""The tag of the version that is upgraded to."""


def archives(folder: Path) -> Iterator[Path]:
    """Make all archives, one after the other.

    Raises:
        MissingError: there is no HAProxy on this machine.
    """
    for name in SHIPPED:
        archive = build(IMAGES[name], folder)
        later = retagged(archive, NEXT)
        yield archive
        yield later
    yield haproxy(folder, HAPROXY)


def retagged(archive: Path, tag: str) -> Path:
    """Copy one image's archive, under another tag: the next version of the same."""
    path = archive.with_name(f"{archive.stem}-{tag}.tar")
    with tarfile.open(archive) as old, tarfile.open(path, "w") as new:
        for entry in old:
            content = old.extractfile(entry)
            body = content.read() if content else b""
            if entry.name == "manifest.json":
                [manifest] = json.loads(body)
                names = [n.rpartition(":")[0] for n in manifest["RepoTags"]]
                manifest["RepoTags"] = [f"{name}:{tag}" for name in names]
                body = json.dumps([manifest]).encode()
                entry.size = len(body)
            new.addfile(entry, io.BytesIO(body))
    return path


def haproxy(folder: Path, reference: str) -> Path:
    """Make an image of this machine's HAProxy, under the name that pods ask for.

    Raises:
        MissingError: there is none.
    """
    found = find_program("haproxy")
    if found is None:
        raise MissingError("there is no haproxy: run `make packages` as root")
    layer = Layer()
    layer.add_base()
    layer.add_file(Path(found), "usr/sbin/haproxy")
    for shared in shared_libraries([Path(found)]):
        layer.add_file(shared)
    path = folder / "haproxy-test.tar"
    start = ["/usr/sbin/haproxy", "-db", "-f", "/etc/haproxy/haproxy.cfg"]
    save_image(
        reference,
        layer,
        path,
        Entrypoint=start,
        Env=["PATH=/usr/sbin"],
        User="65532:65532",
        # As the image of Docker Hub: the first process of a container ignores SIGTERM.
        StopSignal="SIGUSR1",
    )
    return path
