"""What is broken -> what the API server says: a row or more for each rule in CEL.

`at` is the place of the rule in the schema (for a policy, the policy's name); edits say
how a sample is to be changed. A row with `update` changes what is stored already.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tests.manifests.paths import GONE


@attrs.frozen
class Breach:
    """One way to break one rule.

    Attributes:
        what: what is broken, for the test's name.
        sample: the sample that is broken, as `LoadBalancer lbcf-shared`.
        at: where the schema has the rule.
        field: what the message must name, as `spec.url`.
        says: the rule's message.
        edits: values by place; GONE takes a field out.
        update: the object is stored unbroken and broken by an update.
    """

    what: str
    sample: str
    at: str
    field: str
    says: str
    edits: Mapping[str, Any]
    update: bool = False

    @property
    def kind(self) -> str:
        """The kind of the sample."""
        return self.sample.split()[0]

    @property
    def part(self) -> str:
        """The subresource that holds what is broken, empty for the object itself."""
        return "status" if next(iter(self.edits)).startswith("status") else ""

    def __str__(self) -> str:
        """The test's name."""
        return f"{self.kind} {self.what}"


DRIVER, SHARED = "LoadBalancerDriver driver", "LoadBalancer lbcf-shared"
PODS, NAMES, SERVICE = "BackendGroup pods", "BackendGroup names", "BackendGroup service"
STATIC, NODES = "BackendGroup static", "BackendGroup nodes"
RECORD, NODE_PORT = "BackendRecord pod", "BackendRecord service"
BIND = "Bind labels"
CLASS = "LoadBalancerClass edge"
ADDRESS, NODE = "BackendRecord static", "BackendRecord node"

DURATION = "must be a duration such as 10s or 1m30s (units ns, us, ms, s, m, h)"
ONE_BACKEND = "cannot be changed: a record stands for one backend"
ONE_TYPE_EVER = (
    "the type of backend (podBackend, serviceBackend, staticAddr, nodeBackend) "
    f"{ONE_BACKEND}"
)
SET_ONCE = "cannot be changed once it is set"
URL_PARTS = (
    "url must have a host, may have a port of 1-65535 and a path, and has no query, "
    "fragment or space"
)
SCOPE = "scope is allowed only for a LoadBalancer whose name begins with lbcf-"
SELECTOR_EMPTY = (
    "selector or matchExpressions must say which pods are meant: an empty one would "
    "take them all"
)
ONE_TYPE = "exactly one of pods, service, static and nodes must be set"
ONE_RECORD_TYPE = (
    "exactly one of podBackend, serviceBackend, staticAddr and nodeBackend must be set"
)


def _driver() -> Iterator[Breach]:
    """Rules of LoadBalancerDriver."""
    url, begin = "spec.url", "url must begin with http:// or https://"
    for bad in ("ftp://host", "driver.kube-system", "/path", "", "HTTP://host"):
        yield Breach(f"url {bad!r}", DRIVER, url, url, begin, {url: bad})
    for bad in (
        "https://", "https://:80", "https://h:0", "https://h:65536", "https://h:x",
        "https://h?a=b", "https://h/p#f", "https://h/a b", "https://[::1",
    ):  # fmt: skip
        yield Breach(f"url {bad!r}", DRIVER, url, url, URL_PARTS, {url: bad})
    fixed = "url cannot be changed: make another LoadBalancerDriver"
    yield Breach(
        "url changed", DRIVER, url, url, fixed, {url: "https://x"}, update=True
    )
    key = "spec.memberKey"
    fixed = "memberKey cannot be changed, existing records rely on it"
    yield Breach("memberKey", DRIVER, key, key, fixed, {key: "Address"}, update=True)
    says = "tls is allowed only when url begins with https://"
    yield Breach("tls over http", DRIVER, "spec", "spec.tls", says, {url: "http://h"})
    place = "spec.webhooks[].timeout"
    yield from _duration(DRIVER, place, "spec.webhooks[0].timeout", "timeout")
    for bad in ("0s", "61s", "1m1ms", "1h"):
        field, says = (
            "spec.webhooks[0].timeout",
            "timeout must be more than 0s and at most 1m",
        )
        yield Breach(f"timeout {bad}", DRIVER, place, field, says, {place: bad})
    yield Breach(
        "batch of load balancers",
        DRIVER,
        "spec.webhooks[]",
        "spec.webhooks[0].batch",
        "batch is allowed for ensureBackend, deregisterBackend and drainBackend only",
        {"spec.webhooks[].name": "createLoadBalancer"},
    )


