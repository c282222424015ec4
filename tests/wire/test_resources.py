"""Drivers, load balancers, groups: the new spelling, the old one, and what is neither."""

from datetime import timedelta
from typing import Any

import attrs
import msgspec
import pytest

from lbcf.core.model import names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.departures import Departure, Outcome
from lbcf.core.model.node_backends import (
    AddressType,
    IpFamily,
    NodeSelection,
    ServiceSelection,
)
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    BackendGroup,
    GroupStatus,
    LoadBalancer,
    LoadBalancerDriver,
    PodSelection,
    SecretKey,
    Security,
    StaticSelection,
)
from lbcf.core.model.selectors import Operator, Requirement, Selector
from lbcf.core.model.values import (
    AddressSource,
    BatchShape,
    DeregisterPolicy,
    DeregisterWebhook,
    DrainPolicy,
    FailurePolicy,
    Gate,
    Ingress,
    MemberKey,
    NamedPort,
    ObjectKey,
    Port,
    Protocol,
    ReplaceOrder,
)
from lbcf.core.reasons import ForeignReason, Reason
from lbcf.wire.errors import Malformed
from lbcf.wire.metadata import render_finalizer_added
from lbcf.wire.resources import (
    parse_driver,
    parse_group,
    parse_load_balancer,
    render_driver_status,
    render_group_status,
    render_load_balancer_status,
)
from tests.builders import ALWAYS, BY_LABEL, START, a_load_balancer, seconds


NAMED = {"name": "it", "namespace": "shop", "uid": "u", "resourceVersion": "7"}
PODS: dict[str, Any] = {
    "ports": [{"port": 8080}],
    "byLabel": {"selector": {"app": "web"}},
}


def whole(spec: object, status: object) -> bytes:
    """Write an object."""
    body = {"metadata": NAMED, "spec": spec}
    return msgspec.json.encode(body if status is None else {**body, "status": status})


def driver(status: object = None, **spec: object) -> LoadBalancerDriver:
    """Read a driver."""
    return parse_driver(whole({"url": "http://driver.test", **spec}, status))


def load_balancer(status: object = None, **spec: object) -> LoadBalancer:
    """Read a load balancer."""
    return parse_load_balancer(whole({"lbDriver": "proxy", **spec}, status))


def group(status: object = None, **spec: object) -> BackendGroup:
    """Read a group of pods at one load balancer, unless told otherwise."""
    kinds = {"pods", "static", "service", "nodes"}
    meant = spec if kinds & spec.keys() else {"pods": PODS, **spec}
    return parse_group(whole({"loadBalancers": ["front"], **meant}, status))


def pods_of(**pods: object) -> PodSelection:
    """Read which pods a group means."""
    selection = group(pods=pods).selection
    assert isinstance(selection, PodSelection)
    return selection


# --- drivers ------------------------------------------------------------------------


def test_driver_has_defaults_for_all_but_its_url() -> None:
    """They are those of LBCF's drivers: members by address, addresses from the driver."""
    found = driver(webhooks=None)

    assert (MemberKey.ADDRESS, AddressSource.DRIVER) == (
        found.member_key,
        found.address_source,
    )
    assert (seconds(10), 32, {}) == (
        found.late_effect,
        found.max_concurrent_calls,
        found.timeouts,
    )
    assert not found.accept_dry_run


def test_driver_says_all_of_it() -> None:
    """Time-outs are by operation; one without gets 10 s."""
    found = driver(
        memberKey="Record",
        addressSource="Backend",
        lateEffectSeconds=5,
        maxConcurrentCalls=8,
        acceptDryRunCall=True,
        webhooks=[{"name": "drainBackend"}, {"name": "ensureBackend", "timeout": "1m"}],
    )

    assert (MemberKey.RECORD, AddressSource.BACKEND) == (
        found.member_key,
        found.address_source,
    )
    assert (seconds(5), 8, True) == (
        found.late_effect,
        found.max_concurrent_calls,
        found.accept_dry_run,
    )
    assert seconds(60) == found.timeout(Operation.ENSURE_BACKEND)
    assert seconds(10) == found.timeout(Operation.DRAIN_BACKEND)
    assert found.batch(Operation.ENSURE_BACKEND) is None


