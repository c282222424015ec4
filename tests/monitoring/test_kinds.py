"""What manifests/monitoring has, before the kinds of the operator's own release."""

from collections.abc import Iterator

import pytest

from tests.lab.cluster import Cluster
from tests.lab.cluster.errors import KubectlError
from tests.lab.cluster.kinds import operator_kinds
from tests.manifests.documents import ROOT


pytestmark = [pytest.mark.cluster, pytest.mark.prometheus]

STRICT = ("apply", "--server-side", "--validate=strict", "-f", "-")
OURS = "lbcf-system"


@pytest.fixture(scope="module", name="served")
def _served(control_plane: Cluster) -> Iterator[Cluster]:
    """The control plane with the operator's kinds, which go again."""
    folder = operator_kinds(print)
    control_plane.kubectl("apply", "--server-side", "-f", folder)
    wait = ("wait", "--for=condition=Established", "--timeout=60s", "-f")
    control_plane.kubectl(*wait, folder)
    yield control_plane
    control_plane.kubectl("delete", "-f", folder)


@pytest.fixture(name="text")
def _text(served: Cluster, namespace: str) -> str:
    """All of manifests/monitoring as kustomize gives it, for a namespace of our own."""
    folder = ROOT / "manifests" / "monitoring"
    return served.kubectl("kustomize", folder).replace(OURS, namespace)


def test_operator_takes_every_field(served: Cluster, text: str) -> None:
    """A field that its kinds do not have would be dropped without a word elsewhere."""
    told = served.kubectl(*STRICT, stdin=text)

    assert {"configmap", "podmonitor", "prometheusrule"} == {
        line.partition(".")[0].partition("/")[0] for line in told.splitlines()
    }


@pytest.mark.parametrize(
    ("ours", "wrong", "complaint"),
    [
        ("podMetricsEndpoints:", "podMetricsEndpoint:", "podMetricsEndpoint"),
        ("interval: 15s", "interval: often", "interval"),
        ("for: 2m", "for: 2 minutes", "for"),
        ("alert: LbcfTwoLeaders", "alarm: LbcfTwoLeaders", "alarm"),
    ],
)
def test_field_that_means_nothing_is_refused(
    served: Cluster, text: str, ours: str, wrong: str, complaint: str
) -> None:
    """What the test above rests on."""
    with pytest.raises(KubectlError, match=complaint):
        served.kubectl(*STRICT, stdin=text.replace(ours, wrong))
