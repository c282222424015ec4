"""The chart gives what the manifests give, and refuses values that mean nothing."""

import base64

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cryptography import x509

from manifests.helm.templates import KEEP, KEPT
from tests.helm.conftest import Helm, HelmError
from tests.lab.installed.install import write_overlay
from tests.manifests.documents import ROOT


pytestmark = [pytest.mark.helm, pytest.mark.timeout(3600)]

OVERLAYS = ROOT / "manifests" / "overlays"
Key = tuple[str, str]
Kustomized = Callable[[Path], str]
DRIVER = "lbcf.tkestack.io/v1beta1/LoadBalancerDriver"
TOKEN: Key = ("Secret", "lbcf-haproxy-token")
MONITORED = ("--set", "monitoring.enabled=true")
HAPROXY = ("--set", "drivers.haproxy.enabled=true", "--api-versions", DRIVER)
ENVOY = ("--set", "drivers.envoy.enabled=true", "--api-versions", DRIVER)
CERTIFICATES = ("lbcf-envoy-driver", "lbcf-envoy-proxies")


def _objects(text: str) -> dict[Key, dict[str, Any]]:
    """The objects of a text by kind and name, less what tells Helm to keep them."""
    found = {}
    for one in yaml.safe_load_all(text):
        if one is None:
            continue
        meta = one["metadata"]
        if meta.get("annotations") == dict([KEEP]):
            del meta["annotations"]
        found[one["kind"], meta["name"]] = one
    return found


@pytest.mark.parametrize(
    ("overlay", "values"),
    [
        ("default", ()),
        ("without-webhook", ("--set", "admission.enabled=false")),
        ("cert-manager", ("--set", "admission.certificate=cert-manager")),
        ("drain-gate", ("--set", "drainGate.enabled=true")),
        ("readiness-gate", ("--set", "readinessGate.enabled=true")),
    ],
)
def test_objects_are_those_of_the_overlay(
    helm: Helm, kustomized: Kustomized, overlay: str, values: tuple[str, ...]
) -> None:
    """One by one, whichever way it is installed."""
    expected = _objects(kustomized(OVERLAYS / overlay))
    made = _objects(helm.template(*values))

    assert expected.keys() == made.keys()
    for key, document in expected.items():
        assert document == made[key]


def test_driver_is_that_of_an_overlay(
    helm: Helm, kustomized: Kustomized, tmp_path: Path
) -> None:
    """With the images that an operator's overlay names, and a token beside it."""
    made = _objects(helm.template(*HAPROXY))
    assert made.pop(TOKEN)

    assert made == _objects(kustomized(write_overlay(tmp_path / "own")))


def test_envoy_is_that_of_an_overlay(
    helm: Helm, kustomized: Kustomized, tmp_path: Path
) -> None:
    """Driver and Envoys; beside them a token, and certificates of one authority."""
    made = _objects(helm.template(*ENVOY))
    assert made.pop(("Secret", "lbcf-envoy-token"))
    files = [made.pop(("Secret", name)) for name in CERTIFICATES]

    overlay = write_overlay(tmp_path / "own", driver="envoy")
    assert made == _objects(kustomized(overlay))
    assert ["lbcf-system", "lbcf-envoy"] == [f["metadata"]["namespace"] for f in files]
    assert 1 == len({one["data"]["ca.crt"] for one in files})
    for one in files:
        [authority] = x509.load_pem_x509_certificates(_decoded(one, "ca.crt"))
        [made_for] = x509.load_pem_x509_certificates(_decoded(one, "tls.crt"))
        made_for.verify_directly_issued_by(authority)
        names = made_for.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        known = names.value.get_values_for_type(x509.DNSName)
        assert ["lbcf-envoy.lbcf-system.svc"] == known


def _decoded(secret: dict[str, Any], name: str) -> bytes:
    """One file of a Secret."""
    return base64.b64decode(secret["data"][name])