def test_driver_says_which_calls_it_takes_together() -> None:
    """By operation; gathered for a tenth of a second where nothing is said."""
    batch = {"maxItems": 50, "maxDelayMilliseconds": 250}
    found = driver(
        maxConcurrentCalls=2,
        webhooks=[
            {"name": "ensureBackend", "batch": batch},
            {"name": "drainBackend", "batch": {"maxItems": 100}},
        ],
    )

    assert BatchShape(50, seconds(0.25)) == found.batch(Operation.ENSURE_BACKEND)
    assert BatchShape(100, seconds(0.1)) == found.batch(Operation.DRAIN_BACKEND)
    assert found.batch(Operation.DEREGISTER_BACKEND) is None
    assert (100, 200) == (found.largest_batch, found.turns_at_once)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"memberKey": "Name"}, "Name"),
        ({"addressSource": "Pod"}, "Pod"),
        ({"webhooks": [{"name": "ensureBackend", "timeout": "soon"}]}, "soon"),
        ({"url": 7}, r"spec\.url"),
    ],
)
def test_driver_that_cannot_be_understood_says_why(
    spec: dict[str, object], message: str
) -> None:
    """A word that we do not know may mean anything."""
    with pytest.raises(Malformed, match=message):
        driver(**spec)


# --- load balancers -------------------------------------------------------------------


def test_load_balancer_has_no_identity_before_it_is_created() -> None:
    """Missing and null are the same; an empty identity is one, or it is made anew."""
    assert None is load_balancer().info
    assert None is load_balancer({}).info
    assert None is load_balancer({"lbInfo": None}).info
    assert {} == load_balancer({"lbInfo": {}}).info


def test_load_balancer_says_all_of_it() -> None:
    """What the user asks for, and what the driver gave."""
    found = load_balancer(
        {"lbInfo": {"id": "7"}, "epoch": "e1", "conditions": [{"type": "Created"}]},
        lbSpec={"a": "b"},
        attributes={"c": "d"},
        scope=["other"],
        ensurePolicy={"policy": "Always"},
        drain={"timeoutSeconds": 5},
        maxConcurrentCalls=1,
    )

    assert ({"a": "b"}, {"c": "d"}, ("other",)) == (
        found.spec,
        found.attributes,
        found.scope,
    )
    assert (ALWAYS, DrainPolicy(True, seconds(5)), 1) == (
        found.ensure_policy,
        found.drain,
        found.max_concurrent_calls,
    )
    assert ({"id": "7"}, "e1") == (found.info, found.epoch)
    assert (Condition("Created", None, ForeignReason("")),) == found.conditions


def test_ingress_is_written_and_read_back() -> None:
    """By IP or by name, with ports where they are known; unsaid, what is there stays."""
    ingress = (
        Ingress("10.0.0.1", ports=(Port(80), Port(53, Protocol.UDP))),
        Ingress(hostname="front.example.com"),
    )
    front = a_load_balancer()
    body = render_load_balancer_status(front, (), ingress=ingress)

    assert ingress == load_balancer(body["status"]).ingress
    assert "ingress" not in str(render_load_balancer_status(front, ()))


def test_orphans_are_written_and_read_back() -> None:
    """In order; unsaid, what is there stays."""
    orphans = (("10.0.0.1:80", "uid-a"), ("10.0.0.1:80", "uid-b"))
    front = a_load_balancer()
    body = render_load_balancer_status(front, (), orphans=orphans)

    assert orphans == load_balancer(body["status"]).orphans
    assert "orphans" not in str(render_load_balancer_status(front, ()))


def test_load_balancer_of_lbcf_in_go_is_read() -> None:
    """It wrote null for what was not there."""
    found = load_balancer(
        {"lbInfo": None, "conditions": None},
        lbSpec=None,
        attributes=None,
        scope=None,
        ensurePolicy=None,
    )

    assert load_balancer() == found


# --- groups ---------------------------------------------------------------------------


