"""Our container images: what is in them, and that they start as they will be started."""

import hashlib
import json
import re
import subprocess

from importlib import metadata
from pathlib import Path

import pytest

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name
from packaging.version import Version

from images.build import ROOT, build, unpack
from images.table import ENVIRONMENT, IMAGES
from images.waiter import REFERENCE, build_waiter
from lbcf import __version__
from tests.images.test_lock import pinned
from tests.images.unpacked import Unpacked, unpacked


# Starting it as another user, with nothing around it, takes root.
pytestmark = pytest.mark.nodes


def started(image: Unpacked, *argv: str) -> subprocess.CompletedProcess[str]:
    """Start it, as a container engine would."""
    return subprocess.run(
        [*image.command(str(image.files), image.config["User"]), *argv],
        env=image.environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module", name="image")
def _image(tmp_path_factory: pytest.TempPathFactory) -> Unpacked:
    """The smallest one, unpacked."""
    return unpacked(IMAGES["memory"], tmp_path_factory.mktemp("image"))


def test_image_is_loaded_by_its_name(image: Unpacked) -> None:
    """As manifests call it."""
    [manifest] = json.loads((image.archive.parent / "manifest.json").read_text())

    assert [IMAGES["memory"].reference] == manifest["RepoTags"]


def test_driver_starts(image: Unpacked) -> None:
    """As a user that is not root, from a root that it does not own."""
    done = started(image, "--help")

    assert "" == done.stderr
    assert "--bind-address" in done.stdout
    assert 0 == done.returncode
    assert not image.config["User"].startswith("0")


def test_image_made_again_is_the_same(image: Unpacked, tmp_path: Path) -> None:
    """Byte for byte, its bill of materials too: whoever builds a version can compare."""
    again = build(IMAGES["memory"], tmp_path)

    assert _hash(image.archive) == _hash(again)
    bills = [path.with_suffix(".cdx.json") for path in (image.archive, again)]
    assert bills[0].read_text() == bills[1].read_text()


def test_there_is_no_shell_and_nothing_to_become_root_with(image: Unpacked) -> None:
    """Nothing to start but Python, and nothing with the rights of somebody else."""
    files = [path for path in image.files.rglob("*") if path.is_file()]
    programs = {p.name for p in files if p.parent.name in {"bin", "sbin"}}
    raised = [p for p in files if p.stat().st_mode & 0o6000]

    assert {"python3", "python3.11"} >= {p for p in programs if "python" in p}
    assert [] == sorted(p for p in programs if "python" not in p)
    assert [] == raised


def test_nothing_of_the_tests_is_inside(image: Unpacked) -> None:
    """One driver, the package, and what they need."""
    packages = next(image.files.rglob("site-packages"))
    names = {path.name for path in packages.iterdir()}

    assert {"lbcf", "webhooks", "aiohttp"} <= names
    assert not names & {"tests", "images", "pytest", "cryptography", "pip"}
    drivers = {path.name for path in (packages / "webhooks").glob("*.py")}
    assert "memory.py" in drivers
    assert not (packages / "webhooks" / "haproxy").exists()


def test_bill_of_materials_has_all_that_is_inside(image: Unpacked) -> None:
    """Beside the archive, in the standard's own terms: each package, each library."""
    text = image.archive.with_suffix(".cdx.json").read_text()
    bill = json.loads(text)
    packages = next(image.files.rglob("site-packages"))
    installed = {
        (one.name, one.version) for one in metadata.distributions(path=[str(packages)])
    }
    listed = {
        (one["name"], one["version"])
        for one in bill["components"]
        if one.get("purl", "").startswith("pkg:pypi/")
    }
    files = {one["name"]: one for one in bill["components"] if one["type"] == "file"}

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert installed == listed
    assert {("lbcf", __version__)} <= installed
    assert "cpython" in {one["name"] for one in bill["components"]}
    assert any("libc.so" in name for name in files)
    for name, one in files.items():
        assert _hash(image.files / name.strip("/")) == one["hashes"][0]["content"]
    whole = bill["metadata"]["component"]
    assert _hash(image.archive) == whole["hashes"][0]["content"]


def test_bill_of_materials_of_the_waiter(tmp_path: Path) -> None:
    """The image without Python has one as well, of each file that is in it."""
    archive = build_waiter(tmp_path)
    text = archive.with_suffix(".cdx.json").read_text()
    bill, files = json.loads(text), tmp_path / "root"
    unpack(archive, files)
    inside = {path for path in files.rglob("*") if path.is_file()}
    listed = {(one["name"], one["hashes"][0]["content"]) for one in bill["components"]}

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert {(f"/{path.relative_to(files)}", _hash(path)) for path in inside} == listed
    assert {"busybox", "install", "wait"} == {path.name for path in inside}
    whole = bill["metadata"]["component"]
    assert whole["name"] == REFERENCE.partition(":")[0]
    assert _hash(archive) == whole["hashes"][0]["content"]


def _hash(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_image_has_what_the_lock_says(image: Unpacked) -> None:
    """Each package in the version that was tested; the path of our sources in none."""
    packages = next(image.files.rglob("site-packages"))
    locked = pinned(ROOT / "requirements" / "image.txt")
    other = [
        (one.name, one.version)
        for one in metadata.distributions(path=[str(packages)])
        if one.name != "lbcf"
        and Version(one.version) not in locked[canonicalize_name(one.name)]
    ]

    assert [] == other
    assert [] == list(packages.glob("*.dist-info/direct_url.json"))


@pytest.mark.parametrize("name", IMAGES)
def test_containerfile_starts_the_same(name: str) -> None:
    """Whoever has a container engine gets each image from it, too."""
    text = (ROOT / "images" / "Containerfile").read_text()
    stage = text.partition(f"FROM base AS {name}\n")[2]
    started = json.dumps(["/usr/local/bin/python3", *IMAGES[name].start])

    assert [
        f"COPY --from=build /images/{IMAGES[name].name}/ /",
        f"ENTRYPOINT {started}",
    ] == stage.splitlines()[:2]


def test_containerfile_gives_the_same_environment() -> None:
    """A process finds what it finds in the images that we build ourselves."""
    text = (ROOT / "images" / "Containerfile").read_text()
    [line] = re.findall(r"(?m)^ENV (.*)", text)

    assert ENVIRONMENT == dict(pair.split("=", 1) for pair in line.split())


def test_containerfile_leaves_nothing_of_the_base() -> None:
    """The image begins empty, and the base is known by its digest."""
    text = (ROOT / "images" / "Containerfile").read_text()
    stages = re.findall(r"(?m)^FROM (\S+)", text)

    assert ["${BASE}", "scratch", *["base"] * (len(IMAGES) + 1)] == stages
    assert "*@sha256:*) ;;" in text


@pytest.mark.parametrize(
    ("base", "is_taken"),
    [
        (f"python:3.11-slim@sha256:{'0' * 64}", True),
        ("python:3.11-slim", False),
        ("python@3.11", False),
        ("", False),
    ],
)
def test_containerfile_takes_no_base_without_its_digest(
    base: str, *, is_taken: bool
) -> None:
    """The first step of the build ends it; it is run here as an engine runs it."""
    text = (ROOT / "images" / "Containerfile").read_text()
    build_stage = text.partition("FROM ${BASE} AS build\n")[2].splitlines()
    step = build_stage[1].removeprefix("RUN ")
    done = subprocess.run(
        ["/bin/sh", "-c", step],
        env={"BASE": base},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "ARG BASE" == build_stage[0]
    assert is_taken == (0 == done.returncode)
    assert is_taken == ("name it with its digest" not in done.stderr)