def test_token_is_made_for_both_sides(helm: Helm) -> None:
    """The same for the driver and for its callers, another one each time."""
    tokens: set[str] = set()
    for _ in range(2):
        documents = yaml.safe_load_all(helm.template(*HAPROXY))
        secrets = [
            one
            for one in documents
            if one and (one["kind"], one["metadata"]["name"]) == TOKEN
        ]
        where = {one["metadata"]["namespace"] for one in secrets}
        (token,) = {one["data"]["token"] for one in secrets}
        tokens.add(token)
        assert {"lbcf-system", "kube-system"} == where
        assert 48 == len(base64.b64decode(token))
    assert 2 == len(tokens)
    assert TOKEN not in _objects(helm.template())


def test_monitoring_is_that_of_the_manifests(
    helm: Helm, kustomized: Kustomized
) -> None:
    """Texts of alerts and legends keep their braces; without the value there is none."""
    own = _objects(kustomized(ROOT / "manifests" / "monitoring"))
    plain, made = _objects(helm.template()), _objects(helm.template(*MONITORED))

    assert own == {key: one for key, one in made.items() if key not in plain}
    assert plain == {key: one for key, one in made.items() if key in plain}


def test_operator_finds_what_has_its_labels(helm: Helm) -> None:
    """Beside those that all of ours have, and on what it reads alone."""
    more = ("--set", "monitoring.labels.release=kube-prometheus-stack")
    made = _objects(helm.template(*MONITORED, *more))
    labelled = {
        key[0]: one["metadata"]["labels"]["app.kubernetes.io/name"]
        for key, one in made.items()
        if "release" in one["metadata"].get("labels", {})
    }

    assert {"PodMonitor": "lbcf", "PrometheusRule": "lbcf"} == labelled


def test_runbooks_open_where_people_read_them(helm: Helm) -> None:
    """Each alert's link is the manifest's path behind the base; a base needs a scheme."""
    rule: Key = ("PrometheusRule", "lbcf")
    base = "https://git.example.com/lbcf/blob/main/"
    plain = _objects(helm.template(*MONITORED))[rule]
    values = ("--set", f"monitoring.runbookBase={base}")
    made = _objects(helm.template(*MONITORED, *values))[rule]

    paths = _all_called("runbook_url", plain)
    assert paths
    assert [f"{base}{path}" for path in paths] == _all_called("runbook_url", made)


def test_driver_waits_for_its_kind(helm: Helm) -> None:
    """Helm would refuse the whole chart: it looks each kind up before it begins."""
    made = _objects(helm.template(*HAPROXY[:2]))

    assert ("Deployment", "lbcf-haproxy") in made
    assert ("LoadBalancerDriver", "lbcf-haproxy") not in made


def test_no_uninstall_takes_the_kinds(helm: Helm) -> None:
    """With a kind Helm would delete all its objects, whatever they hold."""
    for one in yaml.safe_load_all(helm.template(*HAPROXY)):
        kept = one["metadata"].get("annotations", {}).get(KEEP[0]) == "keep"
        assert kept == (one["kind"] in KEPT), one["kind"]


def test_lint_finds_nothing(helm: Helm) -> None:
    """Neither with the defaults nor with all that can be switched on."""
    driver = ("--set", "drivers.haproxy.enabled=true,namespace.create=false")
    for values in ((), (*driver, *MONITORED)):
        said = helm("lint", "--strict", helm.chart, *values)
        assert "0 chart(s) failed" in said
        assert "WARNING" not in said


