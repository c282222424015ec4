"""The folder that `make release` makes: what is in it, and that it is always the same."""

import hashlib
import json
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

from pathlib import Path
from typing import Any

import pytest
import yaml

from images.catalog import REFERENCES
from lbcf import __version__
from lbcf.ctl.shipped import FOLDERS
from manifests.release.folder import Places, make
from tests.lab.cluster import Cluster
from tests.manifests import accounts
from tests.manifests.documents import EXAMPLES, ROOT, is_ours, published, read_all


pytestmark = pytest.mark.cluster

CHART = f"lbcf-{__version__}.tgz"
WHEEL = f"lbcf-{__version__}-py3-none-any.whl"
INSTALL, EXAMPLE = "install.yaml", "example-haproxy.yaml"
MONITORING = "monitoring.yaml"


@pytest.fixture(scope="module", name="path")
def _path(control_plane: Cluster) -> str:
    """A PATH with the cluster's kubectl."""
    return control_plane.environment()["PATH"]


@pytest.fixture(name="found")
def _found(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process finds kubectl."""
    monkeypatch.setenv("PATH", path)


@pytest.fixture(scope="module", name="release")
def _release(path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release without images."""
    folder = tmp_path_factory.mktemp("release") / "dist"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        make(folder, Places(), [], print)
    return folder


@pytest.fixture(scope="module", name="installed")
def _installed(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel of the release, and what it needs of ours."""
    folder = tmp_path_factory.mktemp("installed")
    make_venv = (sys.executable, "-m", "venv", "--without-pip", folder)
    subprocess.run(make_venv, check=True)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    flags = ("--quiet", "--no-index", "--no-deps")
    subprocess.run((*pip, "install", *flags, release / WHEEL), check=True)
    # Packages alone: the clone is on our path by a .pth file, which is not read here.
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    (packages / "beside.pth").write_text(sysconfig.get_path("purelib"))
    return folder


def _sums(folder: Path) -> dict[str, str]:
    """The checksums of a release, by file."""
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def _names(documents: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    """Which objects these are."""
    return {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        for one in documents
    }


def test_everything_is_there_with_its_checksum(release: Path) -> None:
    """Nothing else, and each sum is right."""
    found = _sums(release)
    files = {
        str(path.relative_to(release)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in release.rglob("*")
        if path.is_file() and path.name != "SHA256SUMS"
    }

    assert files == found
    assert {INSTALL, EXAMPLE, MONITORING, CHART, WHEEL} == found.keys()


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize("name", ["memory", "wait"])
def test_images_and_their_bills_of_materials_have_checksums(
    tmp_path: Path, name: str
) -> None:
    """`sha256sum --check` tells of another archive, and of another list of what is in it."""
    make(tmp_path, Places(), [name], print)

    made = {f"images/{path.name}" for path in (tmp_path / "images").iterdir()}
    assert {f"images/lbcf-{name}.tar", f"images/lbcf-{name}.cdx.json"} == made
    assert made <= _sums(tmp_path).keys()
    check = ("sha256sum", "--quiet", "--check", "SHA256SUMS")
    subprocess.run(check, cwd=tmp_path, check=True)
    (tmp_path / "images" / f"lbcf-{name}.cdx.json").write_text("{}")
    assert subprocess.run(
        check, cwd=tmp_path, check=False, capture_output=True
    ).returncode


@pytest.mark.usefixtures("found")
def test_made_again_all_files_are_the_same(release: Path, tmp_path: Path) -> None:
    """Whoever builds a version can compare."""
    make(tmp_path, Places(), [], print)
    first = _sums(tmp_path)

    make(tmp_path, Places(), [], print)

    assert _sums(release) == first == _sums(tmp_path)


def test_another_folder_is_left_alone(tmp_path: Path) -> None:
    """Only an earlier release is replaced."""
    kept = tmp_path / "thesis.txt"
    kept.write_text("three years")
    argv = (sys.executable, "-m", "manifests.release", "--to", str(tmp_path))

    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)

    assert 1 == done.returncode
    assert "SHA256SUMS is missing" in done.stderr
    assert [kept] == list(tmp_path.iterdir())


@pytest.mark.usefixtures("found")
def test_manifests_and_chart_name_the_registry(tmp_path: Path) -> None:
    """All that somebody would have to edit by hand otherwise."""
    make(tmp_path, Places("example.com/team/"), [], print)

    with tarfile.open(tmp_path / CHART) as chart:
        member = chart.extractfile("lbcf/values.yaml")
        assert member is not None
        texts = [member.read().decode()]
    texts += [(tmp_path / name).read_text() for name in (INSTALL, EXAMPLE)]
    for text in texts:
        assert "example.com/team/lbcf" in text
        assert "lbcf.local" not in text


@pytest.mark.usefixtures("found")
def test_alerts_link_runbooks_where_people_read_them(tmp_path: Path) -> None:
    """Those of the file for the operator; the chart takes the same base where none is said."""
    base = "https://git.example.com/lbcf/blob/main/"

    make(tmp_path, Places(runbook_base=base), [], print)

    [rules] = [
        one
        for one in read_all(tmp_path / MONITORING)
        if one["kind"] == "PrometheusRule"
    ]
    links = [
        rule["annotations"]["runbook_url"]
        for group in rules["spec"]["groups"]
        for rule in group["rules"]
    ]
    assert links
    assert [] == [link for link in links if not link.startswith(f"{base}docs/runbooks")]
    with tarfile.open(tmp_path / CHART) as chart:
        member = chart.extractfile("lbcf/values.yaml")
        assert member is not None
        assert base == yaml.safe_load(member.read())["monitoring"]["runbookBase"]


@pytest.mark.parametrize("base", ["git.example.com/", "https://git.example.com"])
def test_runbooks_that_nobody_could_open_are_refused(tmp_path: Path, base: str) -> None:
    """Without a scheme, or without the slash, the path behind it leads nowhere."""
    argv = (sys.executable, "-m", "manifests.release", "--runbook-base", base)

    done = subprocess.run(
        (*argv, "--to", str(tmp_path)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode
    assert "a slash at the end" in done.stderr
    assert [] == list(tmp_path.iterdir())


def test_one_apply_installs_everything(control_plane: Cluster, release: Path) -> None:
    """Without an object of a kind that comes with it, which kubectl could not apply."""
    documents = read_all(release / INSTALL)
    deployments = {name for kind, _, name in _names(documents) if kind == "Deployment"}

    assert [] == [one["kind"] for one in documents if is_ours(one)]
    assert {
        "lbcf-admission",
        "lbcf-controller",
        "lbcf-deregistrar",
        "lbcf-haproxy",
    } == deployments
    kinds = [one["kind"] for one in documents]
    assert kinds.index("Namespace") < kinds.index("Deployment")
    # Not `apply`: another test may have left the kinds there, with which it would compare.
    taken = control_plane.kubectl("create", "--dry-run=client", "-f", release / INSTALL)
    assert len(documents) == len(taken.splitlines())


def test_images_of_the_manifests_are_those_that_we_make(release: Path) -> None:
    """By name and version; HAProxy alone is somebody else's."""
    used = {
        container["image"]
        for name in (INSTALL, EXAMPLE)
        for one in read_all(release / name)
        if one["kind"] in {"Deployment", "Job"}
        for container in one["spec"]["template"]["spec"]["containers"]
    }

    ours = set(REFERENCES.values())
    assert used - ours == {"docker.io/library/haproxy:3.2-alpine"}


def test_images_of_the_chart_are_those_that_we_make(release: Path) -> None:
    """Also that of pods that wait, which no process of ours runs in."""
    with tarfile.open(release / CHART) as chart:
        member = chart.extractfile("lbcf/values.yaml")
        assert member is not None
        text = member.read().decode()
    named = set(re.findall(r"lbcf\.local/([a-z0-9-]+)", text))

    ours = {one.partition("/")[2].partition(":")[0] for one in REFERENCES.values()}
    assert "lbcf-wait" in named
    assert named <= ours


def test_example_collides_with_nothing_that_ships(
    control_plane: Cluster, release: Path
) -> None:
    """Neither with what install.yaml and the chart bring, nor with another example."""
    example = _names(read_all(release / EXAMPLE))
    driver = control_plane.kubectl(
        "kustomize", ROOT / "manifests" / "drivers" / "haproxy"
    )
    shipped = _names([*read_all(release / INSTALL), *yaml.safe_load_all(driver)])

    assert not example & shipped
    assert not example & _names([one for _, one in published()])


def test_example_is_taken(control_plane: Cluster, crds: object, release: Path) -> None:
    """Every field is known, no policy objects, and HAProxy's pod is a restricted one."""
    assert crds
    accounts.apply(control_plane)
    documents = read_all(release / EXAMPLE)
    [own] = [one for one in documents if one["kind"] == "Namespace"]
    flags = ("--dry-run=server", "--validate=strict", "-f", "-")
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(own))
    try:
        for one in documents:
            control_plane.kubectl("apply", *flags, stdin=json.dumps(one))
            if one["kind"] == "Deployment":
                spec = one["spec"]["template"]["spec"]
                meta = {"name": "a", "namespace": one["metadata"]["namespace"]}
                pod = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": meta,
                    "spec": spec,
                }
                made = ("create", *flags)
                assert "created" in control_plane.kubectl(*made, stdin=json.dumps(pod))
    finally:
        control_plane.kubectl(
            "delete", "-f", "-", "--wait=false", stdin=json.dumps(own)
        )


