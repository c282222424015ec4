"""Each oracle is content with a good scene, and says what is wrong with a bad one."""

import copy

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tests.lab.specs.chains import DRAIN
from tests.lab.specs.meaning import Member, Scene, wants
from tests.lab.specs.oracle import complaints, health
from tests.lab.specs.pictures import differences, picture


URL = "http://127.0.0.1:1234"


def an_object(spec: dict[str, Any], *conditions: str, **status: Any) -> dict[str, Any]:
    """An object that is told of in full."""
    told = [
        {"type": name, "status": "True", "reason": name, "observedGeneration": 2}
        for name in conditions
    ]
    return {
        "metadata": {"generation": 2, "uid": "u"},
        "spec": spec,
        "status": {"observedGeneration": 2, "conditions": told, **status},
    }


def a_record() -> dict[str, Any]:
    """The record of the pod p1."""
    spec = {"lbName": "front", "lbDriver": "mem", "backendAddr": "10.0.0.1:80"}
    spec |= {"backendHost": "10.0.0.1"}
    pod = {"name": "p1", "port": {"port": 80}, "uid": "of the pod"}
    made = an_object({**spec, "podBackend": pod}, "Registered")
    made["metadata"] |= {
        "uid": "r1",
        "ownerReferences": [{"kind": "BackendGroup", "name": "web"}],
    }
    return made


def a_scene() -> Scene:
    """A group of one pod, registered."""
    group = {
        "loadBalancers": ["front"],
        "pods": {"ports": [{"port": 80}], "byLabel": {"selector": {"app": "web"}}},
        "deregisterPolicy": "IfNotReady",
    }
    lists = [{"name": "listBackends"}]
    driver = {"url": URL, "memberKey": "Record", "webhooks": lists}
    return Scene(
        {
            "LoadBalancerDriver/mem": an_object(driver, "Accepted"),
            "LoadBalancer/front": an_object({"lbDriver": "mem"}, "Created", "AttributesSynced"),
            "BackendGroup/web": {
                **an_object(group, "Ready", registeredBackends=1),
                "kind": "BackendGroup",
            },
            "BackendRecord/r1": a_record(),
        },
        {"p1": {"metadata": {"labels": {"app": "web"}}}},
        [Member("r1", "10.0.0.1:80", {})],
        {URL: "@url Record@", "of-ns": "@ns@"},
    )  # fmt: skip


Change = Callable[[dict[str, Any]], None]


def changed(target: str, change: Change) -> Scene:
    """The good scene with one object changed."""
    scene = a_scene()
    objects: dict[str, Any] = copy.deepcopy(dict(scene.objects))
    change(objects[target])
    return attrs.evolve(scene, objects=objects)


def spec(**fields: Any) -> Change:
    """Change fields of a spec."""
    return lambda body: body["spec"].update(fields)


def status(**fields: Any) -> Change:
    """Change fields of a status."""
    return lambda body: body["status"].update(fields)


def condition(number: int, **fields: Any) -> Change:
    """Change a condition."""
    return lambda body: body["status"]["conditions"][number].update(fields)


def meta(**fields: Any) -> Change:
    """Change metadata."""
    return lambda body: body["metadata"].update(fields)


def in_service(status: str) -> Change:
    """Say whether a record's member is in service."""
    said = {"type": "InService", "status": status}
    return lambda body: body["status"]["conditions"].append(said)


def being_created(body: dict[str, Any]) -> None:
    """Let it have an address of its class, and its driver be asked for it just now."""
    body["spec"]["addressPool"] = "pool"
    body["status"]["conditions"][0] |= {"status": "Unknown", "reason": "Creating"}


def test_good_scene_is_not_complained_of() -> None:
    """And it is the same as itself."""
    assert [] == complaints(a_scene())
    assert [] == differences(picture(a_scene()), picture(a_scene()))


WEB, FRONT, MEM, RECORD = (
    "BackendGroup/web",
    "LoadBalancer/front",
    "LoadBalancerDriver/mem",
    "BackendRecord/r1",
)


