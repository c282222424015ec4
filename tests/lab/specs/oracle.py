"""Consistency and health: what is wrong with a scene, by what the specs in it say.

Specs, statuses, records and members are held against each other; `pictures` compares
scenes. No I/O.
"""

import json

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from tests.lab.specs.meaning import (
    Body,
    Member,
    Members,
    Scene,
    Verdict,
    condition,
    has_drained,
    is_plain,
    is_refused,
    owner_of,
    place_of,
    wants,
    words_of,
)


ABOUT_NOW: Final = {
    "BackendGroup": ("Ready",),
    "Bind": ("Ready",),
    "LoadBalancer": ("Created", "AttributesSynced"),
    "LoadBalancerDriver": ("Accepted",),
}
"""Conditions that speak of the present generation, by kind."""
OF_SERVICES: Final = frozenset(
    {
        *("sessionAffinity", "sessionAffinityTimeoutSeconds", "externalTrafficPolicy"),
        *("healthCheckNodePort", "loadBalancerSourceRanges", "ipFamilies"),
    }
)
"""Attributes that come from a Service, and not from its class."""


def complaints(scene: Scene) -> list[str]:
    """Everything that is not as the specs say, or not said."""
    found = [*_behind(scene), *_members(scene)]
    for kind in ("BackendGroup", "Bind"):
        for key, body in scene.of(kind):
            if "deletionTimestamp" not in body["metadata"]:
                found += _group(scene, key, body)
    return found


def _behind(scene: Scene) -> Iterator[str]:
    """Statuses that do not speak of the present spec, and objects that do not go."""
    for key, body in scene.objects.items():
        kind = key.partition("/")[0]
        if "deletionTimestamp" in body["metadata"]:
            if _can_end(scene, body):
                yield f"{key} is being deleted, and still there: {words_of(body)}"
        elif kind in ABOUT_NOW:
            yield from _stale(key, body, ABOUT_NOW[kind])
        if kind == "LoadBalancer":
            yield from _created(scene, key, body)
        if kind == "Service" and "loadBalancerClass" in body["spec"]:
            yield from _derived(scene, key, body)


def _stale(key: str, body: Body, told: Sequence[str]) -> Iterator[str]:
    """What speaks of an older generation; one that is not created has one condition."""
    now, status = body["metadata"]["generation"], body.get("status", {})
    if (seen := status.get("observedGeneration")) != now:
        yield f"{key} has a status of generation {seen}, not {now}"
    is_first_met = condition(body, told[0]).get("status") == "True"
    for name in told if is_first_met else told[:1]:
        if condition(body, name).get("observedGeneration") != now:
            yield f"{key} has no {name} of generation {now}: {words_of(body)}"


def _can_end(scene: Scene, body: Body) -> bool:
    """Whether every driver that may be needed for it can be called."""
    names = [key.partition("/")[2] for key, _ in scene.of("LoadBalancerDriver")]
    meant = body["spec"].get("lbDriver")
    return all(is_plain(scene, name) for name in ([meant] if meant else names))


def _created(scene: Scene, key: str, body: Body) -> Iterator[str]:
    spec = body["spec"]
    if condition(body, "Created").get("reason") == "Creating":
        # No rest: its driver may be silent for longer than what counts as rest.
        yield f"{key} is being created"
    if "addressPool" in spec or not is_plain(scene, spec["lbDriver"]):
        return
    if is_refused(spec):
        if _is_fine(body):
            yield f"{key} is fine with what its driver refuses"
    elif not _is_fine(body):
        yield f"{key} is not created: {words_of(body)}"


def _derived(scene: Scene, key: str, body: Body) -> Iterator[str]:
    """What a Service of type LoadBalancer should have become, and has not."""
    classes = [found["spec"] for _, found in scene.of("LoadBalancerClass")]
    if len(classes) != 1 or not is_plain(scene, classes[0]["driver"]):
        return
    spec, name = body["spec"], key.partition("/")[2]
    if not spec.get("selector"):
        return  # somebody else looks after its endpoints
    meant = {
        f"svc-{name}-{port['port']}-{port['protocol'].lower()}"
        for port in spec["ports"]
        if spec["type"] == "LoadBalancer" and port["protocol"] in {"TCP", "UDP"}
    }
    for derived in ("LoadBalancer", "BackendGroup"):
        actual = {k.partition("/")[2] for k, _ in scene.of(derived)}
        if meant != actual:
            yield f"{key} should be {sorted(meant)}, and is {derived} {sorted(actual)}"
    said = condition(body, "LoadBalancerReady").get("reason")
    if said == "Creating" and all(_is_fine(lb) for _, lb in scene.of("LoadBalancer")):
        yield f"{key} says Creating of what is created"
    yield from _as_class(scene, classes[0], spec["selector"])


def _is_fine(balancer: Body) -> bool:
    told = (condition(balancer, name) for name in ABOUT_NOW["LoadBalancer"])
    return all(one.get("status") == "True" for one in told)


def _as_class(scene: Scene, kind: Body, selector: Body) -> Iterator[str]:
    """What was derived and is as its Service or class was."""
    for lb, found in scene.of("LoadBalancer"):
        own = found["spec"].get("attributes", {}).keys() - OF_SERVICES
        is_same = _drains(found["spec"]) == _drains(kind)
        if not is_same or own != kind.get("attributes", {}).keys():
            yield f"{lb} is not as its class has it by now"
    for group, found in scene.of("BackendGroup"):
        pods = found["spec"].get("pods", {}).get("byLabel", {}).get("selector")
        own = found["spec"].get("parameters", {}).keys()
        if pods not in (None, selector) or own != kind.get("parameters", {}).keys():
            yield f"{group} is not as its Service or class has it by now"