def _duration(sample: str, place: str, field: str, name: str) -> Iterator[Breach]:
    """A duration that is none."""
    for bad in ("10", "1 m", "-5s", "soon", "1d"):
        says = f"{name} {DURATION}"
        yield Breach(f"{name} {bad!r}", sample, place, field, says, {place: bad})


def _period(sample: str, shortest: int) -> Iterator[Breach]:
    """Rules of a minPeriod; shortest in seconds."""
    field, says = "spec.ensurePolicy.minPeriod", f"must be at least {shortest}s"
    yield from _duration(sample, field, field, "minPeriod")
    edits = {field: f"{shortest - 1}s"}
    yield Breach("short period", sample, field, field, f"minPeriod {says}", edits)


def _ensure_policy(sample: str) -> Iterator[Breach]:
    """Rules of an ensurePolicy that people write."""
    place, field = "spec.ensurePolicy", "spec.ensurePolicy.minPeriod"
    yield from _period(sample, 30)
    says = "minPeriod is allowed only when policy is Always"
    edits = {"spec.ensurePolicy.policy": "IfNotSucc"}
    yield Breach("period without Always", sample, place, field, says, edits)
    unsaid = {"spec.ensurePolicy.policy": GONE}
    yield Breach("period without policy", sample, place, field, says, unsaid)


def _port(sample: str, place: str, more: str = "") -> Iterator[Breach]:
    """A port selector that names no port."""
    field = f"{place.replace('[]', '[0]')}.port"
    says = f"port must be 1-65535 (portNumber is its old name){more}"
    for what, port in (("nothing", {}), ("0", {"port": 0}), ("0", {"portNumber": 0})):
        name = f"{place} {', '.join(port) or 'port'} {what}"
        yield Breach(name, sample, place, field, says, {place: port})


def _labels(sample: str, place: str) -> Iterator[Breach]:
    """A label selector whose keys are no label keys."""
    name = place.rsplit(".", 1)[1]
    says = f"{name}: every key must be a label key such as app or example.com/app"
    for bad in ("a b", "/app", "Example.com/app", "-a", "a" * 318):
        edits = {place: {bad: "x"}}
        yield Breach(f"{place} {bad[:20]!r}", sample, place, place, says, edits)


def _expressions(sample: str, place: str) -> Iterator[Breach]:
    """Requirements whose operator and values do not go together."""
    says = (
        "matchExpressions: In and NotIn need values, Exists and DoesNotExist take none"
    )
    bad = {"In": None, "NotIn": [], "Exists": ["a"], "DoesNotExist": ["a"]}
    for operator, values in bad.items():
        expression: dict[str, Any] = {"key": "a", "operator": operator}
        if values is not None:
            expression["values"] = values
        what, edits = f"{place} {operator} {values}", {place: [expression]}
        yield Breach(what, sample, f"{place}[]", f"{place}[0]", says, edits)