@pytest.mark.parametrize(
    ("target", "change", "told"),
    [
        (WEB, status(observedGeneration=1), "has a status of generation 1"),
        (FRONT, condition(0, observedGeneration=1), "no Created of generation 2"),
        (FRONT, condition(1, status="False"), "front is not created"),
        (FRONT, being_created, "front is being created"),
        (FRONT, spec(attributes={"refuse": "x"}), "its driver refuses"),
        (FRONT, spec(lbSpec={"address": "80"}), "fine with what its driver refuses"),
        (
            FRONT,
            spec(attributes={"address": "10.0.0.1,a b"}),
            "what its driver refuses",
        ),
        (MEM, condition(0, observedGeneration=1), "no Accepted of generation 2"),
        (WEB, status(registeredBackends=0), "tells of 0 registered backends"),
        (WEB, condition(0, status="False"), "should be Ready"),
        (WEB, spec(parameters={"weight": "2"}), "lacks"),
        (WEB, meta(annotations={DRAIN: "by hand"}), "which it should not"),
        (WEB, meta(annotations={DRAIN: "again"}), "should be DrainedByHand"),
        (WEB, meta(deletionTimestamp="now"), "is being deleted, and still there"),
        (RECORD, condition(0, status="False"), "is not registered"),
        (RECORD, meta(generation=3), "registered for generation 2 only"),
        (RECORD, spec(parameters={"weight": "2"}), "its load balancer has"),
        (RECORD, in_service("Unknown"), "InService is not known"),
        (MEM, spec(webhooks=[{"name": "drainBackend"}]), "InService is not Unknown"),
    ],
)
def test_what_is_not_consistent_is_told(target: str, change: Change, told: str) -> None:
    """Specs, statuses, records and members are held against each other."""
    found = complaints(changed(target, change))

    assert any(told in line for line in found), found


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ([], "its load balancer has None"),
        ([Member("r1", "10.0.0.9:80", {})], "its load balancer has"),
        ([Member("r1", "10.0.0.1:80", {}, is_active=False)], "its load balancer has"),
        ([Member("r1", "10.0.0.1:80", {}), Member("r2", "x", {})], "has no record"),
    ],
)
def test_members_are_held_against_records(members: list[Member], told: str) -> None:
    """Lost, elsewhere, drained, nobody's."""
    found = complaints(attrs.evolve(a_scene(), members=members))

    assert any(told in line for line in found), found


def test_service_that_became_nothing_is_told() -> None:
    """The class can be used, so that there are to be a load balancer and a group."""
    scene = a_scene()
    port = {"port": 80, "protocol": "TCP"}
    service: dict[str, Any] = {
        "type": "LoadBalancer",
        "loadBalancerClass": "x",
        "ports": [port],
    }
    service |= {"selector": {"app": "web"}}
    new: dict[str, Any] = {
        "Service/svc": {"metadata": {}, "spec": service},
        "LoadBalancerClass/x": {"metadata": {}, "spec": {"driver": "mem"}},
    }
    found = complaints(attrs.evolve(scene, objects={**scene.objects, **new}))

    assert any("should be ['svc-svc-80-tcp']" in line for line in found), found
    new["Service/svc"]["status"] = {
        "conditions": [{"type": "LoadBalancerReady", "reason": "Creating"}]
    }
    found = complaints(attrs.evolve(scene, objects={**scene.objects, **new}))
    assert any("says Creating" in line for line in found), found


def of_a_class(kind: dict[str, Any], **derived: Any) -> list[str]:
    """What is said of a load balancer that was derived, where its class is as it is."""
    port = {"port": 80, "protocol": "TCP"}
    service = {"type": "LoadBalancer", "ports": [port], "selector": {"app": "web"}}
    new: dict[str, Any] = {
        "Service/svc": {"metadata": {}, "spec": {**service, "loadBalancerClass": "x"}},
        "LoadBalancerClass/x": {"metadata": {}, "spec": {"driver": "mem", **kind}},
    }
    scene = changed("LoadBalancer/front", lambda body: body["spec"].update(derived))
    found = complaints(attrs.evolve(scene, objects={**scene.objects, **new}))
    return [line for line in found if "by now" in line]