def _drains(spec: Body) -> Body | None:
    """How members are drained; where they are not, for how long means nothing."""
    drain: Body | None = spec.get("drain")
    return drain if drain is None or drain.get("enabled", True) else {"enabled": False}


def _members(scene: Scene) -> Iterator[str]:
    """Members against records, whoever wanted them."""
    by_record = {member.record: member for member in scene.members}
    records = {
        body["metadata"]["uid"]: (key, body) for key, body in scene.of("BackendRecord")
    }
    sought = Counter(place_of(scene, record) for _, record in records.values())
    for uid in by_record.keys() - records.keys():
        yield f"a member has no record: {by_record[uid]}"
    for uid, (key, record) in records.items():
        if "deletionTimestamp" in record["metadata"]:
            continue
        if condition(record, "Registered").get("status") == "True":
            yield from _registered(scene, key, record, by_record.get(uid))
            continue
        waits = (
            condition(record, "Registered").get("reason") == "AddressInUse"
            and sought[place_of(scene, record)] > 1
        )
        if is_plain(scene, record["spec"]["lbDriver"]) and not waits:
            yield f"{key} is not registered: {words_of(record)}"


def _registered(
    scene: Scene, key: str, record: Body, member: Member | None
) -> Iterator[str]:
    """What a registered record says, against its member."""
    seen, meta = condition(record, "Registered"), record["metadata"]
    spec, status = record["spec"], record.get("status", {})
    if seen["observedGeneration"] != meta["generation"]:
        yield f"{key} is registered for generation {seen['observedGeneration']} only"
    address = spec.get("backendAddr") or status.get("backendAddr")
    meant = Member(meta["uid"], address, spec.get("parameters", {}))
    if member != meant:
        yield f"{key} says {meant}, its load balancer has {member}"
    if is_plain(scene, spec["lbDriver"]):
        yield from _in_service(scene, key, record)


def _in_service(scene: Scene, key: str, record: Body) -> Iterator[str]:
    """Whether it is known to be in service: as its driver lists members, a period later."""
    driver = scene.objects[f"LoadBalancerDriver/{record['spec']['lbDriver']}"]
    hooks = driver["spec"].get("webhooks", [])
    is_listed = any(hook["name"] == "listBackends" for hook in hooks)
    is_unknown = condition(record, "InService").get("status") == "Unknown"
    if is_listed == is_unknown:
        told = "is not known, though it lists" if is_listed else "is not Unknown"
        yield f"{key} by {record['spec']['lbDriver']}: InService {told}"


def _group(scene: Scene, key: str, body: Body) -> Iterator[str]:
    """What a group says of itself, and what it has."""
    records = [one for _, one in scene.of("BackendRecord") if owner_of(one) == key]
    registered = sum(map(_is_registered, records))
    told = body.get("status", {}).get("registeredBackends", 0)
    if told != registered:
        yield f"{key} tells of {told} registered backends, there are {registered}"
    if (verdict := wants(scene, body)) is not None:
        yield from _said(scene, key, body, verdict)
        there = [one for one in records if one["spec"]["lbName"] in verdict.places]
        yield from _had(scene, key, body, verdict, there)


def _is_registered(record: Body) -> bool:
    is_true = condition(record, "Registered").get("status") == "True"
    return is_true and "deletionTimestamp" not in record["metadata"]


def _said(scene: Scene, key: str, body: Body, verdict: Verdict) -> Iterator[str]:
    """Conditions that should say the other thing."""
    meant = {"Ready": verdict.is_ready, "DrainedByHand": has_drained(scene, body)}
    for name, should in meant.items():
        is_true = condition(body, name).get("status") == "True"
        if should is not None and is_true != should:
            yield f"{key} should {'' if should else 'not '}be {name}: {words_of(body)}"


def _had(
    scene: Scene, key: str, body: Body, verdict: Verdict, records: Sequence[Body]
) -> Iterator[str]:
    """Members that are missing or too many, and attributes that records do not have."""
    by_record = {member.record: member for member in scene.members}
    attributes = _attributes(scene, body)
    actual: Members = Counter()
    waiting = set()
    for record in records:
        lb, seen = record["spec"]["lbName"], record["spec"].get("lbAttributes", {})
        if seen != attributes.get(lb, seen):
            yield f"a record of {key} has {seen}, {lb} has {attributes[lb]}"
        if (member := by_record.get(record["metadata"]["uid"])) is not None:
            told = json.dumps(dict(member.parameters), sort_keys=True)
            actual[lb, member.address, told] += 1
        elif condition(record, "Registered").get("reason") == "AddressInUse":
            waiting.add(lb)
    for missing in (verdict.must - actual).elements():
        # Two that want one address are one member.
        if missing[0] not in waiting:
            yield f"{key} lacks {missing}"
    for surplus in (actual - verdict.may).elements():
        yield f"{key} has {surplus}, which it should not"


def _attributes(scene: Scene, body: Body) -> dict[str, Body]:
    """The attributes of the load balancers that are meant, by name."""
    if body["kind"] == "Bind":
        return {
            e["name"]: e.get("attributes", {}) for e in body["spec"]["loadBalancers"]
        }
    found = {k.partition("/")[2]: o["spec"] for k, o in scene.of("LoadBalancer")}
    return {name: spec.get("attributes", {}) for name, spec in found.items()}


def health(lines: Sequence[str]) -> list[str]:
    """What our processes' logs say that they should never say."""
    bad = ("reconcile.crashed", "Traceback", '"level":"error"', "listener.failed")
    return [line[:2000] for line in lines if any(word in line for word in bad)]
