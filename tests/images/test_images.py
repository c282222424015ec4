"""Our container images: what is in them, and that they start as they will be started."""

import json
import subprocess
import tarfile

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from images.build import ROOT, build
from images.table import IMAGES
from tests.cluster.commands import find_program


# Starting it as another user, with nothing around it, takes root.
pytestmark = [pytest.mark.nodes, pytest.mark.timeout(200)]


@attrs.frozen
class Unpacked:
    """An image's files, and how it is started."""

    files: Path
    config: Mapping[str, Any]

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Start it, as a container engine would."""
        chroot = find_program("chroot")
        assert chroot is not None
        user = f"--userspec={self.config['User']}"
        return subprocess.run(
            [chroot, user, self.files, *self.config["Entrypoint"], *argv],
            env=dict(pair.split("=", 1) for pair in self.config["Env"]),
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module", name="image")
def _image(tmp_path_factory: pytest.TempPathFactory) -> Unpacked:
    """The smallest one, unpacked."""
    folder = tmp_path_factory.mktemp("image")
    with tarfile.open(build(IMAGES["memory"], folder)) as archive:
        archive.extractall(folder, filter="data")
    [manifest] = json.loads((folder / "manifest.json").read_text())
    assert [IMAGES["memory"].reference] == manifest["RepoTags"]
    files = folder / "root"
    with tarfile.open(folder / manifest["Layers"][0]) as layer:
        layer.extractall(files, filter="tar")
    config = json.loads((folder / manifest["Config"]).read_text())["config"]
    return Unpacked(files, config)


def test_driver_starts(image: Unpacked) -> None:
    """As a user that is not root, from a root that it does not own."""
    done = image.run("--help")

    assert "" == done.stderr
    assert "--bind-address" in done.stdout
    assert 0 == done.returncode
    assert not image.config["User"].startswith("0")


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


@pytest.mark.parametrize("name", IMAGES)
def test_containerfile_starts_the_same(name: str) -> None:
    """Whoever has a container engine gets each image from it, too."""
    text = (ROOT / "images" / "Containerfile").read_text()
    stage = text.partition(f" AS {name}\n")[2]
    started = json.dumps(["python3", *IMAGES[name].start])

    assert f"ENTRYPOINT {started}" == stage.splitlines()[0]