@pytest.mark.parametrize("field", ["attributes", "drain", "parameters"])
def test_derived_objects_are_as_their_class(field: str) -> None:
    """Attributes, drain and parameters are those of the present class."""
    assert 1 == len(of_a_class({field: {"a": ""}}))


def test_drain_that_is_off_is_the_same_for_any_time() -> None:
    """How long means something where members are drained."""
    off = {"enabled": False, "timeoutSeconds": 0}

    assert [] == of_a_class({"drain": off}, drain={**off, "timeoutSeconds": 30})
    assert 1 == len(
        of_a_class({"drain": off}, drain={"enabled": True, "timeoutSeconds": 0})
    )


@pytest.mark.parametrize(
    ("target", "change"),
    [
        (MEM, spec(auth={"bearerTokenSecretRef": {"name": "gone"}})),
        (MEM, meta(labels={"lbcf.tkestack.io/driver-draining": "true"})),
        (FRONT, condition(0, status="False")),
        (WEB, spec(loadBalancers=["gone"])),
        (WEB, spec(parameters={"refuse": "x"})),
    ],
    ids=["secret", "draining", "not created", "no load balancer", "refused"],
)
def test_what_is_impossible_is_left_open(target: str, change: Change) -> None:
    """Nothing is said of members there, and nothing is compared."""
    scene = changed(target, change)
    verdict = wants(scene, scene.objects[WEB])

    assert verdict is None or not verdict.places
    assert WEB in picture(scene).open


def test_what_is_impossible_keeps_nothing_else_from_being_served() -> None:
    """One load balancer is not there: the group says so, the other one has its members."""
    scene = changed(WEB, spec(loadBalancers=["gone", "front"]))
    found = complaints(attrs.evolve(scene, members=[]))

    assert any("should not be Ready" in line for line in found), found
    assert any("lacks ('front'" in line for line in found), found


@pytest.mark.parametrize(
    ("target", "change", "told"),
    [
        (RECORD, spec(drain={"timeoutSeconds": 3}), "BackendGroup/web records"),
        (WEB, condition(0, reason="Other"), "BackendGroup/web conditions"),
        (MEM, lambda body: body["status"]["conditions"].append(
            {"type": "Healthy", "status": "False", "reason": "x"}
        ), "LoadBalancerDriver/mem conditions"),
    ],
)  # fmt: skip
def test_what_a_detour_leaves_behind_is_told(
    target: str, change: Change, told: str
) -> None:
    """Records, conditions and members are those of a state that was reached at once."""
    found = differences(picture(a_scene()), picture(changed(target, change)))

    assert [told in line for line in found] == [True]


def test_object_that_is_left_behind_is_told() -> None:
    """It is in one of the two pictures."""
    scene = a_scene()
    fewer = {key: body for key, body in scene.objects.items() if key != FRONT}
    found = differences(picture(scene), picture(attrs.evolve(scene, objects=fewer)))

    assert any(line.startswith(FRONT) for line in found)


def test_unexpected_exceptions_are_told() -> None:
    """Failures with a name are everyday."""
    usual = '{"level":"warning","event":"reconcile.failed"}'
    bad = '{"level":"error","event":"reconcile.crashed"}'

    assert [bad] == health([usual, bad])


def test_drained_group_whose_service_lacks_the_port_is_left_open() -> None:
    """It is not Ready for that, drained by hand or not."""
    scene = a_scene()
    group = copy.deepcopy(dict(scene.objects[WEB]))
    group["spec"] = {
        "loadBalancers": ["front"],
        "service": {"name": "np", "port": {"port": 65535}},
        "deregisterPolicy": "IfNotReady",
    }
    group["metadata"]["annotations"] = {DRAIN: "by hand"}
    ports = [{"port": 80, "protocol": "TCP", "nodePort": 30080}]
    service = {"metadata": {}, "spec": {"ports": ports}}
    objects = {**scene.objects, WEB: group, "Service/np": service}

    assert wants(attrs.evolve(scene, objects=objects), group) is None