@pytest.mark.parametrize("driver", ["elbv2", "envoy", "f5", "haproxy", "netscaler"])
def test_ready_made_examples_collide_with_nothing_that_ships(
    control_plane: Cluster, driver: str
) -> None:
    """They can be applied beside the drivers of the manifests."""
    folder = ROOT / "manifests" / "drivers" / driver
    shipped = yaml.safe_load_all(control_plane.kubectl("kustomize", folder))
    shown = [one for path in EXAMPLES.glob("*.yaml") for one in read_all(path)]

    assert not _names(list(shipped)) & _names(shown)


def test_wheel_has_both_programs(release: Path) -> None:
    """`kubectl` finds its plugin by its name, which has the manifests that it checks by."""
    with zipfile.ZipFile(release / WHEEL) as wheel:
        programs = wheel.read(f"lbcf-{__version__}.dist-info/entry_points.txt").decode()
        names = wheel.namelist()
    folders = {name.partition("/")[0] for name in names}

    assert {f"lbcf/ctl/manifests/{folder}/Kustomization" for folder in FOLDERS} <= {
        *names
    }
    assert "kubectl-lbcf = " in programs
    assert "\nlbcf = lbcf.__main__:main" in programs
    assert {"lbcf", f"lbcf-{__version__}.dist-info"} == folders


@pytest.mark.parametrize("program", ["kubectl-lbcf", "lbcf"])
def test_programs_of_the_wheel_start(installed: Path, program: str) -> None:
    """As they are installed from a release, not as they stand in a clone."""
    argv = (installed / "bin" / program, "--version")

    said = subprocess.check_output(argv, cwd=installed, text=True)

    assert __version__ in said


def test_wheel_brings_the_manifests_that_it_checks_by(installed: Path) -> None:
    """`kubectl lbcf check` knows all kinds, without a clone beside it."""
    read = (
        "from lbcf.ctl import shipped\n"
        "print(shipped.__file__, len([*shipped.documents('CustomResourceDefinition')]))"
    )
    argv = (installed / "bin" / "python", "-c", read)

    where, kinds = subprocess.check_output(argv, cwd=installed, text=True).split()

    assert Path(where).is_relative_to(installed)
    assert len(list((ROOT / "manifests" / "crds").glob("*s.yaml"))) == int(kinds)
