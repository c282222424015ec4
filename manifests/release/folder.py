"""Makes each file of a release, and their checksums at the end."""

import gzip
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import attrs
import yaml

from images import catalog
from images.build import ROOT
from lbcf import __version__
from manifests.helm import chart, source, templates


REGISTRY: Final = "lbcf.local"
"""Where the manifests say that our images are: nowhere but on the nodes themselves."""
EXAMPLE: Final = source.MANIFESTS / "quickstart" / "example-haproxy.yaml"
SUMS: Final = "SHA256SUMS"


class FolderError(Exception):
    """The folder cannot be made; says why."""


@attrs.frozen
class Places:
    """Where what the manifests name is to be found.

    Attributes:
        registry: of our images.
        runbook_base: before the paths of runbooks in the alerts, with a slash at the end;
            empty: they stay paths of the repository.
    """

    registry: str = REGISTRY
    runbook_base: str = ""


def make(
    folder: Path, places: Places, images: Iterable[str], say: Callable[[str], object]
) -> None:
    """Make a release; one that is there is replaced.

    Args:
        folder: where it goes.
        places: where the manifests are to look for images and runbooks.
        images: names of those that are made.
        say: is told each file.

    Raises:
        FolderError: the folder holds something else, or the wheel cannot be built.
        BuildError: an image cannot be made.
        SourceError: the manifests cannot be read.
    """
    _clear(folder)
    install = yaml.safe_dump_all(source.build("overlays/release"), sort_keys=False)
    _write(folder / "install.yaml", install, places)
    _write(folder / EXAMPLE.name, EXAMPLE.read_text(), places)
    monitoring = source.build("monitoring")
    _link_runbooks(monitoring, places)
    (folder / "monitoring.yaml").write_text(
        yaml.safe_dump_all(monitoring, sort_keys=False)
    )
    say("manifests")
    _pack_chart(folder / f"lbcf-{__version__}.tgz", places)
    say("chart")
    _build_wheel(folder)
    say("wheel")
    for name in images:
        say(str(catalog.make(name, folder / "images")))
    (folder / SUMS).write_text("".join(_sums(folder)))


def _clear(folder: Path) -> None:
    """Remove an earlier release; make the folders."""
    if folder.exists() and not (folder / SUMS).exists() and any(folder.iterdir()):
        raise FolderError(
            f"{folder} is neither empty nor a release ({SUMS} is missing): take another --to"
        )
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "images").mkdir(parents=True)


def _write(path: Path, text: str, places: Places) -> None:
    """Write a manifest that names our images where they are."""
    path.write_text(text.replace(f"{REGISTRY}/", f"{places.registry.rstrip('/')}/"))


def _link_runbooks(documents: Iterable[source.Document], places: Places) -> None:
    """Have the alerts link their runbooks where people read them."""
    for rules in (one for one in documents if one["kind"] == "PrometheusRule"):
        for group in rules["spec"]["groups"]:
            for rule in group["rules"]:
                path = rule["annotations"]["runbook_url"]
                rule["annotations"]["runbook_url"] = f"{places.runbook_base}{path}"


def _pack_chart(path: Path, places: Places) -> None:
    """Pack the chart as `helm package` does, but without the time of day."""
    with tempfile.TemporaryDirectory() as scratch:
        inside = Path(scratch) / "lbcf"
        made = templates.make(source.read())
        made.values["monitoring"]["runbookBase"] = places.runbook_base
        chart.write(made, inside)
        values = inside / "values.yaml"
        _write(values, values.read_text(), places)
        with (
            path.open("wb") as file,
            gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            for one in sorted(inside.rglob("*")):
                if one.is_file():
                    archive.add(
                        one, str(one.relative_to(scratch)), filter=_without_owner
                    )


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who packed it, and when."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry


def _build_wheel(folder: Path) -> None:
    """Build the wheel, with what the lock has for it.

    Raises:
        FolderError: pip could not.
    """
    flags = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    argv = [sys.executable, "-m", "pip", "wheel", *flags, str(ROOT)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FolderError(f"{' '.join(argv)}: {done.stderr.strip()}")


def _sums(folder: Path) -> Iterable[str]:
    """Return the lines that `sha256sum --check` reads."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            yield f"{digest}  {path.relative_to(folder)}\n"