def _class() -> Iterator[Breach]:
    """Rules of LoadBalancerClass."""
    yield from _total(CLASS, "spec.lbSpec", "spec.attributes", "spec.parameters")
    place, says = "spec.ingress[]", "exactly one of ip and hostname must be set"
    for what, edits in (
        ("neither", {f"{place}": {}}),
        ("both", {f"{place}.hostname": "a.example.com"}),
    ):
        field = "spec.ingress[0]"
        yield Breach(f"ingress {what}", CLASS, place, field, says, edits)
    place, says = "spec.addresses[]", "addresses must be networks such as 192.0.2.0/28"
    field = "spec.addresses[0]"
    for bad in ("192.0.2.1", "192.0.2.0-192.0.2.9", "192.0.2.0/33", "all"):
        yield Breach(f"addresses {bad!r}", CLASS, place, field, says, {place: bad})
    place, says = "spec.ingress[].ip", "ip must be an IPv4 or IPv6 address"
    field = "spec.ingress[0].ip"
    for bad in ("10.0.0.256", "front", ""):
        yield Breach(f"ip {bad!r}", CLASS, place, field, says, {place: bad})


def _load_balancer() -> Iterator[Breach]:
    """Rules of LoadBalancer."""
    for field, new in (("lbDriver", "other"), ("lbSpec", {"id": "lb-2"})):
        place, says = f"spec.{field}", f"{field} cannot be changed: make another"
        edits = {place: new}
        yield Breach(f"{field} changed", SHARED, place, place, says, edits, update=True)
    for field in ("addressPool", "address"):
        place, says = f"spec.{field}", f"{field} cannot be changed: make another"
        edits = {place: "other"}
        yield Breach(f"{field} changed", SHARED, place, place, says, edits, update=True)
    for field, says in (
        ("addressPool", "addressPool cannot be added or taken out: make another"),
        ("address", "address cannot be taken out: make another"),
    ):
        place, edits = f"spec.{field}", {f"spec.{field}": GONE}
        yield Breach(f"{field} out", SHARED, "spec", place, says, edits, update=True)
    place, edits = "spec.lbSpec", {"spec.lbSpec": GONE}
    says = "lbSpec cannot be changed"
    yield Breach("lbSpec out", SHARED, place, place, says, edits, update=True)
    yield from _ensure_policy(SHARED)
    edits = {"metadata.name": "shared"}
    yield Breach("scope of any name", SHARED, "", "spec.scope", SCOPE, edits)
    yield from _total(SHARED, "spec.lbSpec", "spec.attributes")
    yield from _set_once(SHARED, "", "status.lbInfo", {"id": "lb-2"})


def _total(sample: str, *places: str) -> Iterator[Breach]:
    """Maps whose keys and values are too much together, each of them short enough."""
    for place in places:
        field, name = place.replace("[]", "[0]"), place.rsplit(".", 1)[1]
        says = f"{name} must have at most 16384 characters, keys and values together"
        for what, found in (
            ("values", {"a": "1" * 8192, "b": "2" * 8191}),
            ("keys", {"k" * 16383: "12"}),
        ):
            name = f"{place} of long {what}"
            yield Breach(name, sample, place, field, says, {place: found})


def _set_once(
    sample: str, at: str, field: str, new: object, *, split: bool = False
) -> Iterator[Breach]:
    """A field that is changed, emptied or taken out after it was set.

    Where the rule is `split`, the field itself has the part that compares it, and `at`
    the one that misses it.
    """
    says = f"{field.rsplit('.', 1)[1]} {SET_ONCE}"
    empty = type(new)()
    for what, value in (("changed", new), ("emptied", empty), ("taken out", GONE)):
        name, edits = f"{field} {what}", {field: value}
        place = field if split and value is not GONE else at
        yield Breach(name, sample, place, field, says, edits, update=True)
    if field.startswith("status"):
        name, edits = f"{field} out with all", {"status": {}}
        yield Breach(name, sample, at, field, says, edits, update=True)


