"""`new driver/NAME`: the project that is written works, and nothing is overwritten."""

import asyncio
import json
import os
import sys

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

import lbcf.ctl

from lbcf.cli import main
from lbcf.ctl.command import run
from tests.lab.cluster import Cluster
from tests.manifests.documents import ROOT, read_all


FILES = {
    "Containerfile",
    "README.md",
    "driver.py",
    "driver.yaml",
    "pyproject.toml",
    "test_driver.py",
}
KINDS = [
    "Deployment",
    "Service",
    "NetworkPolicy",
    "Role",
    "RoleBinding",
    "LoadBalancerDriver",
]


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Path:
    """A project as it is written."""
    folder = tmp_path / "project"
    assert 0 == written("driver/my-lb", "-n", "shop", "--to", str(folder))
    return folder


def written(*flags: str) -> int:
    """Run the command; return its exit status."""
    return run("kubectl lbcf", ["new", *flags])


async def python(folder: Path, *arguments: str) -> tuple[int | None, str]:
    """Run Python in the project; return status and output."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=folder,
        env=os.environ | {"MYPYPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await process.communicate()
    return process.returncode, told.decode()


def test_all_files_are_written_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into a folder of the driver's name, unless another one is said."""
    monkeypatch.chdir(tmp_path)
    status = written("driver/my-lb", "-o", "json")

    told = json.loads(capsys.readouterr().out)
    assert (0, "my-lb") == (status, told["folder"])
    assert FILES == set(told["files"])
    assert FILES == {path.name for path in (tmp_path / "my-lb").iterdir()}


