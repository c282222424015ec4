"""docs/quickstart.md and docs/tutorial.md, line by line, on real nodes with a real HAProxy."""

import os
import subprocess
import sys
import time

from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
import yaml

from tests.helm.binary import find_helm
from tests.lab.cluster import Cluster
from tests.lab.cluster.fixtures import QUICK_FAILURES, running
from tests.lab.installed import images
from tests.lab.installed.install import ROOT, left_over
from tests.lab.installed.quickstart import ON_NODES, PAGE, TUTORIAL, Line, lines
from tests.lab.installed.symptoms import OnCall


pytestmark = [
    pytest.mark.nodes,
    pytest.mark.haproxy,
    pytest.mark.timeout(3600),
    pytest.mark.long,
]

WITH_KUBECTL = {"With kubectl", "What kubectl installed"}
WITH_HELM = {"With Helm", "What Helm installed"}
IMAGES = "Bring the images to the nodes"
TAKE_AWAY = "Take it away"
REQUEST = "/proxy/"
PODS = ("-n", "lbcf-example", "get", "pods", "-l", "app=web", "-o", "name")


@attrs.frozen
class Operator:
    """Somebody in the release folder who reads the page."""

    cluster: Cluster
    folder: Path
    path: str = ""

    def run(self, line: Line) -> str:
        """Do what a line says, on every node if it says so; return what was printed."""
        count = self.cluster.plan.options.nodes if line.where == ON_NODES else 0
        nodes: list[int | None] = [*range(1, count + 1)] or [None]
        return "".join(self._run(line.command, node) for node in nodes)

    def _run(self, command: str, node: int | None) -> str:
        environment = self.cluster.environment()
        # `kubectl lbcf`, as the wheel installs it, is beside this Python.
        path = f"{Path(sys.executable).parent}:{self.path}:{environment['PATH']}"
        began = time.monotonic()
        done = subprocess.run(
            # Who enters another mount namespace is at its root.
            self.cluster.command(
                "bash", "-euc", f'cd "{self.folder}"; {command}', node=node
            ),
            env=environment | {"PATH": path, "HOME": str(self.folder.parent)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        took = time.monotonic() - began
        print(
            f"$ {command}\n{done.stdout}({took:.1f} s, load {os.getloadavg()[0]:.1f})\n"
        )
        assert 0 == done.returncode, f"{command}: {done.stdout}"
        return done.stdout


@pytest.fixture(scope="module", name="operator")
def _operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """Three nodes with a HAProxy to pull, and a release of what the page needs."""
    folder = tmp_path_factory.mktemp("quickstart") / "dist"
    with running(3, QUICK_FAILURES) as cluster:
        argv = [sys.executable, "-m", "manifests.release", *images.SHIPPED]
        environment = cluster.environment()
        subprocess.run([*argv, "--to", folder], cwd=ROOT, env=environment, check=True)
        example = list(
            yaml.safe_load_all((folder / "example-haproxy.yaml").read_text())
        )
        haproxy = images.haproxy(folder.parent, _image_of("haproxy", example))
        cluster.load(haproxy)
        operator = Operator(cluster, folder)
        for line in lines((ROOT / PAGE).read_text()):
            if line.heading == IMAGES:
                operator.run(line)
        yield operator


def _image_of(name: str, documents: list[dict[str, object]]) -> str:
    """Return the image that a Deployment of the example names."""
    [found] = [
        document["spec"]["template"]["spec"]["containers"][0]["image"]  # type: ignore[index]
        for document in documents
        if document["kind"] == "Deployment" and document["metadata"]["name"] == name  # type: ignore[index]
    ]
    return str(found)


def _nothing(_operator: Operator) -> None:
    """Do nothing."""


def _follow(
    operator: Operator,
    skipped: set[str],
    before_the_end: Callable[[Operator], None] = _nothing,
) -> None:
    """Run the page but for some headings; HAProxy answers, and nothing is left.

    What a line waits for has to come within the line's own --timeout.

    Args:
        operator: who does it.
        skipped: these headings.
        before_the_end: called before all is taken away.
    """
    page = lines((ROOT / PAGE).read_text())
    chosen = [one for one in page if one.heading not in {*skipped, IMAGES}]
    assert skipped < {one.heading for one in page}
    end = [one.heading for one in chosen].index(TAKE_AWAY)
    began, answered = time.monotonic(), 0.0
    for number, line in enumerate(chosen):
        if number == end:
            before_the_end(operator)
        printed = operator.run(line)
        if REQUEST in line.command and not answered:
            answered = time.monotonic() - began
            serving = operator.cluster.kubectl(*PODS).splitlines()
            named = {f"pod/{name}" for name in printed.splitlines()}
            assert named == set(serving)
    print(f"first requests answered after {answered:.0f} s")
    assert answered
    assert [] == left_over(operator.cluster)


def _trouble(operator: Operator) -> None:
    """Go through the tutorial; then the first command on call names what goes wrong."""
    for line in lines((ROOT / TUTORIAL).read_text()):
        operator.run(line)
    asked = Line(TAKE_AWAY, "", "kubectl lbcf status -n lbcf-example -o json || true")
    OnCall(operator.cluster, lambda: operator.run(asked)).look()


def test_page_and_tutorial_with_kubectl(operator: Operator) -> None:
    """Installed, served, rolled, troubled and taken away; nothing is left."""
    _follow(operator, WITH_HELM, _trouble)


@pytest.mark.helm
def test_page_with_helm(operator: Operator) -> None:
    """The same with the chart of the folder."""
    helm = find_helm(print).parent
    _follow(attrs.evolve(operator, path=str(helm)), WITH_KUBECTL)


def test_three_commands_come_before_the_first_request() -> None:
    """From the folder to the first answer; waiting and looking is not counted."""
    page = lines((ROOT / PAGE).read_text())
    order = [one.heading for one in page]
    first = next(n for n, one in enumerate(page) if REQUEST in one.command)
    for skipped in (WITH_HELM, WITH_KUBECTL):
        changing = [
            one.command
            for one in page[order.index(IMAGES) : first]
            if one.heading not in skipped
            if not any(word in one.command for word in ("rollout status", " wait "))
        ]
        assert len(changing) == 3
