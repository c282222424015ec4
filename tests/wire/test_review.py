"""AdmissionReviews, in and out."""

import json

from typing import Any

import pytest

from lbcf.admission.decisions import Admitted, Cause, Denied
from lbcf.admission.review import backend_type_of, parse_review, render_review
from lbcf.wire.driver_requests import BackendType
from lbcf.wire.errors import Malformed
from lbcf.wire.resources import parse_load_balancer


def _asked(**request: Any) -> dict[str, Any]:
    """A question as the API server asks it."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "7",
            "resource": {"group": "g", "version": "v", "resource": "loadbalancers"},
            "operation": "CREATE",
            "namespace": "shop",
            "name": "front",
            "object": {"metadata": {"name": "front"}, "spec": {"lbDriver": "memory"}},
            "oldObject": None,
            **request,
        },
    }


def _body(**request: Any) -> bytes:
    """The same as bytes."""
    return json.dumps(_asked(**request)).encode()


def test_new_object_reads_like_a_stored_one() -> None:
    """It has no resourceVersion yet, and its namespace may be the request's alone."""
    review = parse_review(_body(dryRun=True))

    assert ("7", "loadbalancers", "CREATE") == (
        review.uid,
        review.resource,
        review.operation,
    )
    assert review.dry_run
    assert b"" == review.old
    assert "shop/front" == str(parse_load_balancer(review.new).meta.key)


def test_object_at_its_end_is_the_old_one() -> None:
    """A deletion has no new object."""
    old = _asked()["request"]["object"]
    review = parse_review(_body(operation="DELETE", object=None, oldObject=old))

    assert b"" == review.new
    assert "front" == parse_load_balancer(review.old).meta.key.name


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"apiVersion":"v1","kind":"Pod","request":{}}',
        json.dumps({**_asked(), "apiVersion": "admission.k8s.io/v1beta1"}).encode(),
        json.dumps({**_asked(), "kind": "ConversionReview"}).encode(),
        _body(uid=7),
    ],
)
def test_anything_else_is_malformed(body: bytes) -> None:
    """Garbage, other kinds and other versions."""
    with pytest.raises(Malformed):
        parse_review(body)


@pytest.mark.parametrize(
    ("part", "backend_type"),
    [
        ("pods", BackendType.POD),
        ("service", BackendType.SERVICE),
        ("static", BackendType.STATIC),
        ("nodes", BackendType.NODE),
    ],
)
def test_type_of_backends_is_what_the_spec_names(
    part: str, backend_type: BackendType
) -> None:
    """A null is the same as missing."""
    spec = {"pods": None, part: {"any": "thing"}}
    assert backend_type is backend_type_of(json.dumps({"spec": spec}).encode())


@pytest.mark.parametrize("group", [b"{}", b'{"spec":{}}', b"\xff"])
def test_group_without_a_type_is_malformed(group: bytes) -> None:
    """There is nothing to ask about."""
    with pytest.raises(Malformed):
        backend_type_of(group)


@pytest.mark.parametrize(
    ("cause", "code", "reason"),
    [
        pytest.param(Cause.INVALID, 422, "Invalid", id="the object is wrong"),
        pytest.param(Cause.FORBIDDEN, 403, "Forbidden", id="not here"),
        pytest.param(
            Cause.UNAVAILABLE, 503, "ServiceUnavailable", id="cannot be told now"
        ),
    ],
)
def test_refusal_has_a_status_for_people_and_clients(
    cause: Cause, code: int, reason: str
) -> None:
    """Code, reason and message; who applies it tries again after a 503 alone."""
    answer = json.loads(render_review("7", Denied("no", cause)))

    status = {"code": code, "reason": reason, "message": "no"}
    assert {"uid": "7", "allowed": False, "status": status} == answer["response"]
    assert ("admission.k8s.io/v1", "AdmissionReview") == (
        answer["apiVersion"],
        answer["kind"],
    )


def test_warnings_are_cut_to_what_clients_show() -> None:
    """256 characters each; without any the field is left out."""
    warned = json.loads(render_review("7", Admitted(("w" * 300,))))
    plain = json.loads(render_review("7", Admitted()))

    assert ["w" * 256] == warned["response"]["warnings"]
    assert {"uid": "7", "allowed": True} == plain["response"]
