"""Helm, and the chart that is made of the manifests as they are."""

import os
import subprocess
import sys

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from tests.helm.binary import find_helm
from tests.lab.cluster.binaries import find_binaries
from tests.manifests.documents import ROOT


class HelmError(Exception):
    """Helm refused; the text is what it said."""


@attrs.frozen
class Helm:
    """Helm with our chart."""

    program: Path
    chart: Path
    environment: dict[str, str]

    def __call__(self, *words: str | Path, **login: str) -> str:
        """Run Helm; return what it printed.

        Raises:
            HelmError: it failed.
        """
        done = subprocess.run(
            [self.program, *words],
            env=self.environment | login,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise HelmError(done.stderr)
        return done.stdout

    def template(self, *words: str | Path) -> str:
        """Return the objects that values give, as YAML."""
        return self("template", "lbcf", self.chart, *words)


def with_kubectl() -> dict[str, str]:
    """This environment, with the cluster's kubectl on PATH."""
    binaries = find_binaries(alone=True, say=print)
    return {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}


@pytest.fixture(scope="session", name="chart")
def _chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart, made by the program that operators use."""
    folder = tmp_path_factory.mktemp("helm") / "chart"
    argv = [sys.executable, "-m", "manifests.helm", "--to", str(folder)]
    subprocess.run(argv, cwd=ROOT, env=with_kubectl(), check=True)
    return folder


@pytest.fixture(scope="session", name="helm")
def _helm(chart: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm, with folders of its own."""
    home = tmp_path_factory.mktemp("home")
    environment = with_kubectl() | {"HOME": str(home)}
    return Helm(find_helm(print), chart, environment)


@pytest.fixture(scope="session", name="kustomized")
def _kustomized() -> Callable[[Path], str]:
    """Put a folder of the manifests together, as kubectl does."""

    def kustomized(folder: Path) -> str:
        """Return the objects as YAML."""
        argv = ["kubectl", "kustomize", str(folder)]
        found = subprocess.run(
            argv, env=with_kubectl(), capture_output=True, text=True, check=True
        )
        return found.stdout

    return kustomized
