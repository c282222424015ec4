"""Makes an image of the Python that runs this, our packages, and what they need.

`table` says which; the layers and the archive are those of the test clusters' images.
Files lie as in a plain installation below /usr/local, whatever this machine has where.
"""

import shutil
import ssl
import subprocess
import sys
import sysconfig
import tarfile
import tempfile

from pathlib import Path
from typing import Final

from images.sbom import bill_of
from images.table import ENVIRONMENT, Image
from tests.lab.cluster.images import extensions, shared_libraries
from tests.lab.cluster.layers import Layer, save_image


ROOT: Final = Path(__file__).parents[1]
USER: Final = "65532:65532"
"""As images without a shell call their unprivileged user by custom (distroless)."""
PREFIX: Final = "usr/local"
_NAME: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
_BULK: Final = (
    "__pycache__",
    "_ctypes_test*",
    "_test*",
    "_tkinter*",
    "config-*",
    "dist-packages",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "test",
    "tkinter",
    "turtledemo",
    "xxlimited*",
)
_UNUSED: Final = ("kubernetes_asyncio/client/models", "kubernetes_asyncio/client/api")
"""44 MiB that drivers never import; `lbcf` needs them where it is given a kubeconfig."""


class BuildError(Exception):
    """An image cannot be made; says why."""


def build(image: Image, folder: Path) -> Path:
    """Make an image, and its bill of materials beside it; return its archive.

    Raises:
        BuildError: pip could not install what it needs.
    """
    layer = Layer()
    layer.add_base()
    path = folder / f"{image.name}.tar"
    with tempfile.TemporaryDirectory() as scratch:
        library = Path(scratch) / _NAME
        _stage(image, library)
        layer.add_tree(library, f"{PREFIX}/lib/{_NAME}")
        shared = _add_interpreter(layer, library)
        _add_trust(layer)
        save_image(
            image.reference,
            layer,
            path,
            Entrypoint=[f"/{PREFIX}/bin/python3", *image.start],
            Env=[f"{name}={value}" for name, value in ENVIRONMENT.items()],
            User=USER,
            WorkingDir="/",
        )
        bill = bill_of(image, library / "site-packages", shared, path)
    path.with_suffix(".cdx.json").write_text(bill, encoding="utf-8")
    return path


def unpack(archive: Path, folder: Path) -> None:
    """Put the files of an image into a folder."""
    with tarfile.open(archive) as image:
        names = [name for name in image.getnames() if name.endswith("/layer.tar")]
        for name in names:
            with tarfile.open(fileobj=image.extractfile(name)) as layer:
                layer.extractall(folder, filter="tar")


def _add_interpreter(layer: Layer, library: Path) -> list[tuple[str, Path]]:
    """Add the interpreter, and the shared libraries of all that is compiled.

    Returns:
        These libraries, by their path in the image.
    """
    interpreter = Path(sys.executable).resolve()
    layer.add_file(interpreter, f"{PREFIX}/bin/{_NAME}", 0o755)
    layer.add_link(f"{PREFIX}/bin/python3", _NAME)
    added = []
    for shared in shared_libraries([interpreter, *extensions([library])]):
        if shared.is_relative_to(library):
            continue  # a package brought it along
        is_own = shared.is_relative_to(sys.base_prefix)
        target = f"{PREFIX}/lib/{shared.name}" if is_own else str(shared).strip("/")
        layer.add_file(shared, target)
        added.append((target, shared))
    return added


def _add_trust(layer: Layer) -> None:
    """Add the authorities that HTTPS trusts by default, where this machine has them."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile and Path(paths.cafile).is_file():
        layer.add_file(Path(paths.cafile), paths.openssl_cafile)


def _stage(image: Image, library: Path) -> None:
    """Gather the standard library and all packages, compiled.

    Compiled files carry a hash and are never checked: times mean nothing in an image,
    and nothing can be written there at a start.
    """
    shutil.copytree(
        sysconfig.get_path("stdlib"),
        library,
        ignore=shutil.ignore_patterns(*_BULK),
    )
    packages = library / "site-packages"
    install = ("-m", "pip", "install", "--quiet", "--no-compile", "--no-deps")
    into = ("--root-user-action=ignore", "--target", str(packages))
    lock = str(ROOT / "requirements" / f"{image.lock}.txt")
    _run(*install, *into, "--require-hashes", "--requirement", lock)
    # What builds it is in the lock of whoever runs this.
    _run(*install, *into, "--no-build-isolation", str(ROOT))
    for found in packages.glob("*.dist-info/direct_url.json"):
        found.unlink()  # where this machine has our sources
    shutil.rmtree(packages / "bin", ignore_errors=True)
    for unused in _UNUSED if image.modules else ():
        shutil.rmtree(packages / unused, ignore_errors=True)
    for module in image.modules:
        _copy(ROOT / "webhooks" / module, packages / "webhooks" / module)
    compiling = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
    _run(
        *compiling,
        "-j",
        "1",
        "-s",
        str(library.parent),
        "-p",
        f"/{PREFIX}/lib",
        str(library),
    )


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)


def _run(*argv: str) -> None:
    """Run the interpreter.

    Raises:
        BuildError: it failed.
    """
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, *argv], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout}")