SET: list[tuple[str, Key, str]] = [
    ("controller.replicas=3", ("Deployment", "lbcf-controller"), "spec.replicas=3"),
    (
        "image.repository=r.io/lbcf,image.tag=7",
        ("Deployment", "lbcf-deregistrar"),
        "image=r.io/lbcf:7",
    ),
    (
        "drainGate.enabled=true,drainGate.image.repository=r.io/wait,drainGate.fallbackSeconds=20",
        ("MutatingAdmissionPolicy", "drain-gate.lbcf.tkestack.io"),
        "expression='r.io/wait:0.1.0'",
    ),
    (
        "controller.extraArgs={--log-level=debug}",
        ("Deployment", "lbcf-controller"),
        "args=['controller', '--journal=/run/lbcf/journal', '--log-level=debug']",
    ),
    (
        "shards=4",
        ("Deployment", "lbcf-controller"),
        "args=['controller', '--journal=/run/lbcf/journal', '--shards=4']",
    ),
    ("shards=4", ("Deployment", "lbcf-deregistrar"), "spec.replicas=5"),
    (
        "shards=4,controller.replicas=7",
        ("Deployment", "lbcf-controller"),
        "spec.replicas=7",
    ),
    ("shards=4", ("Deployment", "lbcf-admission"), "spec.replicas=2"),
    (
        "admission.failurePolicy=Ignore",
        ("ValidatingWebhookConfiguration", "lbcf.tkestack.io"),
        "failurePolicy=Ignore",
    ),
    (
        "imagePullSecrets[0].name=mine",
        ("Deployment", "lbcf-admission"),
        "imagePullSecrets=[{'name': 'mine'}]",
    ),
    (
        "admission.nodeSelector.disk=ssd",
        ("Deployment", "lbcf-admission"),
        "nodeSelector={'disk': 'ssd'}",
    ),
    (
        "drivers.haproxy.enabled=true,drivers.haproxy.allowSockets={a:1,b:2}",
        ("Deployment", "lbcf-haproxy"),
        (
            "args=['--token-file=/etc/lbcf/token/token', '--allow-sockets=a:1', "
            "'--allow-sockets=b:2', '--restore']"
        ),
    ),
    (
        "drivers.envoy.enabled=true,drivers.envoy.proxies.nodeSelector.edge=yes",
        ("DaemonSet", "lbcf-envoy-edge"),
        "nodeSelector={'edge': 'yes'}",
    ),
    (
        "drivers.envoy.enabled=true,drivers.envoy.storageClassName=fast",
        ("PersistentVolumeClaim", "lbcf-envoy"),
        "storageClassName=fast",
    ),
]


@pytest.mark.parametrize(("values", "where", "said"), SET)
def test_value_is_where_it_belongs(
    helm: Helm, values: str, where: Key, said: str
) -> None:
    """And nothing but that object is any different."""
    made = _objects(helm.template("--set-string", "image.tag=7", "--set", values))
    name, _, expected = said.partition("=")

    assert expected in {str(v) for v in _all_called(name.split(".")[-1], made[where])}


def _all_called(name: str, whole: object) -> list[object]:
    """All values of a name in an object."""
    if isinstance(whole, dict):
        own = [whole[name]] if name in whole else []
        return own + [v for inner in whole.values() for v in _all_called(name, inner)]
    if isinstance(whole, list):
        return [v for inner in whole for v in _all_called(name, inner)]
    return []


def test_namespace_is_everywhere(helm: Helm) -> None:
    """No object stays behind in the one of the manifests."""
    values = (
        "--set",
        (
            "namespace.name=elsewhere,drivers.haproxy.enabled=true,"
            "drivers.envoy.enabled=true,drainGate.enabled=true"
        ),
    )
    sockets = ("--set", "drivers.haproxy.allowSockets={haproxy:9999}")
    made = _objects(helm.template(*values, *sockets, *HAPROXY, *MONITORED))

    assert "lbcf-system" not in str(made)
    assert ("Namespace", "elsewhere") in made


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ("controller.replicas=two", "replicas"),
        ("controller.replicas=0", "minimum"),
        ("shards=33", "maximum"),
        ("controler.replicas=2", "controler"),
        ("admission.failurePolicy=Maybe", "'Fail', 'Ignore'"),
        ("admission.certificate=none", "'own', 'cert-manager'"),
        ("image.tag=", "minLength"),
        ("namespace.name=No_Such", "pattern"),
        ("drivers.haproxy.allowSockets={}", "allowSockets"),
        ("drivers.envoy.allowListeners={}", "allowListeners"),
        ("controller.resources.request.cpu=1", "request"),
        ("controller.resources.requests.cpu=much", "pattern"),
        ("crds.install=maybe", "boolean"),
        ("monitoring.enabled=perhaps", "boolean"),
        ("drainGate.fallbackSeconds=0", "minimum"),
        ("monitoring.labels.release=1", "string"),
        ("monitoring.runbookBase=git.example.com", "runbookBase"),
    ],
)
def test_bad_value_is_refused_by_the_schema(
    helm: Helm, values: str, complaint: str
) -> None:
    """Before anything is sent to a cluster; the message names it."""
    with pytest.raises(HelmError) as refusal:
        helm.template("--set", values)

    assert "values don't meet the specifications of the schema" in str(refusal.value)
    assert complaint in str(refusal.value)
