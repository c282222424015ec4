"""Services: what they are derived into, what is to be done, and what is said of it."""

from typing import Any

import attrs
import pytest

from lbcf.core.lifecycle.services import (
    Change,
    Derived,
    plan_service,
    reached_at,
    ready_condition,
)
from lbcf.core.model import conditions, names
from lbcf.core.model.conditions import Condition
from lbcf.core.model.node_backends import ServiceSelection
from lbcf.core.model.resources import LoadBalancer, Meta, PodSelection
from lbcf.core.model.selectors import Selector
from lbcf.core.model.services import (
    DerivedPort,
    ExposedPort,
    Exposure,
    LoadBalancerClass,
    class_of,
    derive,
    is_held,
)
from lbcf.core.model.values import (
    DeregisterPolicy,
    DrainPolicy,
    Ingress,
    NamedPort,
    Port,
    Protocol,
    Uid,
)
from lbcf.core.reasons import Explanation, Reason
from tests.builders import a_key, a_load_balancer, a_meta, seconds


META = a_meta("web")
HTTP = ExposedPort(80, "TCP", 8080, "http", 30080)
DNS = ExposedPort(80, "UDP", "dns", "dns")
EXPOSURE = Exposure(
    is_balanced=True,
    class_name="lbcf.tkestack.io/edge",
    selector={"app": "web"},
    ports=(HTTP, DNS),
    options={"sessionAffinity": "ClientIP", "healthCheckNodePort": "31000"},
)
EDGE = LoadBalancerClass(
    a_meta("edge", namespace=""),
    "proxy",
    spec={"id": "{namespace}/{service}:{port}/{protocol}", "raw": "{what}"},
    attributes={"name": "{portName}-{uid}"},
    parameters={"to": "{targetPort}"},
    ingress=(Ingress("192.0.2.1"),),
    drain=DrainPolicy(True, seconds(5)),
)
WHY = Explanation(Reason.SELECTOR_MISSING, "no pods")


def on_nodes(**annotations: str) -> Meta:
    """Say that the node ports are meant."""
    return a_meta(
        "web", annotations={names.ANNOTATION_BACKENDS: "nodes", **annotations}
    )


def derived(
    meta: Meta = META, exposure: Exposure = EXPOSURE, kind: LoadBalancerClass = EDGE
) -> list[DerivedPort]:
    """Derive ports that all can be balanced."""
    found = list(derive(meta, exposure, kind))
    assert all(isinstance(one, DerivedPort) for one in found)
    return [one for one in found if isinstance(one, DerivedPort)]


def stored(one: LoadBalancer, **fields: Any) -> LoadBalancer:
    """Store a derived load balancer: created, and with its attributes."""
    said = tuple(
        Condition(kind, True, Reason.CREATED, observed_generation=1)
        for kind in (conditions.CREATED, conditions.ATTRIBUTES_SYNCED)
    )
    meta = attrs.evolve(one.meta, uid=Uid("u"), resource_version="7", generation=1)
    found = attrs.evolve(one, meta=meta, info={"id": "7"}, conditions=said)
    return attrs.evolve(found, **fields)


# --- classes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exposure", "default", "found"),
    [
        (EXPOSURE, "", "edge"),
        (EXPOSURE, "other", "edge"),
        (attrs.evolve(EXPOSURE, class_name="example.com/edge"), "other", ""),
        (attrs.evolve(EXPOSURE, class_name="edge"), "other", ""),
        (attrs.evolve(EXPOSURE, class_name=""), "", ""),
        (attrs.evolve(EXPOSURE, class_name=""), "other", "other"),
        (attrs.evolve(EXPOSURE, is_balanced=False), "other", ""),
    ],
)
def test_class_is_ours_by_its_prefix_or_by_default(
    exposure: Exposure, default: str, found: str
) -> None:
    """Other controllers' classes, and Services of other types, are none of our business."""
    assert found == class_of(META, exposure, default)


def test_service_keeps_the_default_that_it_got() -> None:
    """Another default, or none, is for Services that come; who is deleted has no class."""
    exposure = attrs.evolve(EXPOSURE, class_name="")
    marked = a_meta("web", annotations={names.ANNOTATION_CLASS: "first"})
    ending = a_meta("web", annotations=marked.annotations, deleting=True)

    assert "first" == class_of(marked, exposure, "second")
    assert "first" == class_of(marked, exposure, "")
    assert "" == class_of(ending, exposure, "second")


def test_service_is_held_by_mark_and_finalizer() -> None:
    """The finalizer alone may be a cloud provider's."""
    mark = {names.ANNOTATION_CLASS: "edge"}
    finalizer = (names.FINALIZER_SERVICE,)

    assert is_held(a_meta("web", annotations=mark, finalizers=finalizer))
    assert not is_held(a_meta("web", annotations=mark))
    assert not is_held(a_meta("web", finalizers=finalizer))


