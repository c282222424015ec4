"""The lock: what is installed, in images and to be worked with, to the last hash."""

import re
import tomllib

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from images.build import ROOT, BuildError, build
from images.table import IMAGES


FOLDER = ROOT / "requirements"
LOCKS = sorted(FOLDER.glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NEEDED = {
    "dev": ("group", "dev"),
    "interop": ("group", "interop"),
    "pictures": ("group", "pictures"),
    "survivors": ("group", "survivors"),
    "image": ("", ""),
    "image-admission": ("extra", "admission"),
    "image-devices": ("extra", "devices"),
    "image-elbv2": ("extra", "elbv2"),
    "image-envoy": ("extra", "envoy"),
}
"""What each lock is made for, beside what the package needs anyway."""


def pinned(lock: Path) -> dict[str, set[Version]]:
    """The versions of a lock by distribution; a marker may choose between two."""
    found: dict[str, set[Version]] = {}
    for name, version in re.findall(r"(?m)^([\w.-]+)==([^ ;\\]+)", lock.read_text()):
        found.setdefault(canonicalize_name(name), set()).add(Version(version))
    return found


def needed(kind: str, name: str) -> Iterator[Requirement]:
    """What pyproject.toml asks for."""
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    asked = list(project["dependencies"])
    asked += project["optional-dependencies"][name] if kind == "extra" else ()
    asked += groups[name] if kind == "group" else ()
    for one in asked:
        if isinstance(one, dict):
            yield from needed("group", one["include-group"])
        else:
            yield Requirement(one)


def test_there_is_a_lock_for_each_use() -> None:
    """No more and no fewer."""
    assert set(NEEDED) == {lock.stem for lock in LOCKS}
    assert {image.lock for image in IMAGES.values()} <= set(NEEDED)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_lock_is_up_to_date(lock: Path) -> None:
    """It has all that pyproject.toml asks for; else `make lock` writes it anew."""
    versions = pinned(lock)
    missing = [
        str(one)
        for one in needed(*NEEDED[lock.stem])
        if not any(
            v in one.specifier for v in versions.get(canonicalize_name(one.name), ())
        )
    ]

    assert [] == missing, "run `make lock`"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_everything_has_hashes_and_no_place(lock: Path) -> None:
    """What counts is the content, wherever it is fetched from."""
    text = lock.read_text()
    blocks = re.split(r"(?m)^(?=[\w.-]+==)", text)[1:]

    assert [] == [block[:60] for block in blocks if "--hash=sha256:" not in block]
    assert "://" not in text
    assert "index-url" not in text


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_one_version_everywhere(lock: Path) -> None:
    """What the tests ran with is what the images have."""
    tested = pinned(FOLDER / "dev.txt")
    others = {n: v for n, v in pinned(lock).items() if not v <= tested.get(n, v)}

    assert {} == others


def test_make_installs_by_hash_alone() -> None:
    """A fresh clone has what the lock says, and nothing resolved on the way."""
    makefile = (ROOT / "Makefile").read_text()
    installs = [line for line in makefile.splitlines() if "pip install" in line]

    assert 2 == len(installs)
    assert "--require-hashes --no-deps" in installs[0]
    assert "--no-deps --no-build-isolation --editable ." in installs[1]


def test_another_content_under_the_same_name_is_refused(tmp_path: Path) -> None:
    """No image is made of a package whose hash is not the lock's."""
    version = next(iter(pinned(FOLDER / "image.txt")["attrs"]))
    lock = tmp_path / "bad.txt"
    lock.write_text(f"attrs=={version} --hash=sha256:{'0' * 64}\n")
    image = attrs.evolve(IMAGES["memory"], lock=str(lock.with_suffix("")))

    with pytest.raises(BuildError, match="HASHES"):
        build(image, tmp_path)