def test_no_table_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An author of drivers has installed lbcf without what draws tables."""
    monkeypatch.delattr(lbcf.ctl, "tables", raising=False)
    monkeypatch.setitem(sys.modules, "lbcf.ctl.tables", None)
    folder = tmp_path / "project"
    status = main(["driver", "new", "my-lb", "--to", str(folder)])

    told = capsys.readouterr().out.splitlines()
    assert (0, {f"wrote {folder}/{file}" for file in FILES}) == (status, set(told))


def test_driver_comes_first_where_people_say_it_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`lbcf driver new NAME` is the same, flags and errors among it."""
    folder = tmp_path / "project"
    status = main(["driver", "new", "my-lb", "-n", "shop", "--to", str(folder)])
    again = main(["driver", "new", "my-lb", "--to", str(folder)])

    assert (0, 2) == (status, again)
    assert FILES == {path.name for path in folder.iterdir()}
    assert "namespace: shop" in (folder / "driver.yaml").read_text()
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "lbcf driver: the following arguments are required: new"),
        (["list"], "lbcf driver: argument new: invalid choice: 'list'"),
        (["new"], "lbcf ctl new: argument KIND/NAME: 'driver': write one of driver/N"),
    ],
)
def test_what_else_is_said_of_drivers_is_told_in_a_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what would be right."""
    with pytest.raises(SystemExit, match="2"):
        main(["driver", *words])

    told = capsys.readouterr().err
    assert told.startswith(said), told
    assert 1 == len(told.splitlines())


def test_help_names_the_whole_command(capsys: pytest.CaptureFixture[str]) -> None:
    """And `lbcf --help` has it."""
    for words, said in (
        (["driver", "--help"], "usage: lbcf driver new NAME "),
        (["driver", "new", "--help"], "usage: lbcf ctl new "),
        (["--help"], "`driver new NAME`: Write the project of a driver"),
    ):
        with pytest.raises(SystemExit, match="0"):
            main(words)
        assert said in " ".join(capsys.readouterr().out.split())


def test_nothing_is_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One file that is there already is enough; no other is written beside it."""
    (tmp_path / "driver.py").write_text("mine")
    status = written("driver/my-lb", "--to", str(tmp_path))

    assert 2 == status
    assert f"{tmp_path}/driver.py is there already" in capsys.readouterr().err
    assert ["driver.py"] == [path.name for path in tmp_path.iterdir()]
    assert "mine" == (tmp_path / "driver.py").read_text()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("driver/9lives",), "'9lives': write up to 50 small letters"),
        (("driver/" + "a" * 51,), "write up to 50"),
        (("driver/my-lb", "-n", "a: b"), "namespace 'a: b'"),
        (("driver/lbcf-mine", "-n", "shop"), "begin with lbcf- in kube-system"),
        (("driver/Tram_1",), "'driver/Tram_1' is not a valid name: write KIND/NAME"),
        (("driver/mine", "-n", "kube-system"), "begin with lbcf- in kube-system"),
        (("driver/my-lb", "-A", "-n", "shop"), "-A"),
        (("driver/my-lb", "--to", "/dev/null"), "/dev/null: "),
        (("bg/web",), "write one of driver/NAME"),
    ],
)
def test_wrong_names(
    flags: tuple[str, ...],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line says what is wrong; nothing is written."""
    monkeypatch.chdir(tmp_path)
    try:
        status = written(*flags)
    except SystemExit as ended:
        status = ended.code  # type: ignore[assignment]

    told = capsys.readouterr().err
    assert (2, 1) == (status, told.count("\n"))
    assert said in told
    assert [] == list(tmp_path.iterdir())


async def test_its_tests_pass(project: Path) -> None:
    """As they are written, in a pytest of their own."""
    status, told = await python(project, "-m", "pytest", "-q", "-p", "no:cacheprovider")

    assert 0 == status, told
    assert "6 passed" in told
    assert "warning" not in told.lower()


async def test_its_types_are_right(project: Path) -> None:
    """Code and tests pass the strictest settings."""
    cache = f"--cache-dir={project / 'cache'}"
    modules = ("driver.py", "test_driver.py")
    status, told = await python(project, "-m", "mypy", "--strict", cache, *modules)

    assert 0 == status, told


async def test_its_wheel_has_all_modules(project: Path) -> None:
    """Also one that is written later; the tests stay at home."""
    (project / "pools.py").write_text("")
    build = ("-m", "hatchling", "build", "-t", "wheel")
    status, told = await python(project, *build)

    assert 0 == status, told
    with ZipFile(next((project / "dist").glob("*.whl"))) as wheel:
        modules = {name for name in wheel.namelist() if name.endswith(".py")}
    assert {"driver.py", "pools.py"} == modules


async def test_its_manifest_is_what_the_driver_prints(project: Path) -> None:
    """The LoadBalancerDriver names what the driver serves, and how it is secured."""
    found = {one["kind"]: one for one in read_all(project / "driver.yaml")}
    ours = found["LoadBalancerDriver"]
    (project / "token").write_text("t\n")
    flags = ("--token-file", "token", "--print-manifest", ours["spec"]["url"])
    status, told = await python(project, "driver.py", *flags)

    assert 0 == status, told
    printed: dict[str, Any] = yaml.safe_load(told)["spec"]
    del printed["auth"], printed["lateEffectSeconds"], printed["maxConcurrentCalls"]
    assert printed == {key: ours["spec"][key] for key in printed}
    assert KINDS == list(found)


@pytest.mark.cluster
def test_its_manifests_are_taken(
    tmp_path: Path, control_plane: Cluster, policies: Path
) -> None:
    """By the API server with the CRDs and policies, each object as a trial."""
    assert policies.is_dir()
    with control_plane.namespace("new-driver") as namespace:
        written("driver/my-lb", "-n", namespace, "--to", str(tmp_path))
        told = control_plane.kubectl(
            *("apply", "--server-side", "--dry-run=server", "-o", "name"),
            *("-f", tmp_path / "driver.yaml"),
        )

    kinds = [line.partition("/")[0].partition(".")[0] for line in told.splitlines()]
    assert [kind.lower() for kind in KINDS] == kinds
