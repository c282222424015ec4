"""What the CRD files must hold, read without an API server."""

from typing import Any

import pytest

from lbcf.core.model.operations import SINGLE, Operation
from lbcf.core.model.selectors import Operator
from lbcf.core.model.values import (
    AddressSource,
    DeregisterPolicy,
    Gate,
    MemberKey,
    Protocol,
    Repeat,
    ReplaceOrder,
)
from tests.manifests.documents import Document, crds, schemas
from tests.manifests.paths import nodes, value_at


Node = tuple[str, Document]

NODES = [
    (f"{kind} {place or 'object'}", node)
    for kind, schema in schemas().items()
    for place, node in nodes(schema)
    if place not in {"apiVersion", "kind", "metadata"}
]
BOUNDS = {
    "string": ({"maxLength"}, {"enum"}, {"format"}),
    "integer": ({"minimum", "maximum"}, {"minimum", "format"}),
    "array": ({"maxItems", "x-kubernetes-list-type"},),
    "object": ({"properties"}, {"maxProperties"}),
    "boolean": (set[str](),),
}
RANGES = {
    "LoadBalancerDriver spec.lateEffectSeconds": (0, 3600),
    "LoadBalancerDriver spec.maxConcurrentCalls": (1, 10000),
    "LoadBalancerDriver spec.webhooks[].batch.maxItems": (2, 1000),
    "LoadBalancerDriver spec.webhooks[].batch.maxDelayMilliseconds": (0, 5000),
    "LoadBalancer spec.maxConcurrentCalls": (1, 10000),
    "LoadBalancer spec.drain.timeoutSeconds": (0, 86400),
    "LoadBalancerClass spec.drain.timeoutSeconds": (0, 86400),
    "BackendGroup spec.drain.timeoutSeconds": (0, 86400),
    "BackendRecord spec.drain.timeoutSeconds": (0, 86400),
    "BackendGroup spec.protection.maxUnreadyPercent": (0, 100),
    "BackendGroup spec.protection.maxUnavailable": (0, 100000),
    "BackendGroup spec.gateTimeoutSeconds": (0, 86400),
    "Bind spec.gateTimeoutSeconds": (0, 86400),
    "BackendGroup spec.nodes.ports[].port": (1, 65535),
    "BackendRecord spec.serviceBackend.nodePort": (1, 65535),
    "Bind spec.pods.ports[].port": (1, 65535),
    "Bind spec.ensurePolicy.resyncPeriodInSeconds": (10, 86400),
}
ENUMERATIONS = {
    "LoadBalancerDriver spec.webhooks[].name": [
        one for one in Operation if one not in SINGLE
    ],
    "LoadBalancerDriver spec.memberKey": MemberKey,
    "LoadBalancerDriver spec.addressSource": AddressSource,
    "LoadBalancer spec.ensurePolicy.policy": Repeat,
    "BackendGroup spec.deregisterPolicy": DeregisterPolicy,
    "BackendGroup spec.protection.order": ReplaceOrder,
    "BackendGroup spec.gate": Gate,
    "Bind spec.gate": Gate,
    "LoadBalancer spec.gate": Gate,
    "BackendGroup spec.pods.ports[].protocol": Protocol,
    "BackendGroup spec.pods.byLabel.matchExpressions[].operator": Operator,
}
DEFAULTS = {
    "LoadBalancerDriver spec.acceptDryRunCall": False,
    "LoadBalancerDriver spec.webhooks[].timeout": "10s",
    "LoadBalancerDriver spec.webhooks[].batch.maxDelayMilliseconds": 100,
    "LoadBalancerDriver spec.memberKey": "Address",
    "LoadBalancerDriver spec.addressSource": "Driver",
    "LoadBalancerDriver spec.lateEffectSeconds": 10,
    "LoadBalancerDriver spec.maxConcurrentCalls": 32,
    "LoadBalancer spec.lbSpec": {},
    "LoadBalancer spec.ensurePolicy.policy": "IfNotSucc",
    "LoadBalancerClass spec.ipMode": "Proxy",
    "LoadBalancerClass spec.default": False,
    "BackendGroup spec.deregisterPolicy": "IfNotReady",
    "BackendGroup spec.deregisterWebhook.failurePolicy": "DoNothing",
    "BackendGroup spec.pods.ports[].protocol": "TCP",
    "BackendGroup spec.nodes.addressType": "InternalIP",
    "BackendGroup spec.gate": "Required",
    "BackendGroup spec.gateTimeoutSeconds": 600,
    "LoadBalancer spec.gate": "Required",
    "BackendGroup spec.drain.enabled": True,
    "BackendGroup spec.drain.timeoutSeconds": 30,
}
SHORT_NAMES = {
    "LoadBalancerDriver": ["lbd", "driver"],
    "LoadBalancerClass": ["lbclass"],
    "LoadBalancer": ["lb"],
    "BackendGroup": ["bg"],
    "BackendRecord": ["br"],
    "Bind": None,
}
OF_LBCF = [kind for kind in schemas() if kind != "LoadBalancerClass"]
"""Kinds that LBCF has, too; of classes nothing is told by conditions."""
ALIKE = (
    ("ensurePolicy's policy", "BackendGroup spec.ensurePolicy.policy", "BackendRecord spec.ensurePolicy.policy"),
    ("labels", "BackendGroup spec.nodes.selector", "BackendGroup spec.pods.byLabel.selector"),
    ("port", "BackendGroup spec.pods.port", "BackendGroup spec.service.port"),
    *(
        (f"{field} of {place}", f"BackendGroup spec.pods.port.{field}", f"{place}.{field}")
        for place in ("BackendGroup spec.pods.ports[]", "BackendRecord spec.podBackend.port")
        for field in ("port", "portNumber")
    ),
    (
        "protocol in any case",
        "Bind spec.pods.ports[].protocol",
        "BackendRecord spec.podBackend.port.protocol",
    ),
    ("drain", "BackendGroup spec.drain", "LoadBalancer spec.drain"),
    ("drain of classes", "BackendGroup spec.drain", "LoadBalancerClass spec.drain"),
    *(
        (f"{field} of Bind", f"BackendGroup spec.{field}", f"Bind spec.{field}")
        for field in (
            "drain", "parameters", "pods.byLabel", "pods.byName", "deregisterPolicy",
            "deregisterWebhook",
        )
    ),
    *(
        (f"conditions of {kind}", "BackendRecord status.conditions", f"{kind} status.conditions")
        for kind in OF_LBCF
    ),
)  # fmt: skip