def test_old_and_new_spelling_of_a_group_mean_the_same() -> None:
    """The words lbName, port and portNumber were once all that there was."""
    old = parse_group(
        whole(
            {
                "lbName": "front",
                "pods": {**PODS, "ports": None, "port": {"portNumber": 8080}},
            },
            None,
        )
    )

    assert group(pods=PODS) == old
    assert BY_LABEL == old.selection


def test_old_spelling_is_added_where_both_are_there() -> None:
    """And names that come twice are one."""
    found = group(
        loadBalancers=["front", "back", "front"],
        lbName="old",
        pods={**PODS, "port": {"port": 9090}},
    )

    assert ("old", "front", "back") == found.load_balancers
    assert isinstance(found.selection, PodSelection)
    assert (Port(9090), Port(8080)) == found.selection.ports


def test_port_of_pods_may_be_named() -> None:
    """A number goes first where both are given."""
    ports = [{"name": "dns", "protocol": "UDP"}, {"name": "http", "port": 80}]
    assert (NamedPort("dns", Protocol.UDP), Port(80)) == pods_of(
        ports=ports, byName=["web-1"]
    ).ports


def test_ports_that_come_twice_are_one() -> None:
    """The number alone does not make a port: its protocol belongs to it."""
    ports = [{"port": 53}, {"port": 53, "protocol": "udp"}, {"portNumber": 53}]

    assert (Port(53), Port(53, Protocol.UDP)) == pods_of(
        ports=ports, byName=["web-1"]
    ).ports


def test_pods_are_selected_by_labels_and_expressions() -> None:
    """With those left out that are named."""
    found = pods_of(
        ports=[{"port": 80}],
        byLabel={
            "selector": {"app": "web"},
            "matchExpressions": [
                {"key": "track", "operator": "NotIn", "values": ["canary"]},
                {"key": "version", "operator": "Exists"},
            ],
            "except": ["web-3"],
        },
    )

    requirements = (
        Requirement("track", Operator.NOT_IN, frozenset({"canary"})),
        Requirement("version", Operator.EXISTS),
    )
    assert Selector({"app": "web"}, requirements) == found.selector
    assert frozenset({"web-3"}) == found.excluded


def test_pods_are_selected_by_name() -> None:
    """An empty list names none; it is not the same as no list."""
    named = pods_of(ports=[{"port": 80}], byName=["web-1", "web-2"])
    none = pods_of(ports=[{"port": 80}], byName=[])

    assert (frozenset({"web-1", "web-2"}), None) == (named.names, named.selector)
    assert frozenset() == none.names


def test_static_addresses_count_once() -> None:
    """A list may say one twice."""
    assert (
        StaticSelection(("a:1", "b:1")) == group(static=["a:1", "b:1", "a:1"]).selection
    )


def test_service_is_meant_on_nodes_with_labels() -> None:
    """Without a nodeSelector it is meant on all; LBCF's old name of the port is taken."""
    some = {"name": "web", "port": {"portNumber": 80}, "nodeSelector": {"in": "yes"}}
    every = {"name": "web", "port": {"port": 80}}

    assert (
        ServiceSelection("web", Port(80), {"in": "yes"})
        == group(service=some).selection
    )
    assert ServiceSelection("web", Port(80)) == group(service=every).selection


def test_nodes_are_meant_by_labels_and_expressions() -> None:
    """With all that says under which address they are registered."""
    expression = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    nodes = {
        "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}],
        "selector": {"in": "yes"},
        "matchExpressions": [expression],
        "addressType": "ExternalIP",
        "ipFamily": "IPv6",
    }
    requirement = Requirement("zone", Operator.IN, frozenset({"a", "b"}))

    assert (
        NodeSelection(
            (Port(80), Port(53, Protocol.UDP)),
            Selector({"in": "yes"}, (requirement,)),
            AddressType.EXTERNAL_IP,
            IpFamily.IPV6,
        )
        == group(nodes=nodes).selection
    )
    assert (
        NodeSelection((Port(80),)) == group(nodes={"ports": [{"port": 80}]}).selection
    )


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="nothing is selected"),
        pytest.param({"nodes": {"ports": []}}, id="no ports"),
        pytest.param(
            {"nodes": {"ports": [{"port": 80}], "addressType": "Internal"}}, id="type"
        ),
        pytest.param(
            {"nodes": {"ports": [{"port": 80}], "ipFamily": "IPv5"}}, id="family"
        ),
        pytest.param(
            {"service": {"name": "web", "port": {}}}, id="port without number"
        ),
    ],
)
def test_group_of_nodes_that_says_too_little_is_malformed(
    spec: dict[str, object],
) -> None:
    """A newer version may mean something by it; nobody may guess."""
    with pytest.raises(Malformed):
        parse_group(whole({"loadBalancers": ["front"], **spec}, None))