# --- derivation -----------------------------------------------------------------------


def test_each_port_is_a_load_balancer_and_a_group() -> None:
    """One port with two protocols is two; names of ports are left to each pod."""
    http, dns = derived()

    assert ("svc-web-80-tcp", "svc-web-80-udp") == (
        http.balancer.meta.key.name,
        dns.balancer.meta.key.name,
    )
    assert http.balancer.meta.key == http.group.meta.key
    assert ("svc-web-80-tcp",) == http.group.load_balancers
    assert PodSelection((Port(8080),), Selector({"app": "web"})) == http.group.selection
    assert isinstance(dns.group.selection, PodSelection)
    assert (NamedPort("dns", Protocol.UDP),) == dns.group.selection.ports
    assert {
        "lbcf.tkestack.io/service": "web",
        "lbcf.tkestack.io/service-uid": "uid-web",
    } == (http.balancer.meta.labels)
    assert ("proxy", DrainPolicy(True, seconds(5))) == (
        http.balancer.driver,
        http.balancer.drain,
    )


def test_placeholders_stand_for_the_service_and_its_port() -> None:
    """In all maps of a class; what is none stays as it is."""
    http, dns = derived()

    assert {"id": "shop/web:80/TCP", "raw": "{what}"} == http.balancer.spec
    assert "http-uid-web" == http.balancer.attributes["name"]
    assert {"to": "dns"} == dns.group.parameters


def test_options_are_attributes_unless_the_class_ignores_them() -> None:
    """What says something of nodes is told only where nodes are the backends."""
    [http, _] = derived()
    assert "ClientIP" == http.balancer.attributes["sessionAffinity"]
    assert "healthCheckNodePort" not in http.balancer.attributes
    only_http = attrs.evolve(EXPOSURE, ports=(HTTP,))
    [node] = derived(on_nodes(), only_http)
    assert "31000" == node.balancer.attributes["healthCheckNodePort"]
    silent = attrs.evolve(EDGE, ignored=frozenset({"sessionAffinity"}))
    [http, _] = derived(kind=silent)
    assert "sessionAffinity" not in http.balancer.attributes


def test_unready_pods_serve_where_the_service_publishes_them() -> None:
    """As publishNotReadyAddresses has it for the Service's own endpoints."""
    unready = attrs.evolve(EXPOSURE, takes_unready=True)

    assert {DeregisterPolicy.IF_NOT_READY} == {
        one.group.deregister_policy for one in derived()
    }
    assert {DeregisterPolicy.IF_TERMINATING} == {
        one.group.deregister_policy for one in derived(exposure=unready)
    }


def test_node_ports_by_annotation() -> None:
    """A Service without a selector has node ports, too."""
    exposure = attrs.evolve(EXPOSURE, ports=(HTTP,), selector={})
    [http] = derived(on_nodes(), exposure)

    assert ServiceSelection("web", Port(80)) == http.group.selection


@pytest.mark.parametrize(
    ("meta", "exposure", "reason"),
    [
        (META, attrs.evolve(EXPOSURE, selector={}), Reason.SELECTOR_MISSING),
        (META, attrs.evolve(EXPOSURE, ports=(ExposedPort(9, "SCTP", 9),)), Reason.PROTOCOL_NOT_SERVED),
        (on_nodes(), attrs.evolve(EXPOSURE, ports=(DNS,)), Reason.NODE_PORT_MISSING),
    ],
)  # fmt: skip
def test_port_that_cannot_be_balanced_is_told(
    meta: Meta, exposure: Exposure, reason: Reason
) -> None:
    """Each for itself: the others are derived."""
    found = list(derive(meta, exposure, EDGE))

    assert {reason} == {one.reason for one in found if isinstance(one, Explanation)}


def test_name_of_a_service_makes_no_shared_load_balancer() -> None:
    """Whatever begins with lbcf- is looked for in kube-system."""
    [http, _] = derived(a_meta("lbcf-front"))

    assert a_key("svc-lbcf-front-80-tcp") == http.balancer.meta.key
    assert http.balancer.meta.key == http.group.load_balancer_key(
        http.group.load_balancers[0]
    )


def test_service_with_no_address_of_a_pool() -> None:
    """Its load balancer names no pool, and the placeholder stays as it is."""
    told = {"at": "{address}"}
    [plain] = derived(
        exposure=attrs.evolve(EXPOSURE, ports=(HTTP,)),
        kind=attrs.evolve(EDGE, attributes=told),
    )

    assert "{address}" == plain.balancer.attributes["at"]
    assert "" == plain.balancer.pool
    assert ("", "") == (plain.balancer.meta.uid, plain.balancer.meta.resource_version)