def node_at(name: str) -> Document:
    """The schema's node with a name such as `BackendGroup spec.drain`."""
    return dict(NODES)[name]


@pytest.mark.parametrize(("name", "node"), NODES, ids=[name for name, _ in NODES])
def test_every_value_is_bounded(name: str, node: Document) -> None:
    """No string, list, map or number is without a limit: CEL's budget counts on them."""
    wanted = [sorted(bound) for bound in BOUNDS[node["type"]]]
    assert any(node.keys() >= set(bound) for bound in wanted), (
        f"{name}: its schema needs all of one of {wanted}"
    )


def test_every_field_is_described() -> None:
    """Each field says what it means; `kubectl explain` has nothing else to show."""
    silent = [
        name
        for name, node in NODES
        if not name.endswith(("[]", "{}")) and len(node.get("description", "")) < 5
    ]

    assert [] == silent


def test_every_default_is_described() -> None:
    """A field with a default says so in its description."""
    hidden = [
        name
        for name, node in NODES
        if "default" in node and "Default: " not in node["description"]
    ]

    assert [] == hidden, "their descriptions have to end with 'Default: VALUE.'"


@pytest.mark.parametrize(("name", "bounds"), RANGES.items(), ids=list(RANGES))
def test_ranges(name: str, bounds: tuple[int, int]) -> None:
    """Numbers have the ranges that their descriptions promise."""
    node = node_at(name)

    assert bounds == (node["minimum"], node["maximum"])


@pytest.mark.parametrize(
    ("name", "words"), ENUMERATIONS.items(), ids=list(ENUMERATIONS)
)
def test_enumerations_are_those_of_the_code(name: str, words: Any) -> None:
    """The schema takes exactly the words that the code knows."""
    assert {word.value for word in words} == set(node_at(name)["enum"]), (
        f"the enum of {name} in manifests/crds differs from the code"
    )


@pytest.mark.parametrize(("name", "default"), DEFAULTS.items(), ids=list(DEFAULTS))
def test_defaults(name: str, default: object) -> None:
    """What is left unsaid has the value that the documentation promises."""
    assert default == node_at(name)["default"]


def test_no_other_defaults() -> None:
    """A drain, a protection and a record's fields stay unsaid where they are unsaid."""
    found = {name for name, node in NODES if "default" in node}
    copies = (
        "Bind spec.deregisterPolicy",
        "Bind spec.deregisterWebhook.failurePolicy",
        "ensurePolicy.policy",
        "protocol",
        "drain.enabled",
        "drain.timeoutSeconds",
        "Bind spec.gate",
        "Bind spec.gateTimeoutSeconds",
    )
    rest = {name for name in found - DEFAULTS.keys() if not name.endswith(copies)}

    assert {"LoadBalancerDriver spec.auth.bearerTokenSecretRef.key"} == rest, (
        "a field with a default needs a line in DEFAULTS"
    )


@pytest.mark.parametrize(("what", "one", "other"), ALIKE, ids=[row[0] for row in ALIKE])
def test_alike_things_have_one_schema(what: str, one: str, other: str) -> None:
    """What means the same in two places takes the same values there."""
    assert what
    assert _bare(node_at(one)) == _bare(node_at(other)), (
        f"the schemas of {one} and {other} in manifests/crds differ"
    )


def _bare(node: Document) -> Document:
    """A node without its own description, which may differ."""
    return {key: value for key, value in node.items() if key != "description"}


@pytest.mark.parametrize("kind", crds())
def test_names(kind: str) -> None:
    """Kinds have LBCF's group, version and short names, and the category `lbcf`."""
    crd = crds()[kind]
    names, version = crd["spec"]["names"], crd["spec"]["versions"][0]

    assert f"{names['plural']}.lbcf.tkestack.io" == crd["metadata"]["name"]
    assert SHORT_NAMES[kind] == names.get("shortNames")
    assert ["lbcf"] == names["categories"]
    number = "v1" if kind == "Bind" else "v1beta1"
    assert (number, {"status": {}}) == (version["name"], version["subresources"])


@pytest.mark.parametrize("kind", OF_LBCF)
def test_definition_can_be_put_over_that_of_lbcf(kind: str) -> None:
    """Those of v1beta1 kept unknown fields, which v1 refuses together with defaults."""
    assert False is crds()[kind]["spec"]["preserveUnknownFields"]


@pytest.mark.parametrize("kind", OF_LBCF)
def test_conditions_are_a_map_by_type(kind: str) -> None:
    """Several writers may each apply their own condition (server-side apply)."""
    conditions = value_at(schemas()[kind], "properties.status.properties.conditions")

    assert "map" == conditions["x-kubernetes-list-type"]
    assert ["type"] == conditions["x-kubernetes-list-map-keys"]
