"""Container images without docker: the cluster's own, and one for any Python app.

After `binaries`, before `lifecycle` starts nodes, which import every archive.

    lbcf.local/pause:1     the sandbox of every pod
    lbcf.local/busybox:1   a shell and the usual tools
    lbcf.local/web:1       go/web, see there
    lbcf.local/coredns:1   the cluster's DNS
"""

import json
import subprocess

from collections.abc import Iterable
from pathlib import Path

from tests.lab.cluster import layers
from tests.lab.cluster.binaries import (
    SOURCES,
    Say,
    built_folder,
    cache_folder,
    check_go,
    digest,
    go_build,
    made_once,
)
from tests.lab.cluster.commands import find_program
from tests.lab.cluster.errors import MissingError
from tests.lab.cluster.layers import Layer, save_image


BULK = {"__pycache__", "config", "ensurepip", "idlelib", "lib2to3", "test", "tkinter"}
PACKAGES = {"dist-packages", "site-packages"}
ABOUT_PYTHON = """\
import json, os, sys, sysconfig
print(json.dumps([os.path.realpath(sys.executable), sysconfig.get_path("stdlib"),
                  sys.prefix, sys.base_prefix]))
"""


def images_folder() -> Path:
    """The folder in the cache for images made from the sources as they are."""
    sources = [path for name in ("pause", "web") for path in (SOURCES / name).iterdir()]
    sources += [Path(__file__), Path(layers.__file__)]
    return cache_folder() / f"images-{digest(sources, built_folder().parent.name)}"


def build_images(binaries: Path, say: Say) -> Path:
    """Make all images, unless they are in the cache; return their folder.

    Raises:
        MissingError: There is no Go, or no busybox.
        ClusterError: A build failed.
    """
    with made_once(images_folder(), say) as fresh:
        if fresh is not None:
            check_go()
            say("making the container images")
            _pause(fresh)
            _web(fresh)
            _coredns(fresh, binaries / "coredns")
            layer = _shell()
            save_image("lbcf.local/busybox:1", layer, fresh / "busybox.tar", Cmd=["sh"])
    return images_folder()


def _pause(folder: Path) -> None:
    """The sandbox's image."""
    go_build("pause", folder / "pause")
    layer = Layer()
    layer.add_file(folder / "pause", "pause")
    path, user = folder / "pause.tar", "65534:65534"
    save_image("lbcf.local/pause:1", layer, path, Entrypoint=["/pause"], User=user)


def _web(folder: Path) -> None:
    """The web app's image, with a shell beside it."""
    go_build("web", folder / "webserver")
    layer = _shell()
    layer.add_file(folder / "webserver", "bin/webserver")
    save_image(
        "lbcf.local/web:1",
        layer,
        folder / "web.tar",
        Entrypoint=["/bin/webserver"],
        Env=["PATH=/bin"],
        WorkingDir="/",
    )


def _coredns(folder: Path, binary: Path) -> None:
    """The DNS server's image."""
    layer = Layer()
    layer.add_base()
    layer.add_file(binary, "coredns")
    path = folder / "coredns.tar"
    save_image("lbcf.local/coredns:1", layer, path, Entrypoint=["/coredns"])


def _shell() -> Layer:
    """A layer with busybox under all its names.

    Raises:
        MissingError: There is no static busybox.
    """
    found = find_program("busybox")
    if found is None:
        raise MissingError(
            "there is no busybox for the images: run "
            "`python -m tests.lab.cluster packages` as root (package busybox-static)"
        )
    layer = Layer()
    layer.add_base()
    layer.add_file(Path(found), "bin/busybox")
    listed = subprocess.run([found, "--list"], capture_output=True, check=True)
    for name in listed.stdout.decode().split():
        layer.add_link(f"bin/{name}", "/bin/busybox")
    return layer


def build_app_image(
    reference: str, path: Path, python: Path, adds: Iterable[tuple[Path, str]] = ()
) -> None:
    """Make an image of a Python as it lies on this machine, with an app.

    Args:
        reference: The image's name and tag.
        path: The archive to write; `Cluster.load` brings it to the nodes.
        python: The interpreter, of a virtual environment for its packages.
        adds: Files and folders of this machine and where they go in the image.
    """
    layer = _shell()
    start = _add_python(layer, python)
    for source, target in adds:
        if source.is_dir():
            layer.add_tree(source, target, skip=BULK)
        else:
            layer.add_file(source, target)
    environment = [f"PATH={start.parent}:/usr/bin:/bin", "PYTHONUNBUFFERED=1"]
    entry = [str(start)]
    save_image(
        reference, layer, path, Entrypoint=entry, Env=environment, WorkingDir="/"
    )


def _add_python(layer: Layer, python: Path) -> Path:
    """Add an interpreter, its library and its packages; return what to start."""
    told = subprocess.run(
        [python, "-c", ABOUT_PYTHON], capture_output=True, text=True, check=True
    )
    real, library, prefix, base = (Path(text) for text in json.loads(told.stdout))
    layer.add_file(real)
    layer.add_tree(library, skip=BULK | PACKAGES)
    roots = [library]
    if prefix != base:
        for name in ("python", "python3"):
            layer.add_link(str(prefix / "bin" / name), str(real))
        layer.add_file(prefix / "pyvenv.cfg")
        layer.add_tree(prefix / "lib", skip={"__pycache__", "pip"})
        roots.append(prefix / "lib")
    for shared in shared_libraries([real, *extensions(roots)]):
        layer.add_file(shared)
    return prefix / "bin/python" if prefix != base else real


def extensions(roots: Iterable[Path]) -> list[Path]:
    """The compiled modules below some folders."""
    return [path for root in roots for path in root.rglob("*.so*") if path.is_file()]


def shared_libraries(binaries: Iterable[Path]) -> list[Path]:
    """The shared libraries and the loader that some ELF files need."""
    told = subprocess.run(
        ["ldd", *binaries], capture_output=True, text=True, check=False
    )
    words = {Path(word) for word in told.stdout.split() if word.startswith("/")}
    return sorted(path for path in words if path.is_file())
