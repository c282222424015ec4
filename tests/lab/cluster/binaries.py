"""Where the binaries come from: somebody's assets, the cache, or a build.

`lifecycle` asks for a folder of binaries before anything else. What is built is
kept outside the repository, under a name that hashes all it is made from. A build that
was interrupted goes on where it was: programs that are whole are kept, and so is what
Go has compiled of the others.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.lab.cluster.errors import ClusterError, MissingError
from tests.lab.cluster.progress import Counted, Progress


SOURCES = Path(__file__).parent / "go"
GO = "1.26"
VERSION = "v1.36.3"  # of Kubernetes, as go/controlplane/go.mod requires it
STAMPS = {
    "gitVersion": VERSION,
    "gitMajor": "1",
    "gitMinor": "36",
    "gitCommit": "0" * 40,
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
}
STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
NAMES = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubectl",
)
ALONE = ("etcd", "kube-apiserver", "kubectl")  # enough for a control plane alone
Say = Callable[[str], None]
_LAST_LINES = 40
"""Of what Go said, for the text of an error."""


def cache_folder() -> Path:
    """The folder for everything that is built once: LBCF_CACHE, else XDG's."""
    if own := os.environ.get("LBCF_CACHE"):
        return Path(own).absolute()
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "lbcf"


def digest(paths: Iterable[Path], *words: str) -> str:
    """16 hexadecimal digits that stand for these files and words."""
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for word in words:
        total.update(word.encode() + b"\0")
    return total.hexdigest()[:16]


def _linker_flags() -> str:
    """The linker's flags: no symbols, and the version that the binaries tell."""
    stamps = [
        f"-X {package}.{name}={text}"
        for package in STAMPED
        for name, text in STAMPS.items()
    ]
    return " ".join(["-s", "-w", *stamps])


def built_folder() -> Path:
    """The folder in the cache for binaries made from the sources as they are."""
    sources = [
        path
        for module in ("controlplane", "coredns")
        for path in (SOURCES / module).iterdir()
    ]
    name = f"cluster-{digest(sources, _linker_flags(), *NAMES)}"
    return cache_folder() / name / "bin"


def find_binaries(*, alone: bool, say: Say) -> Path:
    """The folder of binaries to use, built now if need be.

    Args:
        alone: The control plane alone is wanted: assets of others will do.
        say: Told what takes time.

    Raises:
        MissingError: Nothing is there and there is no Go to build it with.
        ClusterError: KUBEBUILDER_ASSETS lacks a binary, or the build failed.
    """
    if alone and (assets := os.environ.get("KUBEBUILDER_ASSETS")):
        return _assets(Path(assets))
    if built_folder().exists():
        return built_folder()
    if alone and (found := _on_path()) is not None:
        return found
    return build_binaries(say)


def _assets(folder: Path) -> Path:
    """The folder that KUBEBUILDER_ASSETS names, if it has what is needed."""
    if lacking := [name for name in ALONE if not os.access(folder / name, os.X_OK)]:
        raise ClusterError(
            f"KUBEBUILDER_ASSETS={folder} lacks {', '.join(lacking)}: "
            "complete it, or unset it to have the binaries built"
        )
    return folder.absolute()


def _on_path() -> Path | None:
    """A folder on PATH that has a whole control plane."""
    found = shutil.which("kube-apiserver")
    if found is None:
        return None
    folder = Path(found).absolute().parent
    wanted = (*ALONE, "kube-controller-manager")
    return folder if all(os.access(folder / name, os.X_OK) for name in wanted) else None


def build_binaries(say: Say) -> Path:
    """Build all binaries, unless they are in the cache; return their folder.

    Raises:
        MissingError: There is no Go.
        ClusterError: The build failed.
    """
    folder = built_folder()
    parts = folder.parent.with_name(f"{folder.parent.name}.parts")
    with made_once(folder.parent, say) as fresh:
        if fresh is not None:
            check_go()
            say(f"building Kubernetes {VERSION}, once: 9 minutes with 2 cores")
            modules = {"controlplane": _linker_flags(), "coredns": "-s -w"}
            build_programs(modules, parts, say)
            (fresh / "bin").mkdir()
            for module in modules:
                (fresh / "bin" / module).hardlink_to(parts / module)
            for name in NAMES:
                (fresh / "bin" / name).symlink_to("controlplane")
    shutil.rmtree(parts, ignore_errors=True)
    return folder