def test_group_says_how_its_backends_are_treated() -> None:
    """Parameters, policies, drain, protection."""
    found = group(
        pods=PODS,
        parameters={"weight": "3"},
        deregisterPolicy="IfNotRunning",
        ensurePolicy={"policy": "Always", "minPeriod": "1m"},
        drain={"enabled": False},
        protection={
            "maxUnreadyPercent": 0,
            "maxUnavailable": 2,
            "order": "DeregisterFirst",
        },
    )

    assert {"weight": "3"} == found.parameters
    assert DeregisterPolicy.IF_NOT_RUNNING is found.deregister_policy
    assert (ALWAYS, DrainPolicy(False), 0) == (
        found.ensure_policy,
        found.drain,
        found.max_unready_percent,
    )
    assert (2, ReplaceOrder.DEREGISTER_FIRST) == (
        found.max_unavailable,
        found.replace_order,
    )


@pytest.mark.parametrize(
    ("spec", "gate", "seconds"),
    [
        ({}, Gate.REQUIRED, 600),
        ({"gate": "Optional", "gateTimeoutSeconds": 30}, Gate.OPTIONAL, 30),
        ({"gateTimeoutSeconds": 0}, Gate.REQUIRED, None),
    ],
)
def test_group_says_how_long_gates_wait_for_it(
    spec: dict[str, object], gate: Gate, seconds: int | None
) -> None:
    """Ten minutes where unsaid, for as long as it takes where 0."""
    found = group(pods=PODS, **spec)

    assert gate is found.gate
    wait = None if seconds is None else timedelta(seconds=seconds)
    assert wait == found.gate_timeout


@pytest.mark.parametrize("policy", [None, *FailurePolicy])
def test_group_says_who_judges_its_unready_pods(policy: FailurePolicy | None) -> None:
    """The driver's name, and what holds without its answer: nothing, where unsaid."""
    asked = {"driverName": "judge"} | ({"failurePolicy": policy} if policy else {})

    found = group(pods=PODS, deregisterPolicy="Webhook", deregisterWebhook=asked)

    wanted = DeregisterWebhook("judge", policy or FailurePolicy.DO_NOTHING)
    assert wanted == found.webhook
    assert ObjectKey("shop", "judge") == found.webhook_driver_key
    assert None is group(pods=PODS, deregisterWebhook=asked).webhook_driver_key


def test_group_has_defaults() -> None:
    """Those of LBCF; drain and protection are for others to say."""
    found = group(pods=PODS, protection={}, parameters=None, ensurePolicy=None)

    assert (DeregisterPolicy.IF_NOT_READY, None, None, {}) == (
        found.deregister_policy,
        found.drain,
        found.max_unready_percent,
        found.parameters,
    )
    assert (0, ReplaceOrder.REGISTER_FIRST) == (
        found.max_unavailable,
        found.replace_order,
    )
    assert group(pods=PODS) == found


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"pods": {**PODS, "ports": []}}, "neither ports nor port"),
        ({"pods": {"ports": PODS["ports"]}}, "neither byLabel nor byName"),
        ({"pods": PODS, "deregisterPolicy": "Never"}, "Never"),
        ({"pods": PODS, "protection": {"order": "Random"}}, "Random"),
        ({"pods": PODS, "deregisterPolicy": "Webhook"}, "needs spec.deregisterWebhook"),
        (
            {
                "pods": PODS,
                "deregisterPolicy": "Webhook",
                "deregisterWebhook": {"driverName": "a", "failurePolicy": "Panic"},
            },
            "Panic",
        ),
        ({"pods": PODS, "drain": {"timeoutSeconds": "5s"}}, "timeoutSeconds"),
        (
            {
                "pods": {
                    **PODS,
                    "byLabel": {"matchExpressions": [{"key": "a", "operator": "Gt"}]},
                }
            },
            "'Gt' is unknown",
        ),
    ],
)
def test_group_that_cannot_be_understood_says_why(
    spec: dict[str, object], message: str
) -> None:
    """It is held as it is, and is not taken for one that selects nothing."""
    with pytest.raises(Malformed, match=message):
        group(**spec)


