"""Services and LoadBalancerClasses in JSON, and what Services are derived into."""

from typing import Any

import attrs
import msgspec
import pytest

from lbcf.core.model import names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.nodes import NodePortService
from lbcf.core.model.services import (
    DerivedPort,
    ExposedPort,
    GivenAddress,
    derive,
)
from lbcf.core.model.values import DrainPolicy, Ingress, Port, Uid
from lbcf.core.reasons import ForeignReason
from lbcf.wire.errors import Malformed
from lbcf.wire.kube import parse_service
from lbcf.wire.resources import parse_group, parse_load_balancer
from lbcf.wire.services import (
    parse_class,
    render_derived,
    render_given,
    render_let_go,
    render_rederived,
    render_service_status,
    render_taken_up,
)
from tests.builders import a_key, a_meta, seconds
from tests.core.test_services import EDGE, EXPOSURE, META, derived, on_nodes


METADATA = {
    "name": "web",
    "namespace": "shop",
    "uid": "uid-web",
    "resourceVersion": "1",
}


def service(
    metadata: dict[str, Any] | None = None, **fields: object
) -> NodePortService:
    """Read a Service of type LoadBalancer."""
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}], **fields}
    status = spec.pop("status", {})
    whole = {
        "metadata": {**METADATA, **(metadata or {})},
        "spec": spec,
        "status": status,
    }
    return parse_service(msgspec.json.encode(whole))


def test_service_says_how_it_is_to_be_balanced() -> None:
    """Only what is not the usual is an option."""
    ports = [
        {"port": 80, "name": "http", "targetPort": "web", "nodePort": 30080},
        {"port": 5060, "protocol": "SCTP", "targetPort": 5061},
    ]
    found = service(
        ports=ports,
        loadBalancerClass="lbcf.tkestack.io/edge",
        selector={"app": "web"},
        publishNotReadyAddresses=True,
        sessionAffinity="None",
        externalTrafficPolicy="Cluster",
        ipFamilies=["IPv4"],
    ).exposure

    assert found is not None
    assert (True, "lbcf.tkestack.io/edge", True) == (
        found.is_balanced,
        found.class_name,
        found.takes_unready,
    )
    assert found.ports == (
        ExposedPort(80, "TCP", "web", "http", 30080),
        ExposedPort(5060, "SCTP", 5061),
    )
    assert {} == found.options


def test_options_are_what_a_service_asks_for_beyond() -> None:
    """Spelt as attributes are: texts, lists with commas."""
    found = service(
        sessionAffinity="ClientIP",
        sessionAffinityConfig={"clientIP": {"timeoutSeconds": 60}},
        externalTrafficPolicy="Local",
        healthCheckNodePort=31000,
        loadBalancerSourceRanges=["10.0.0.0/8", "192.0.2.0/24"],
        loadBalancerIP="192.0.2.1",
        ipFamilies=["IPv6", "IPv4"],
    ).exposure

    assert found is not None
    assert found.options == {
        "sessionAffinity": "ClientIP",
        "sessionAffinityTimeoutSeconds": "60",
        "externalTrafficPolicy": "Local",
        "healthCheckNodePort": "31000",
        "loadBalancerSourceRanges": "10.0.0.0/8,192.0.2.0/24",
        "loadBalancerIP": "192.0.2.1",
        "ipFamilies": "IPv6,IPv4",
    }


def test_service_of_another_type_is_read_no_further() -> None:
    """Unless it bears our mark: then there may be something to clean up."""
    marked = {"annotations": {names.ANNOTATION_CLASS: "edge"}}

    assert None is service(type="NodePort").exposure
    found = service(marked, type="NodePort").exposure
    assert found is not None
    assert not found.is_balanced


def test_status_is_written_and_read_back() -> None:
    """Conditions of others stay; an address that is taken away is taken away."""
    other = Condition("Other", True, ForeignReason("Fine"), "words", 3)
    ingress = (
        Ingress("192.0.2.1", ports=(Port(80),), ip_mode="Proxy"),
        Ingress(hostname="a.example.com"),
    )
    body: dict[str, Any] = render_service_status(ingress, [other])
    found = service(status=body["status"]).exposure

    assert found is not None
    assert (ingress, (other,)) == (found.ingress, found.conditions)
    none = render_service_status((), [])
    assert {"status": {"conditions": [], "loadBalancer": {"ingress": None}}} == none
    assert {"status": {"conditions": []}} == render_service_status(None, [])


def test_mark_and_finalizer_come_and_go_together() -> None:
    """Other people's finalizers stay where they are."""
    ours = names.FINALIZER_SERVICE
    meta = a_meta("web", finalizers=("example.com/mine",))
    taken: dict[str, Any] = render_taken_up(meta, "edge")
    left = render_let_go(a_meta("web", finalizers=("example.com/mine", ours)))[
        "metadata"
    ]

    assert {
        "finalizers": ["example.com/mine", ours],
        "annotations": {names.ANNOTATION_CLASS: "edge"},
    } == taken["metadata"]
    assert {
        "finalizers": ["example.com/mine"],
        "annotations": {names.ANNOTATION_CLASS: None},
    } == left


