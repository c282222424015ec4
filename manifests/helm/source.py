"""The manifests as kubectl puts them together, and in which case the chart has each.

`templates` makes templates of them. Nothing of the manifests is written down twice: a new
folder is a new `Part` here.
"""

import subprocess

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import yaml


MANIFESTS: Final = Path(__file__).parents[1]
COMPONENT: Final = "app.kubernetes.io/component"
WEBHOOK: Final = ".Values.admission.enabled"
DRAIN_GATE: Final = ".Values.drainGate.enabled"
MONITORING: Final = ".Values.monitoring.enabled"
READINESS_GATE: Final = ".Values.readinessGate.enabled"
CERT_MANAGER: Final = 'eq .Values.admission.certificate "cert-manager"'
DRIVER_KIND: Final = (
    '.Capabilities.APIVersions.Has "lbcf.tkestack.io/v1beta1/LoadBalancerDriver"'
)

Document = dict[str, Any]


class SourceError(Exception):
    """The manifests cannot be read, or are not as the chart expects them."""


@attrs.frozen
class Piece:
    """One object of the chart.

    Attributes:
        document: as kustomize has it.
        file: name of the template that it goes to.
        condition: a template's expression; empty for always.
    """

    document: Document
    file: str
    condition: str = ""

    @property
    def identity(self) -> tuple[str, str]:
        """Kind and name, which no two objects of one installation share."""
        return self.document["kind"], self.document["metadata"]["name"]


def build(folder: str) -> list[Document]:
    """Put one folder of the manifests together.

    Raises:
        SourceError: kubectl is not there, or cannot.
    """
    argv = ["kubectl", "kustomize", str(MANIFESTS / folder)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SourceError(
            "there is no kubectl on PATH to read manifests with"
        ) from None
    if done.returncode:
        raise SourceError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return list(yaml.safe_load_all(done.stdout))


def read() -> list[Piece]:
    """Read all that the chart can install."""
    overlays = build("overlays/default"), build("overlays/cert-manager")
    return [
        *variants(*overlays),
        *(_of_driver("haproxy", one) for one in build("drivers/haproxy")),
        *(_of_driver("envoy", one) for one in build("drivers/envoy")),
        *(Piece(one, "drain-gate", DRAIN_GATE) for one in build("drain-gate")),
        *(Piece(one, "monitoring", MONITORING) for one in build("monitoring")),
        *(
            Piece(one, "readiness-gate", READINESS_GATE)
            for one in build("readiness-gate")
        ),
    ]


def variants(own: Sequence[Document], other: Sequence[Document]) -> Iterator[Piece]:
    """Put two overlays together: what they share, and what each has for itself.

    Args:
        own: with a certificate of our own.
        other: with one of cert-manager's.
    """
    ours = {_place(one).identity: one for one in own}
    theirs = {_place(one).identity: one for one in other}
    for identity, document in ours.items():
        piece = _place(document)
        if theirs.get(identity) != document:
            piece = _only(piece, f"(not ({CERT_MANAGER}))")
        yield piece
    for identity, document in theirs.items():
        if ours.get(identity) != document:
            yield _only(_place(document), f"({CERT_MANAGER})")


def _only(piece: Piece, condition: str) -> Piece:
    """Limit a piece further."""
    both = f"and {piece.condition} {condition}" if piece.condition else condition
    return attrs.evolve(piece, condition=both)


def _place(document: Document) -> Piece:
    """Say where an object of our own processes goes."""
    kind = document["kind"]
    component = labels(document).get(COMPONENT, "")
    if kind == "CustomResourceDefinition":
        return Piece(document, "crds", ".Values.crds.install")
    if kind == "Namespace":
        return Piece(document, "namespace", ".Values.namespace.create")
    if component == "admission":
        return Piece(document, component, WEBHOOK)
    if kind.startswith("ValidatingAdmission"):
        return Piece(document, "policies")
    return Piece(document, component or "shared")


def _of_driver(name: str, document: Document) -> Piece:
    """Say where an object of a driver goes.

    Helm looks each kind up before it creates anything: the driver's own object cannot
    come before the CRDs are there.
    """
    condition = f".Values.drivers.{name}.enabled"
    if document["kind"] == "LoadBalancerDriver":
        condition = f"and {condition} ({DRIVER_KIND})"
    return Piece(document, name, condition)


def labels(document: Document) -> Mapping[str, str]:
    """The labels of an object."""
    found: Mapping[str, str] = document["metadata"].get("labels", {})
    return found
