"""The contract as a file: what is checked in is what the wire types say."""

from pathlib import Path
from typing import cast

import pytest
import yaml

from lbcf.conformance.openapi import document, render
from lbcf.core.model.operations import SINGLE, Operation


FILE = Path(__file__).parents[2] / "docs" / "openapi" / "driver.yaml"

Json = dict[str, "Json"]


def test_the_file_is_not_stale() -> None:
    """If it is: `python -m lbcf.conformance.openapi docs/openapi/driver.yaml`."""
    assert render() == FILE.read_text("utf-8")


def test_the_file_says_what_the_document_says() -> None:
    """YAML is only another form of it."""
    assert document() == yaml.safe_load(FILE.read_text("utf-8"))


def test_every_operation_is_a_path() -> None:
    """Nothing is missing, nothing more is there."""
    paths = cast("Json", document())["paths"]
    assert {f"/{operation}" for operation in Operation} == set(paths)


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ("ValidateBackendRequest", "OldParameters"),
        ("PortSelector", "portNumber"),
        ("RetriedAnswer", "minRetryDelayinSeconds"),
        ("DrainBackendAnswer", "minRetryDelayinSeconds"),
    ],
)
def test_old_spellings_are_there(schema: str, field: str) -> None:
    """Authors see both names of a field."""
    schemas = cast("Json", document())["components"]["schemas"]
    assert field in schemas[schema]["properties"]


def test_fields_are_described() -> None:
    """What docstrings say of fields is in the file, base types' included."""
    schemas = cast("Json", document())["components"]["schemas"]
    fields = schemas["EnsureBackendRequest"]["properties"]
    assert "a call that arrives later" in str(fields["notAfter"]["description"])


def test_who_cannot_tell_answers_503() -> None:
    """Of validations alone: all others answer Fail or Running."""
    paths = cast("Json", document())["paths"]
    told = {path for path, one in paths.items() if "503" in one["post"]["responses"]}
    assert {"/validateLoadBalancer", "/validateBackend"} == told


@pytest.mark.parametrize("operation", SINGLE)
def test_batches_have_their_bounds(operation: Operation) -> None:
    """What has more, or none, is no request."""
    name = f"{operation.value[0].upper()}{operation.value[1:]}Request"
    schema = cast("Json", document())["components"]["schemas"][name]
    items = cast("dict[str, object]", schema["properties"]["items"])
    assert (1, 1000) == (items.get("minItems"), items.get("maxItems"))


def test_old_spellings_are_nobody_s_duty() -> None:
    """Answers have one of the two names of a delay."""
    schemas = cast("Json", document())["components"]["schemas"]
    said = schemas["BackendAnswer"]["properties"]["minRetryDelayinSeconds"]
    assert "a driver sends either" in str(said["description"])
    asked = schemas["ValidateBackendRequest"]["properties"]["OldParameters"]
    assert "callers send both" in str(asked["description"])


def test_security_is_part_of_the_contract() -> None:
    """What drivers may ask of callers has a scheme, and an answer for who has it not."""
    contract = cast("Json", document())
    schemes = contract["components"]["securitySchemes"]
    assert {"http", "mutualTLS"} == {str(one["type"]) for one in schemes.values()}
    assert {} in cast("list[object]", contract["security"])
    for path in contract["paths"].values():
        assert {"401", "403"} < set(path["post"]["responses"])


@pytest.mark.parametrize("kind", ["Pod", "Service", "Node"])
def test_what_stands_behind_an_address_has_its_schema(kind: str) -> None:
    """Exactly one of the three is there; the others are missing, or null."""
    schemas = cast("Json", document())["components"]["schemas"]
    request, field = schemas["GenerateBackendAddrRequest"], f"{kind.lower()}Backend"
    said = cast("list[Json]", request["properties"][field]["anyOf"])
    assert {"$ref": f"#/components/schemas/{kind}Backend"} in cast("list[object]", said)
    wanted = {"required": [field], "properties": {field: {"type": "object"}}}
    assert wanted in cast("list[object]", request["oneOf"])