def test_class_is_read() -> None:
    """All that it says; what is unsaid has its default."""
    spec = {
        "driver": "proxy",
        "lbSpec": {"id": "7"},
        "attributes": {"a": "b"},
        "parameters": {"c": "d"},
        "ingress": [{"ip": "192.0.2.1"}],
        "ipMode": "VIP",
        "default": True,
        "ignoredOptions": ["sessionAffinity"],
        "drain": {"timeoutSeconds": 5},
        "addresses": ["192.0.2.0/28"],
    }
    metadata = {**METADATA, "namespace": ""}
    found, bare = (
        parse_class(msgspec.json.encode({"metadata": metadata, "spec": one}))
        for one in (spec, {"driver": "proxy"})
    )

    assert ({"id": "7"}, {"a": "b"}, {"c": "d"}) == (
        found.spec,
        found.attributes,
        found.parameters,
    )
    assert ((Ingress("192.0.2.1"),), "VIP", True) == (
        found.ingress,
        found.ip_mode,
        found.is_default,
    )
    assert (frozenset({"sessionAffinity"}), DrainPolicy(True, seconds(5))) == (
        found.ignored,
        found.drain,
    )
    assert (("192.0.2.0/28",), ()) == (found.addresses, bare.addresses)
    assert ("Proxy", False, None) == (bare.ip_mode, bare.is_default, bare.drain)
    with pytest.raises(Malformed):
        parse_class(msgspec.json.encode({"metadata": metadata, "spec": {}}))


def test_record_of_addresses_is_written_and_read_back() -> None:
    """It says all that decides; what is not so is left out."""
    given = (
        GivenAddress("192.0.2.1", a_key("web"), Uid("u-1")),
        GivenAddress("192.0.2.2", a_key("api"), Uid("u-2"), "shop/front", True),
    )
    body: dict[str, Any] = render_given(given)
    metadata = {**METADATA, "namespace": ""}
    whole = {"metadata": metadata, "spec": {"driver": "proxy"}, **body}

    assert given == parse_class(msgspec.json.encode(whole)).given
    assert {"address", "namespace", "service", "uid"} == set(
        body["status"]["addresses"][0]
    )


def test_new_load_balancer_has_no_address_yet() -> None:
    """It gets it by a later write, into what is there (lbcf.core.lifecycle.addresses)."""
    kind = attrs.evolve(
        EDGE, addresses=("192.0.2.0/28",), attributes={"address": "{address}"}
    )
    [found, *_] = derive(META, EXPOSURE, kind, "192.0.2.1")
    assert isinstance(found, DerivedPort)
    body = _stored(render_derived(found.balancer, META))
    stored = parse_load_balancer(body)
    patch: dict[str, Any] = render_rederived(stored, found.balancer)

    assert ("edge", "") == (stored.pool, stored.address)
    assert "192.0.2.1" == patch["spec"]["address"]
    assert "192.0.2.1" == found.balancer.attributes["address"]


def _stored(body: dict[str, Any]) -> bytes:
    meta = {"namespace": "shop", "uid": "", "resourceVersion": ""}
    return msgspec.json.encode({**body, "metadata": {**meta, **body["metadata"]}})


@pytest.mark.parametrize(
    "port",
    [
        *derived(),
        *derived(on_nodes(), attrs.evolve(EXPOSURE, ports=EXPOSURE.ports[:1])),
    ],
    ids=["pods", "named", "nodes"],
)
def test_derived_objects_are_read_as_they_were_meant(port: DerivedPort) -> None:
    """What comes back differs in nothing: no turn finds anything to change."""
    balancer: dict[str, Any] = render_derived(port.balancer, META)
    group = render_derived(port.group, META)

    assert port.balancer == parse_load_balancer(_stored(balancer))
    assert port.group == parse_group(_stored(group))
    [owner] = balancer["metadata"]["ownerReferences"]
    assert ("v1", "Service", "web", "uid-web", True, True) == tuple(owner.values())


def test_changes_take_out_what_is_not_said_any_more() -> None:
    """A merge patch keeps what it does not name."""
    [before, _] = derived()
    kind = attrs.evolve(EDGE, attributes={}, parameters={}, drain=None)
    exposure = attrs.evolve(EXPOSURE, options={}, selector={"tier": "front"})
    [after, _] = (one for one in derive(META, exposure, kind))
    assert isinstance(after, DerivedPort)

    gone = {"attributes": None, "drain": None, "address": None}
    assert {"spec": gone} == render_rederived(before.balancer, after.balancer)
    patch: dict[str, Any] = render_rederived(before.group, after.group)
    spec = patch["spec"]
    assert {"app": None, "tier": "front"} == spec["pods"]["byLabel"]["selector"]
    assert None is spec["parameters"]
