"""What specs mean, read as the documentation has it and apart from our code. No I/O.

`wants` says which members a group should have. Where that is open (a driver that is in
trouble, a policy that remembers what was there), it says nothing.
"""

import json

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

import attrs

from lbcf import sdk
from tests.lab.specs.chains import DRAIN, UNREADY
from tests.lab.specs.schemas import NS
from webhooks.memory import ingress_of


Body = Mapping[str, Any]
Members = Counter[tuple[str, str, str]]
"""Load balancer, address and parameters of each."""
PORT_NAMES: Final = {"http": 8080}
NODE_ADDRESSES: Final = ("192.0.2.101", "192.0.2.102")


@attrs.frozen
class Member:
    """What a load balancer has."""

    record: str
    address: str
    parameters: Mapping[str, str]
    is_active: bool = True


@attrs.frozen
class Scene:
    """A namespace as it is.

    Attributes:
        objects: those of the API server, by `Kind/name`.
        pods: as they were written, by name.
        members: of its load balancers.
        tokens: what is called otherwise in another namespace, and how it is told.
    """

    objects: Mapping[str, Body]
    pods: Mapping[str, Body]
    members: Sequence[Member]
    tokens: Mapping[str, str] = attrs.field(factory=dict)

    def of(self, kind: str) -> Iterator[tuple[str, Body]]:
        """The objects of a kind."""
        return ((k, o) for k, o in self.objects.items() if k.startswith(f"{kind}/"))


@attrs.frozen
class Verdict:
    """What a group should have.

    Attributes:
        must: members that are to be there.
        may: those, and members that history may have left there.
        places: the load balancers that this is about: others keep what they have.
        is_ready: whether the group should be Ready; None: who knows.
    """

    must: Members
    may: Members
    places: frozenset[str]
    is_ready: bool | None


def condition(body: Body, kind: str) -> Body:
    """A condition, empty where there is none."""
    found = body.get("status", {}).get("conditions", [])
    return next((c for c in found if c["type"] == kind), {})


def is_refused(balancer: Body) -> bool:
    """Whether the driver refuses this spec: on wish, or for an address that is none."""
    attributes = balancer.get("attributes", {})
    try:
        ingress_of(balancer.get("lbSpec", balancer.get("spec", {})), attributes)
    except sdk.Fail:
        return True
    return "refuse" in attributes


def owner_of(record: Body) -> str:
    """Whose record it is, as `Kind/name`."""
    owners = record["metadata"].get("ownerReferences", [{}])
    return f"{owners[0].get('kind')}/{owners[0].get('name')}"


def is_plain(scene: Scene, driver: str) -> bool:
    """Whether nothing keeps a driver from answering, nor takes it out of service."""
    found = scene.objects.get(f"LoadBalancerDriver/{driver}")
    if found is None or "deletionTimestamp" in found["metadata"]:
        return False
    spec, labels = found["spec"], found["metadata"].get("labels", {})
    draining = labels.get("lbcf.tkestack.io/driver-draining") == "true"
    hooks = spec.get("webhooks", [])
    slow = all(_is_usual(hook.get("timeout", "10s")) for hook in hooks)
    strange = {"tls", "auth"} & {name for name in spec if spec[name]}
    strange |= set() if _has_in_scope(scene, found) else {"scope"}
    at_home = spec["url"] in {u for u, told in scene.tokens.items() if "url" in told}
    return at_home and slow and not strange and not draining


def _has_in_scope(scene: Scene, body: Body) -> bool:
    """Whether a shared driver or load balancer is for everybody who uses it here."""
    scope = body["spec"].get("scope")
    name = next((name for name, told in scene.tokens.items() if told == NS), "")
    if body["metadata"].get("namespace") == name:
        return not scope
    return scope is None or not {name, "*"}.isdisjoint(scope)


def _is_usual(timeout: str) -> bool:
    return timeout in {"2s", "2000ms", "10s", "0.1m"}


