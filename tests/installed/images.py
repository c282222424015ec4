"""The images that go to the nodes: those that we ship, and HAProxy for the test."""

from collections.abc import Iterator
from pathlib import Path

from images.build import build
from images.table import IMAGES
from tests.cluster.commands import find_program
from tests.cluster.errors import MissingError
from tests.cluster.images import shared_libraries
from tests.cluster.layers import Layer, save_image


HAPROXY = "lbcf.local/haproxy:test"
SHIPPED = ("lbcf", "haproxy")


def archives(folder: Path) -> Iterator[Path]:
    """Make all archives, one after the other.

    Raises:
        MissingError: there is no HAProxy on this machine.
    """
    for name in SHIPPED:
        yield build(IMAGES[name], folder)
    yield _haproxy(folder)


def _haproxy(folder: Path) -> Path:
    """Make an image of this machine's HAProxy."""
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
    save_image(HAPROXY, layer, path, Entrypoint=start, User="65532:65532")
    return path
