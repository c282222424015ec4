"""Templates are made of objects; what does not fit is an error, never left out."""

from typing import Any

import pytest
import yaml

from manifests.helm.chart import schema
from manifests.helm.settings import COUNT, VALUES, Place, Value
from manifests.helm.source import Piece, SourceError, variants
from manifests.helm.templates import Chart, make


KIND = ("Deployment", "web")
REPLICAS = Place(*KIND, ("spec", "replicas"), "web.replicas")
COUNTED = Value("web.replicas", "How many.", COUNT)


def _piece(**spec: object) -> Piece:
    """A small Deployment."""
    meta = {"name": "web", "namespace": "lbcf-system"}
    return Piece({"kind": "Deployment", "metadata": meta, "spec": spec}, "web")


def _made(*places: Place, spec: dict[str, Any] | None = None) -> Chart:
    """A chart of that Deployment, with a number that can be set."""
    return make([_piece(**(spec or {"replicas": 2}))], [COUNTED], [REPLICAS, *places])


def test_value_takes_its_default_from_the_object() -> None:
    """What the manifests say is said once."""
    chart = _made()

    assert {"web": {"replicas": 2}} == chart.values
    assert "  replicas: {{ toJson .Values.web.replicas }}\n" in chart.templates["web"]


def test_new_field_stays_away_where_its_value_is_empty() -> None:
    """So that the defaults give what the manifests give."""
    place = Place(*KIND, ("spec", "nodeSelector"), "web.nodeSelector", is_new=True)

    text = _made(place).templates["web"]
    lines = "{{- with .Values.web.nodeSelector }}\n  nodeSelector: {{ toJson . }}\n"
    assert f"{lines}{{{{- end }}}}\n" in text


def test_expression_can_use_what_is_there() -> None:
    """More arguments follow those of the manifest."""
    more = "{{ concat (fromJsonArray @found) .Values.more | toJson }}"
    place = Place(*KIND, ("spec", "args"), expression=more)

    text = _made(place, spec={"replicas": 2, "args": ["a"]}).templates["web"]
    assert '  args: {{ concat (fromJsonArray `["a"]`) .Values.more | toJson }}' in text


def test_namespace_is_a_value() -> None:
    """Wherever an object names it."""
    url = "http://driver.lbcf-system.svc"
    text = _made(spec={"replicas": 2, "url": url}).templates["web"]

    assert "  namespace: {{ .Values.namespace.name }}\n" in text
    assert "http://driver.{{ .Values.namespace.name }}.svc" in text


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        (Place(*KIND, ("spec", "nothing"), "web.nothing"), "has no"),
        (Place(*KIND, ("spec", "replicas"), "web.more", is_new=True), "already"),
    ],
)
def test_place_that_does_not_fit_is_an_error(place: Place, complaint: str) -> None:
    """A manifest that has changed is noticed, not deployed as it was."""
    with pytest.raises(SourceError, match=complaint):
        _made(place)


def test_value_without_a_place_is_an_error() -> None:
    """The object that had it is gone, or called otherwise."""
    with pytest.raises(SourceError, match=r"no object says what web\.replicas may be"):
        make([], [COUNTED], [REPLICAS])


def test_value_with_two_defaults_is_an_error() -> None:
    """One value cannot stand for both."""
    with pytest.raises(SourceError, match=r"web\.replicas is 2 in one object"):
        make([_piece(replicas=2), _piece(replicas=3)], [COUNTED], [REPLICAS])


def test_braces_of_the_manifests_are_left_alone() -> None:
    """Alerts and legends have some, which Helm must not take for its own."""
    text = _made(spec={"replicas": 2, "text": "{{ $x }}"}).templates["web"]

    assert """text: '{{ "{{" }} $x }}'""" in text


def test_overlays_are_put_together() -> None:
    """What both have is there always, what differs as the value says."""
    same, one, other, more = (
        {"kind": kind, "metadata": {"name": kind}, "spec": spec}
        for kind, spec in (("A", 1), ("B", 1), ("B", 2), ("C", 1))
    )
    found = list(variants([same, one], [same, other, more]))

    cert_manager = '(eq .Values.admission.certificate "cert-manager")'
    assert [(p.document, p.condition) for p in found] == [
        (same, ""),
        (one, f"(not {cert_manager})"),
        (other, cert_manager),
        (more, cert_manager),
    ]


def test_kinds_outlive_a_release() -> None:
    """With a kind Helm would delete all its objects."""
    meta = {"name": "lbs", "labels": {}}
    crd = {"kind": "CustomResourceDefinition", "metadata": meta}
    text = make([Piece(crd, "crds", ".Values.install")], [], []).templates["crds"]

    [opened, *body, closed] = text.splitlines()
    assert ("{{- if .Values.install }}", "{{- end }}") == (opened, closed)
    [made] = [one for one in yaml.safe_load_all("\n".join(body)) if one]
    assert {"helm.sh/resource-policy": "keep"} == made["metadata"]["annotations"]


def test_schema_knows_every_value_and_no_other() -> None:
    """A name that is written wrongly is refused, at every depth."""
    whole = schema()
    for value in VALUES:
        inner = whole
        for step in value.name.split("."):
            assert not inner["additionalProperties"], value.name
            inner = inner["properties"][step]
        assert value.about == inner["description"]