# --- writing ----------------------------------------------------------------------------


def test_group_status_is_read_as_it_was_written() -> None:
    """Else it would be written again and again."""
    ready = Condition("Ready", False, ForeignReason("Because"), "why", 3, START)
    left = ("front", "web-1-80", START)
    departed = (
        Departure("web-1:80", *left, Outcome.CUT, Reason.POD_TERMINATING, 3),
        Departure("web-1:81", *left, Outcome.CUT, ForeignReason("Because")),
        Departure("web-1:82", *left, Outcome.UNKNOWN),
    )
    status = GroupStatus(4, 3, 2, 1, (ready,), departed=departed)
    body: Any = render_group_status(status)

    assert status == group(body["status"], pods=PODS).status


def test_outcome_of_a_newer_version_leaves_the_group_readable() -> None:
    """Nothing is known of it, and the rest is."""
    one = Departure("web-1:80", "front", "web-1-80", START, Outcome.DRAINED)
    body: Any = render_group_status(GroupStatus(departed=(one,)))
    body["status"]["departed"][0]["outcome"] = "Beamed"

    [read] = group(body["status"], pods=PODS).status.departed
    assert attrs.evolve(one, outcome=Outcome.UNKNOWN) == read


def test_load_balancer_status_keeps_what_is_not_given() -> None:
    """A merge patch leaves alone what it does not name."""
    front = a_load_balancer(generation=3)

    plain: Any = render_load_balancer_status(front, ())
    full: Any = render_load_balancer_status(front, (), info={"id": "7"}, epoch="e2")

    assert {"conditions": [], "observedGeneration": 3} == plain["status"]
    assert ({"id": "7"}, "e2") == (full["status"]["lbInfo"], full["status"]["epoch"])


def test_driver_status_is_its_conditions() -> None:
    """They are read as they were written, and say of which spec they are."""
    accepted = Condition("Accepted", True, Reason.ACCEPTED, "", 3, START)
    body: Any = render_driver_status((accepted,), 3)

    assert (accepted,) == driver(body["status"]).conditions
    assert 3 == body["status"]["observedGeneration"]


def test_our_finalizer_goes_beside_others() -> None:
    """The list is replaced as a whole."""
    expected = {"metadata": {"finalizers": [names.FINALIZER_LOAD_BALANCER]}}

    meta = a_load_balancer().meta
    assert expected == render_finalizer_added(meta, names.FINALIZER_LOAD_BALANCER)


def test_security_of_a_driver() -> None:
    """The bundle is read out of base64, Secrets are named, and stay in its namespace."""
    read = driver(
        tls={
            "caBundle": "cGVt",
            "serverName": "driver.test",
            "clientCertificateSecretRef": {"name": "certificate"},
        },
        auth={"bearerTokenSecretRef": {"name": "token", "key": "value"}},
    )

    expected = Security(
        b"pem", "driver.test", "certificate", SecretKey("token", "value")
    )
    assert expected == read.security
    keys = {ObjectKey("shop", "certificate"), ObjectKey("shop", "token")}
    assert keys == read.secrets
    assert "pem" not in repr(read)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, Security()),
        ({"tls": {}, "auth": {}}, Security()),
        (
            {"auth": {"bearerTokenSecretRef": {"name": "t"}}},
            Security(token=SecretKey("t", "token")),
        ),
    ],
)
def test_security_that_is_left_out(spec: dict[str, Any], expected: Security) -> None:
    """Nothing said is nothing needed; a token's key has a default."""
    assert expected == driver(**spec).security


def test_a_bundle_that_is_no_base64() -> None:
    """It cannot be read, and nobody calls without it."""
    with pytest.raises(Malformed, match="caBundle"):
        driver(tls={"caBundle": "%"})