def _group() -> Iterator[Breach]:
    """Rules of BackendGroup."""
    says, field = (
        "loadBalancers must name at least one LoadBalancer",
        "spec.loadBalancers",
    )
    for what, value in (("none", GONE), ("empty", [])):
        name = f"loadBalancers {what}"
        yield Breach(name, STATIC, "spec", field, says, {field: value})
    edits = {"spec.static": GONE}
    yield Breach("no backends", STATIC, "spec", "spec", ONE_TYPE, edits)
    edits = {"spec.nodes": {"ports": [{"port": 80}]}}
    yield Breach("two types of backends", STATIC, "spec", "spec", ONE_TYPE, edits)
    says, field = "must have no control or hidden characters", "spec.static[0]"
    for what, char in (("control", "\x1b"), ("hidden", "\u202e")):
        edits = {"spec.static": [f"h{char}:80"]}
        yield Breach(f"{what} in static", STATIC, "spec.static[]", field, says, edits)
    says = "the type of backends (pods, service, static, nodes) cannot be changed"
    for sample, old in ((PODS, "pods"), (SERVICE, "service"), (NODES, "nodes")):
        edits = {f"spec.{old}": GONE, "spec.static": ["198.51.100.1:80"]}
        yield Breach(
            f"{old} to static", sample, "spec", "spec", says, edits, update=True
        )
    says = "deregisterWebhook must be set when deregisterPolicy is Webhook"
    field, edits = "spec.deregisterWebhook", {"spec.deregisterWebhook": GONE}
    yield Breach("no webhook to ask", PODS, "spec", field, says, edits)
    yield from _ensure_policy(PODS)
    yield from _total(PODS, "spec.parameters")
    yield from _pods()
    yield from _port(SERVICE, "spec.service.port")
    yield from _labels(SERVICE, "spec.service.nodeSelector")
    yield from _labels(NODES, "spec.nodes.selector")
    yield from _expressions(NODES, "spec.nodes.matchExpressions")


def _pods() -> Iterator[Breach]:
    """Rules of a BackendGroup of pods."""
    yield from _selection(PODS, NAMES)
    says = "ports must hold at least one port (port is its old spelling)"
    for what, value in (("none", GONE), ("empty", [])):
        name, field = f"ports {what}", "spec.pods.ports"
        yield Breach(name, NAMES, "spec.pods", field, says, {field: value})
    named = ", or name must say which port is meant"
    yield from _port(PODS, "spec.pods.ports[]", named)
    yield from _port(PODS, "spec.pods.port")


def _selection(by_label: str, by_name: str) -> Iterator[Breach]:
    """Rules on how pods are selected, of BackendGroups and of Binds."""
    says = "exactly one of byLabel and byName must be set"
    for what, place, value in (
        ("neither label nor name", "spec.pods.byName", GONE),
        ("label and name", "spec.pods.byLabel", {"selector": {"app": "web"}}),
    ):
        yield Breach(what, by_name, "spec.pods", "spec.pods", says, {place: value})
    place, field = "spec.pods.byLabel", "spec.pods.byLabel.selector"
    for what, value in (
        ("unsaid", {}),
        ("empty", {"selector": {}}),
        ("without expressions", {"matchExpressions": []}),
    ):
        name = f"selector {what}"
        yield Breach(name, by_label, place, field, SELECTOR_EMPTY, {place: value})
    yield from _labels(by_label, "spec.pods.byLabel.selector")
    yield from _expressions(by_label, "spec.pods.byLabel.matchExpressions")


def _bind() -> Iterator[Breach]:
    """Rules of Bind."""
    for field, new in (("driver", "other"), ("spec", {"id": "lb-2"})):
        place = f"spec.loadBalancers[].{field}"
        shown = f"spec.loadBalancers[0].{field}"
        says = (
            f"{field} cannot be changed: take the load balancer out and add another one "
            "under another name"
        )
        edits = {place: new}
        yield Breach(f"{field} changed", BIND, place, shown, says, edits, update=True)
    says = "deregisterWebhook must be set when deregisterPolicy is Webhook"
    field, gone = "spec.deregisterWebhook", {"spec.deregisterWebhook": GONE}
    yield Breach("no webhook to ask", BIND, "spec", field, says, gone)
    maps = ("spec.loadBalancers[].spec", "spec.loadBalancers[].attributes")
    yield from _total(BIND, *maps, "spec.parameters")
    yield from _selection(BIND, "Bind names")