def _places(scene: Scene, body: Body) -> dict[str, bool | None]:
    """Whether each load balancer that is meant serves; None: who knows."""
    spec = body["spec"]
    if body["kind"] == "Bind":
        return {
            entry["name"]: None
            if is_refused(entry)
            else _serves(scene, entry["driver"])
            for entry in spec["loadBalancers"]
        }
    names = [*spec.get("loadBalancers", []), *filter(None, [spec.get("lbName")])]
    found: dict[str, bool | None] = {}
    for name in names:
        lb = scene.objects.get(f"LoadBalancer/{name}")
        if lb is None:
            found[name] = False
        elif "deletionTimestamp" in lb["metadata"] or not _is_open(scene, lb):
            found[name] = None
        else:
            created = condition(lb, "Created").get("status") == "True"
            found[name] = _serves(scene, lb["spec"]["lbDriver"]) if created else False
    return found


def _is_open(scene: Scene, lb: Body) -> bool:
    """Whether a load balancer may be used here; a shared one has a scope for that."""
    is_shared = lb["metadata"].get("namespace") == "kube-system"
    return not is_shared or ("scope" in lb["spec"] and _has_in_scope(scene, lb))


def _serves(scene: Scene, driver: str) -> bool | None:
    if f"LoadBalancerDriver/{driver}" not in scene.objects:
        return False
    return True if is_plain(scene, driver) else None


def wants(scene: Scene, body: Body) -> Verdict | None:
    """What a group or Bind should have at which load balancers; None: who knows."""
    spec = body["spec"]
    places = _places(scene, body)
    parameters = spec.get("parameters", {})
    webhook = spec.get("deregisterWebhook", {}).get("driverName")
    if "refuse" in parameters or (webhook and not is_plain(scene, webhook)):
        return None
    must, may = _addresses(scene, body)
    if must is None or may is None:
        return None
    told = json.dumps(parameters, sort_keys=True)
    known = [name for name, serves in places.items() if serves]

    def at_all(addresses: Counter[str]) -> Members:
        found: Members = Counter()
        for name, address in product(known, addresses):
            found[name, address, told] = addresses[address]
        return found

    unclear = None in places.values()
    is_ready = False if False in places.values() else None if unclear else True
    return Verdict(at_all(must), at_all(may), frozenset(known), is_ready)


def _addresses(
    scene: Scene, body: Body
) -> tuple[Counter[str], Counter[str]] | tuple[None, None]:
    """The addresses that must, and that may be registered."""
    found = _selected(scene, body["spec"])
    is_drained = body["metadata"].get("annotations", {}).get(DRAIN)
    return (Counter(), Counter()) if is_drained and None not in found else found


def _selected(
    scene: Scene, spec: Body
) -> tuple[Counter[str], Counter[str]] | tuple[None, None]:
    """The same, whether or not the group is drained by hand."""
    if "static" in spec:
        # One address twice, or a name, is as its load balancer takes it.
        known = Counter(dict.fromkeys(spec["static"], 1))
        return known, known
    if "pods" not in spec:
        return _of_nodes(scene, spec)
    must: Counter[str] = Counter()
    may: Counter[str] = Counter()
    for name, pod in scene.pods.items():
        if not _selects(spec["pods"], name, pod) or _is_drained(pod):
            continue
        for port in _ports(spec["pods"]):
            address = f"{address_of(name)}:{port}"
            is_meant = name != UNREADY or spec["deregisterPolicy"] == "IfTerminating"
            must[address] += is_meant
            may[address] += is_meant or remembers(spec)
    return must, may