def build_programs(modules: Mapping[str, str], folder: Path, say: Say) -> None:
    """Build Go modules into a folder; those that are there from an earlier try are kept.

    Args:
        modules: Each with the linker's flags; a program is called like its module.
        folder: For the programs.
        say: Told how far it is.

    Raises:
        ClusterError: A build failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for module, flags in modules.items():
        target = folder / Path(module).name
        if target.exists():
            say(f"{target.name} is built already")
            continue
        unfinished = target.with_name(f"{target.name}.new")
        go_build(module, unfinished, flags, say=say)
        unfinished.rename(target)


@contextlib.contextmanager
def made_once(folder: Path, say: Say) -> Iterator[Path | None]:
    """Make a folder of the cache as a whole or not at all, one builder at a time.

    Yields an empty folder to fill, which becomes `folder` at the end, or None when
    `folder` is there already.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(folder.name + ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another build of {folder}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            yield None
            return
        for stale in folder.parent.glob(f"{folder.name}.new-*"):
            shutil.rmtree(stale)  # of a builder that was killed
        prefix = f"{folder.name}.new-"
        fresh = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
        fresh.chmod(0o755)
        try:
            yield fresh
            fresh.rename(folder)
        except BaseException:
            shutil.rmtree(fresh)
            raise


def check_go() -> None:
    """See that there is a Go to build with.

    Raises:
        MissingError: There is none.
    """
    if shutil.which("go") is None:
        raise MissingError(
            "there is no `go` on PATH, which the cluster's binaries are built with: "
            f"install Go {GO} or newer and put it on PATH, or set KUBEBUILDER_ASSETS "
            "to a folder with etcd, kube-apiserver and kubectl (for --nodes 0)"
        )


def go_build(
    module: str, target: Path, linker_flags: str = "-s -w", *, say: Say | None = None
) -> None:
    """Build one of the Go modules here into a static binary.

    Args:
        module: Its folder.
        target: The binary.
        linker_flags: For all of it.
        say: Told how many packages are compiled; None: nobody is.

    Raises:
        ClusterError: The build failed; the text ends with what Go said.
    """
    folder = SOURCES / module
    flags = ["-trimpath", f"-ldflags={linker_flags}"]
    build = ["build", *flags, "-o", str(target), "."]
    if say is None:
        run_go(build, f"of {folder}", folder=folder)
        return
    progress = Progress(say)
    try:
        packages = _uncompiled(folder, flags, progress)
        counted = Counted(f"{folder.name}: packages compiled", len(packages), progress)
        say(f"building {folder.name}: {len(packages)} packages to compile")

        def compiled(line: str) -> bool:
            if line not in packages:
                return False
            counted.step()
            return True

        run_go([build[0], "-v", *build[1:]], f"of {folder}", folder=folder, on=compiled)
    finally:
        progress.end()


def _uncompiled(folder: Path, flags: Sequence[str], progress: Progress) -> set[str]:
    """The packages of a program that Go's cache does not have yet; fetches all modules."""
    packages = set()
    fetched = Counted(f"{folder.name}: modules fetched", 0, progress)

    def found(line: str) -> bool:
        if line.startswith("go: downloading "):
            fetched.step()
        elif line and not line.startswith("go: "):
            packages.add(line)
            return True
        return False

    stale = "{{if .Stale}}{{.ImportPath}}{{end}}"
    words = ["list", "-deps", *flags, "-f", stale, "."]
    run_go(words, f"of {folder}", folder=folder, on=found)
    return packages


def run_go(
    words: Sequence[str],
    about: str,
    *,
    folder: Path | None = None,
    on: Callable[[str], bool] = lambda _line: False,
    **settings: str,
) -> None:
    """Run Go so that what it builds needs no libraries.

    What it compiles is kept in the cache folder, unless GOCACHE says another place.

    Args:
        words: Behind `go`.
        about: What is made, for the text of an error.
        folder: Where to run it.
        on: Given each line that it says; True: the line is no part of an error.
        settings: For its environment.

    Raises:
        ClusterError: It failed; the text ends with what Go said.
    """
    kept = {"GOCACHE": str(cache_folder() / "go-build")}
    last: deque[str] = deque(maxlen=_LAST_LINES)
    with subprocess.Popen(
        ["go", *words],
        cwd=folder,
        env={**kept, **os.environ, "CGO_ENABLED": "0", **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        try:
            last.extend(line for line in running.stdout or () if not on(line.strip()))
        except BaseException:
            # Ends after the packages that are being compiled, which are then kept.
            running.send_signal(signal.SIGINT)
            raise
    if running.returncode:
        said = "".join(last)[-2000:].strip()
        raise ClusterError(f"`go {words[0]}` {about} failed:\n{said}")