def test_protocol_of_a_port_is_that_of_its_backends() -> None:
    """At pods and at nodes."""
    numbered = ExposedPort(53, "UDP", 5353, node_port=30053)
    exposure = attrs.evolve(EXPOSURE, ports=(numbered,))
    [at_pods] = derived(exposure=exposure)
    [at_nodes] = derived(on_nodes(), exposure)

    assert isinstance(at_pods.group.selection, PodSelection)
    assert (Port(5353, Protocol.UDP),) == at_pods.group.selection.ports
    assert ServiceSelection("web", Port(53, Protocol.UDP)) == at_nodes.group.selection


# --- the plan -------------------------------------------------------------------------


def owned(*ports: DerivedPort) -> list[Derived]:
    """What is there once ports have been made."""
    return [one for p in ports for one in (stored(p.balancer), p.group)]


def test_new_ports_are_made_and_old_ones_go() -> None:
    """What is as it should be is left alone."""
    http, dns = derived()

    first = plan_service(META, [http, WHY], [], ())
    assert ((http.balancer, http.group), (WHY,)) == (first.create, first.troubles)
    done = plan_service(META, [http], owned(http), ())
    assert ((), (), ()) == (done.create, done.update, done.delete)
    moved = plan_service(META, [dns], owned(http), ())
    assert (dns.balancer, dns.group) == moved.create
    assert tuple(owned(http)) == moved.delete


def test_all_ports_are_made_at_once() -> None:
    """Each with both of its objects."""
    http, dns = derived()

    plan = plan_service(META, [http, dns], [], ())

    assert (http.balancer, http.group, dns.balancer, dns.group) == plan.create


@pytest.mark.parametrize(
    ("before", "replaced"), [("", False), ("192.0.2.7", False), ("192.0.2.8", True)]
)
def test_load_balancer_keeps_the_address_that_it_has(
    before: str, *, replaced: bool
) -> None:
    """One that has none yet is given it; with another one it is another load balancer."""
    [http] = derived(exposure=attrs.evolve(EXPOSURE, ports=(HTTP,)))
    wanted = attrs.evolve(
        http, balancer=attrs.evolve(http.balancer, address="192.0.2.7")
    )
    there: list[Derived] = [stored(http.balancer, address=before), http.group]

    assert replaced is bool(plan_service(META, [wanted], there, ()).delete)


def test_changes_are_written_where_that_is_possible() -> None:
    """Another lbSpec, or another sort of backends, is another object."""
    only_http = attrs.evolve(EXPOSURE, ports=(HTTP,))
    [http] = derived(exposure=only_http)
    other = attrs.evolve(only_http, options={}, selector={"app": "new"})
    [changed] = derived(exposure=other)
    there = owned(http)

    plan = plan_service(META, [changed], there, ())
    assert (Change(there[0], changed.balancer), Change(there[1], changed.group)) == (
        plan.update
    )
    [elsewhere] = derived(
        exposure=only_http, kind=attrs.evolve(EDGE, spec={"id": "other"})
    )
    plan = plan_service(META, [elsewhere], there, ())
    assert ((), (), (there[0],)) == (plan.create, plan.update, plan.delete)
    [node] = derived(on_nodes(), only_http)
    plan = plan_service(META, [node], there, ())
    assert there[1] in plan.delete


def test_what_is_being_deleted_is_waited_for() -> None:
    """Its name is taken until it is gone; it is not deleted again."""
    [http] = derived(exposure=attrs.evolve(EXPOSURE, ports=(HTTP,)))
    balancer = stored(http.balancer)
    leaving = attrs.evolve(balancer, meta=a_meta("svc-web-80-tcp", deleting=True))
    meta = attrs.evolve(leaving.meta, labels=balancer.meta.labels)
    leaving = attrs.evolve(leaving, meta=meta)

    plan = plan_service(META, [http], [leaving, http.group], ())
    assert ((), (), ()) == (plan.create, plan.update, plan.delete)
    assert [Reason.LOAD_BALANCER_DELETING] == [one.reason for one in plan.troubles]
    assert "LoadBalancer svc-web-80-tcp is being" in plan.troubles[0].message


def test_what_a_namesake_left_goes_first() -> None:
    """A Service that was deleted and made anew takes nothing over."""
    [http] = derived(exposure=attrs.evolve(EXPOSURE, ports=(HTTP,)))
    anew = a_meta("web", uid="another")
    there = owned(http)

    plan = plan_service(anew, [http], there, ())
    assert ((), (), tuple(there)) == (plan.create, plan.update, plan.delete)


def test_strangers_names_are_left_to_them() -> None:
    """It is told, and nothing of theirs is changed."""
    [http] = derived(exposure=attrs.evolve(EXPOSURE, ports=(HTTP,)))

    plan = plan_service(META, [http], [], {"svc-web-80-tcp"})
    assert ((), ()) == (plan.create, plan.delete)
    assert [Reason.NAME_TAKEN] == [one.reason for one in plan.troubles]