def _of_nodes(
    scene: Scene, spec: Body
) -> tuple[Counter[str], Counter[str]] | tuple[None, None]:
    ports = _ports(spec["nodes"]) if "nodes" in spec else []
    meant = spec["nodes"] if "nodes" in spec else spec["service"]
    if "service" in spec:
        service = scene.objects.get(f"Service/{meant['name']}")
        if service is None or service["spec"].get("externalTrafficPolicy") == "Local":
            return None, None
        if service["metadata"].get("annotations"):
            return None, None
        number = meant["port"].get("port") or meant["port"].get("portNumber")
        protocol = meant["port"].get("protocol", "TCP")
        ports = [
            p["nodePort"]
            for p in service["spec"].get("ports", [])
            if (p["port"], p["protocol"]) == (number, protocol) and p.get("nodePort")
        ]
        if not ports:
            return None, None
    if (
        meant.get("addressType", "InternalIP") != "InternalIP"
        or meant.get("ipFamily") == "IPv6"
    ):
        return None, None
    labels = meant.get("selector", meant.get("nodeSelector", {}))
    good = all(("specs", "yes") == pair for pair in labels.items())
    terms = [
        (t["key"], t["operator"], t.get("values", []))
        for t in meant.get("matchExpressions", [])
    ]
    good = good and all(_holds({"specs": "yes"}, *term) for term in terms)
    if not labels and not terms:
        return None, None  # all nodes, other people's too
    found = Counter(f"{a}:{p}" for a in NODE_ADDRESSES for p in ports if good)
    return found, found


def remembers(spec: Body) -> bool:
    """Whether an unready pod that was in once may still be."""
    policy = spec["deregisterPolicy"] in {"IfNotRunning", "Webhook"}
    return policy or "maxUnreadyPercent" in spec.get("protection", {})


def address_of(pod: str) -> str:
    """The address of a pod."""
    return f"10.0.0.{pod.removeprefix('p')}"


def has_drained(scene: Scene, body: Body) -> bool:
    """Whether all or some of a group is kept out by hand."""
    pods = body["spec"].get("pods")
    return bool(body["metadata"].get("annotations", {}).get(DRAIN)) or (
        pods is not None
        and any(_is_drained(p) and _selects(pods, n, p) for n, p in scene.pods.items())
    )


def _is_drained(pod: Body) -> bool:
    return bool(pod["metadata"].get("annotations", {}).get(DRAIN))


def _ports(meant: Body) -> set[int]:
    """Numbers of the ports that are meant; one under two protocols is two."""
    listed = [*meant.get("ports", []), *filter(None, [meant.get("port")])]
    found = {
        (
            port.get("port")
            or port.get("portNumber")
            or PORT_NAMES.get(port["name"], 0),
            port.get("protocol", "TCP").upper(),
        )
        for port in listed
    }
    return [number for number, _ in sorted(found) if number]  # type: ignore[return-value]


def _selects(pods: Body, name: str, pod: Body) -> bool:
    if "byName" in pods:
        return name in pods["byName"]
    labels = pod["metadata"].get("labels", {})
    chosen = pods["byLabel"]
    equal = all(labels.get(k) == v for k, v in chosen.get("selector", {}).items())
    terms = chosen.get("matchExpressions", [])
    held = all(
        _holds(labels, t["key"], t["operator"], t.get("values", [])) for t in terms
    )
    return equal and held and name not in chosen.get("except", [])


def _holds(labels: Mapping[str, str], key: str, how: str, some: Sequence[str]) -> bool:
    match how:
        case "In":
            return labels.get(key) in some
        case "NotIn":
            return labels.get(key) not in some
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def words_of(body: Body) -> str:
    """What conditions say, for messages."""
    return "; ".join(
        f"{c['type']}={c['status']} {c.get('reason')}: {c.get('message')}"
        for c in body.get("status", {}).get("conditions", [])
    )


def place_of(scene: Scene, record: Body) -> tuple[str, ...]:
    """What one record alone can have: an address, where those tell members apart."""
    spec = record["spec"]
    driver = scene.objects.get(f"LoadBalancerDriver/{spec['lbDriver']}", {})
    if driver.get("spec", {}).get("memberKey") == "Record":
        return (record["metadata"]["uid"],)
    backend = spec.get("podBackend") or spec.get("nodeBackend") or {}
    host = spec.get("backendHost") or spec.get("staticAddr", "")
    return (spec["lbName"], host, str(backend.get("port", {}).get("port")))