def _record() -> Iterator[Breach]:
    """Rules of BackendRecord."""
    says, edits = ONE_RECORD_TYPE, {"spec.staticAddr": GONE}
    yield Breach("no backend", ADDRESS, "spec", "spec", says, edits)
    edits = {"spec.nodeBackend": {"name": "n1", "port": {"port": 80}}}
    yield Breach("two backends", ADDRESS, "spec", "spec", says, edits)
    for field in ("backendHost", "nodeUID"):
        place, says = f"spec.{field}", f"{field} {ONE_BACKEND}"
        edits = {place: "other"}
        yield Breach(f"{field} changed", RECORD, place, place, says, edits, update=True)
    for field in ("lbName", "lbDriver"):
        place, says = f"spec.{field}", f"{field} {ONE_BACKEND} at one load balancer"
        edits = {place: "other"}
        yield Breach(f"{field} changed", RECORD, place, place, says, edits, update=True)
    yield from _identity()
    yield from _set_once(RECORD, "spec.podBackend", "spec.podBackend.uid", "other")
    yield from _set_once(RECORD, "spec", "spec.lbInfo", {"id": "lb-2"}, split=True)
    other = "198.18.0.2:80"
    yield from _set_once(RECORD, "spec", "spec.backendAddr", other, split=True)
    yield from _set_once(RECORD, "", "status.backendAddr", other, split=True)
    says, field = (
        "status.backendAddr must be the same as spec.backendAddr",
        "status.backendAddr",
    )
    edits = {field: "198.18.0.2:80"}
    yield Breach("two addresses", RECORD, "", field, says, edits, update=True)
    yield from _period(RECORD, 10)
    yield from _port(RECORD, "spec.podBackend.port")
    yield from _port(NODE_PORT, "spec.serviceBackend.port")
    yield from _port(NODE, "spec.nodeBackend.port")


def _identity() -> Iterator[Breach]:
    """A record that is made to stand for another backend."""
    for sample, place, new in (
        (RECORD, "podBackend.name", "web-1"),
        (RECORD, "podBackend.port", {"port": 81}),
        (NODE_PORT, "serviceBackend.name", "api"),
        (NODE_PORT, "serviceBackend.nodePort", 30081),
        (NODE_PORT, "serviceBackend.nodeName", "n2"),
        (NODE_PORT, "serviceBackend.port", {"port": 81}),
        (ADDRESS, "staticAddr", "198.51.100.2:80"),
        (NODE, "nodeBackend.name", "n2"),
        (NODE, "nodeBackend.port", {"port": 81}),
    ):
        backend = place.split(".", maxsplit=1)[0]
        says, field = f"{backend} {ONE_BACKEND}", f"spec.{backend}"
        edits = {f"spec.{place}": new}
        name = f"{place} changed"
        yield Breach(name, sample, field, field, says, edits, update=True)
    types: dict[str, Any] = {
        "podBackend": {"name": "web-0", "port": {"port": 80}},
        "serviceBackend": {
            "name": "api",
            "port": {"port": 80},
            "nodePort": 30080,
            "nodeName": "n1",
        },
        "staticAddr": "h:80",
        "nodeBackend": {"name": "n1", "port": {"port": 80}},
    }
    samples = dict(zip((RECORD, NODE_PORT, ADDRESS, NODE), types, strict=True))
    for sample, old in samples.items():
        for new in sorted(types.keys() - {old}):
            edits = {f"spec.{old}": GONE, f"spec.{new}": types[new]}
            name = f"{old} becomes {new}"
            yield Breach(
                name, sample, "spec", "spec", ONE_TYPE_EVER, edits, update=True
            )


BREACHES = (*_driver(), *_class(), *_load_balancer(), *_group(), *_record(), *_bind())