# --- what is said ---------------------------------------------------------------------


def said(
    *found: LoadBalancer,
    troubles: tuple[Explanation, ...] = (),
    kind: LoadBalancerClass = EDGE,
) -> tuple[tuple[Ingress, ...], Condition]:
    """Where the Service is reached, and its condition."""
    ports = derived()
    there = {one.meta.key.name: one for one in found}
    ingress = reached_at(ports, there, kind)
    return ingress, ready_condition(troubles, ports, there, ingress)


def test_ready_once_all_ports_are_served() -> None:
    """At each address once; the class speaks for drivers that say nothing."""
    http, dns = derived()
    here = (Ingress("192.0.2.9", ports=(Port(80),)), Ingress(hostname="a.example.com"))
    there = (Ingress("192.0.2.9", ports=(Port(80, Protocol.UDP),)),)
    ingress, condition = said(
        stored(http.balancer, ingress=here), stored(dns.balancer, ingress=there)
    )
    both = (Port(80), Port(80, Protocol.UDP))
    assert (
        Ingress("192.0.2.9", ports=both, ip_mode="Proxy"),
        Ingress(hostname="a.example.com"),
    ) == ingress
    assert (True, Reason.READY, "reached at 192.0.2.9, a.example.com") == (
        condition.status,
        condition.reason,
        condition.message,
    )
    ingress, _ = said(stored(http.balancer), stored(dns.balancer))
    assert (Ingress("192.0.2.1", ip_mode="Proxy"),) == ingress


def test_first_trouble_is_the_reason_and_all_are_told() -> None:
    """With its port, and the load balancer's own words."""
    http, dns = derived()
    refused = Condition(
        conditions.ATTRIBUTES_SYNCED, False, Reason.DRIVER_REFUSED, "no ranges", 1
    )
    created = stored(http.balancer).conditions[0]
    failing = stored(http.balancer, conditions=(created, refused))
    new = attrs.evolve(dns.balancer, info=None)

    ingress, condition = said(failing, new)
    assert (Ingress("192.0.2.1", ip_mode="Proxy"),) == ingress
    assert (False, Reason.DRIVER_REFUSED) == (condition.status, condition.reason)
    assert condition.message == (
        "port 80/TCP, LoadBalancer svc-web-80-tcp: no ranges; "
        "port 80/UDP: LoadBalancer svc-web-80-udp has not been looked at yet"
    )
    _, condition = said(troubles=(WHY,))
    assert Reason.SELECTOR_MISSING == condition.reason


def test_attributes_of_before_say_nothing_of_those_now() -> None:
    """A condition of an older spec is waited out."""
    http, dns = derived()
    balancer = stored(http.balancer)
    newer = attrs.evolve(balancer, meta=attrs.evolve(balancer.meta, generation=2))
    _, condition = said(newer, stored(dns.balancer))

    assert (False, Reason.CREATING) == (condition.status, condition.reason)


def test_nobody_knowing_the_address_is_told() -> None:
    """Neither the driver nor the class says it."""
    http, dns = derived()
    silent = attrs.evolve(EDGE, ingress=())
    ingress, condition = said(stored(http.balancer), stored(dns.balancer), kind=silent)

    assert () == ingress
    assert (False, Reason.INGRESS_UNKNOWN) == (condition.status, condition.reason)
    assert "LoadBalancerClass" in condition.message


def test_load_balancer_that_leaves_is_no_address() -> None:
    """Nor one that its driver has not made."""
    http, _ = derived()
    gone = attrs.evolve(
        stored(http.balancer), meta=a_meta("svc-web-80-tcp", deleting=True)
    )
    ingress, _ = said(gone, a_load_balancer("other"))

    assert () == ingress


def test_load_balancer_stays_created_when_its_spec_changes() -> None:
    """That it was created of an older generation is no trouble; its attributes tell."""
    http, dns = derived()
    created, synced = stored(http.balancer).conditions
    balancer = stored(
        http.balancer, conditions=(created, attrs.evolve(synced, observed_generation=2))
    )
    newer = attrs.evolve(balancer, meta=attrs.evolve(balancer.meta, generation=2))
    _, condition = said(newer, stored(dns.balancer))
    _, unmade = said(attrs.evolve(newer, info=None), stored(dns.balancer))

    assert (True, Reason.READY) == (condition.status, condition.reason)
    assert (False, Reason.CREATING) == (unmade.status, unmade.reason)


def test_address_from_a_pool_goes_before_that_of_the_class() -> None:
    """Of each load balancer that is there, whichever it is."""
    _, dns = derived()
    ingress, _ = said(stored(dns.balancer, address="192.0.2.7"))

    assert (Ingress("192.0.2.7", ip_mode="Proxy"),) == ingress
