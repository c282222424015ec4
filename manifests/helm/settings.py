"""What the chart's values set: where in which object, and what may be said.

`templates` puts each expression in its place; `chart` writes values.yaml, with the
defaults found in these places, and values.schema.json.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

import attrs
import yaml

from images.catalog import REFERENCES
from lbcf.core.model.shards import MOST_SHARDS


Schema = dict[str, Any]
Path = tuple[str | int, ...]

_NOTHING: Final[Any] = object()
POD: Final[Path] = ("spec", "template", "spec")
CONTAINER: Final[Path] = (*POD, "containers", 0)
OURS: Final = ("controller", "deregistrar", "admission")
DIVIDED: Final = frozenset({"controller", "deregistrar"})
"""Those whose work can be divided among shards."""

TEXT: Final[Schema] = {"type": "string", "minLength": 1}
FLAG: Final[Schema] = {"type": "boolean"}
WORDS: Final[Schema] = {"type": "array", "items": {"type": "string", "minLength": 1}}
COUNT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": MOST_SHARDS + 1}
QUANTITIES: Final[Schema] = {
    "type": "object",
    "additionalProperties": {
        "type": ["string", "number"],
        "pattern": "^[0-9.]+([EPTGMk]i?|m|[eE][0-9]+)?$",
    },
}
RESOURCES: Final[Schema] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"requests": QUANTITIES, "limits": QUANTITIES},
}
LABELS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
OBJECTS: Final[Schema] = {"type": "array", "items": {"type": "object"}}
SECRETS: Final[Schema] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": {"name": TEXT},
    },
}
LABEL: Final[Schema] = {
    "type": "string",
    "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$",
    "maxLength": 63,
}


@attrs.frozen
class Value:
    """One value of the chart.

    Attributes:
        name: its place in values.yaml, with dots.
        about: a sentence for those who set it.
        schema: what it may be.
        default: where no object has one.
    """

    name: str
    about: str
    schema: Schema
    default: Any = _NOTHING

    @property
    def has_own_default(self) -> bool:
        """Whether its default is not to be read from the objects."""
        return self.default is not _NOTHING


@attrs.frozen
class Place:
    """Where an expression goes.

    Attributes:
        kind: of the object.
        name: of the object.
        path: to the field in it.
        expression: of a template, in braces, `@found` standing for what is there; where
            empty the value itself.
        value: name of the value that is there, empty where it is made of several.
        is_new: the field is not there, and stays away where the value is empty.
    """

    kind: str
    name: str
    path: Path
    value: str = ""
    expression: str = ""
    is_new: bool = False


def _image(values: str) -> str:
    """Put an image's reference together."""
    parts = f".Values.{values}.repository .Values.{values}.tag"
    return f'{{{{ printf "%s:%s" {parts} | toJson }}}}'


def _process(name: str) -> tuple[list[Value], list[Place]]:
    """Say what of one of our processes can be set, and where."""
    target = ("Deployment", f"lbcf-{name}")
    values = [
        Value(f"{name}.replicas", "How many; one works, the others wait.", COUNT),
        Value(f"{name}.resources", "Requests and limits.", RESOURCES),
        Value(f"{name}.extraArgs", "More flags, see docs/api.md.", WORDS, []),
        Value(f"{name}.nodeSelector", "Nodes that it may be on.", LABELS, {}),
        Value(f"{name}.tolerations", "Taints that it bears.", OBJECTS),
    ]
    places = [
        Place(*target, ("spec", "replicas"), f"{name}.replicas", _replicas(name)),
        Place(*target, (*CONTAINER, "resources"), f"{name}.resources"),
        Place(*target, (*POD, "tolerations"), f"{name}.tolerations"),
        Place(*target, (*POD, "nodeSelector"), f"{name}.nodeSelector", is_new=True),
        Place(*target, (*POD, "imagePullSecrets"), "imagePullSecrets", is_new=True),
        Place(*target, (*CONTAINER, "image"), expression=_image("image")),
        Place(*target, (*CONTAINER, "args"), expression=_args(name)),
    ]
    return values, places


def _replicas(name: str) -> str:
    """Say how many: with shards one more than those at least, as their standby."""
    if name not in DIVIDED:
        return ""
    said = f"int .Values.{name}.replicas"
    more = f"max ({said}) (add1 (int .Values.shards))"
    return f"{{{{ if gt (int .Values.shards) 1 }}}}{{{{ {more} }}}}{{{{ else }}}}{{{{ {said} }}}}{{{{ end }}}}"


def _args(name: str) -> str:
    """Put a process's flags together: those of the manifests, of shards, and more."""
    more = f".Values.{name}.extraArgs"
    if name not in DIVIDED:
        return f"{{{{ concat (fromJsonArray @found) {more} | toJson }}}}"
    return (
        "{{ $shards := list }}{{ if gt (int .Values.shards) 1 }}"
        '{{ $shards = list (printf "--shards=%d" (int .Values.shards)) }}{{ end }}'
        f"{{{{ concat (fromJsonArray @found) $shards {more} | toJson }}}}"
    )


def _reference(image: str) -> tuple[str, str]:
    """Split the reference of an image of ours: repository and tag."""
    repository, _, tag = image.rpartition(":")
    return repository, tag


RUNBOOK_BASE: Final = "^(https?://.+/)?$"
"""What may stand before the paths of runbooks; nothing leaves them as they are."""

_RUNBOOK = (
    '{{ printf "%s%s" .Values.monitoring.runbookBase (trimAll "\\"" @found) | toJson }}'
)


def _runbooks() -> Iterator[Place]:
    """Return where the alerts say where their runbooks are."""
    text = (files("manifests") / "monitoring" / "rules.yaml").read_text(
        encoding="utf-8"
    )
    rules = yaml.safe_load(text)
    identity = rules["kind"], rules["metadata"]["name"]
    for number, group in enumerate(rules["spec"]["groups"]):
        for rule in range(len(group["rules"])):
            inside = ("groups", number, "rules", rule, "annotations", "runbook_url")
            yield Place(*identity, ("spec", *inside), expression=_RUNBOOK)


def _flags(flag: str, values: str) -> str:
    """Put a value's words in the place of those that a repeatable flag has."""
    return (
        "{{ $flags := list }}{{ $words := $.Values." + values + " }}"
        "{{ range (fromJsonArray @found) }}"
        f'{{{{ if hasPrefix "{flag}=" . }}}}'
        f'{{{{ range $words }}}}{{{{ $flags = append $flags (printf "{flag}=%s" .) }}}}{{{{ end }}}}'
        "{{ $words = list }}"
        "{{ else }}{{ $flags = append $flags . }}{{ end }}{{ end }}"
        "{{ toJson $flags }}"
    )


def _driver(name: str) -> tuple[list[Value], list[Place]]:
    """Say what of any driver's can be set, and where."""
    prefix, target = f"drivers.{name}", ("Deployment", f"lbcf-{name}")
    repository, tag = _reference(REFERENCES[name])
    values = [
        Value(f"{prefix}.enabled", f"The driver of {_CALLED[name]}.", FLAG, False),
        Value(f"{prefix}.image.repository", "Of the driver.", TEXT, repository),
        Value(f"{prefix}.image.tag", "Its version.", TEXT, tag),
        Value(
            f"{prefix}.scope",
            "Namespaces whose load balancers it serves beside kube-system; * for all.",
            WORDS,
        ),
        Value(f"{prefix}.resources", "Requests and limits.", RESOURCES),
    ]
    places = [
        Place(*target, (*CONTAINER, "image"), expression=_image(f"{prefix}.image")),
        Place(*target, (*CONTAINER, "resources"), f"{prefix}.resources"),
        Place(*target, (*POD, "imagePullSecrets"), "imagePullSecrets", is_new=True),
        Place(
            "LoadBalancerDriver", f"lbcf-{name}", ("spec", "scope"), f"{prefix}.scope"
        ),
    ]
    return values, places


_CALLED = {"haproxy": "HAProxy", "envoy": "Envoy, and Envoys on the nodes"}
_LABELS = "{{ merge (fromJson @found) .Values.monitoring.labels | toJson }}"
_HAPROXY = ("Deployment", "lbcf-haproxy")
_ENVOY = ("Deployment", "lbcf-envoy")
_PROXIES = ("DaemonSet", "lbcf-envoy-edge")
_DRIVERS = [_driver(name) for name in _CALLED]
_PARTS = [_process(name) for name in OURS]
_OURS = _reference(REFERENCES["lbcf"])
_WAITER = _reference(REFERENCES["wait"])
_GATE_POLICY = ("MutatingAdmissionPolicy", "drain-gate.lbcf.tkestack.io")
_GATE_IMAGE = ".Values.drainGate.image.repository .Values.drainGate.image.tag"

VALUES: Final[Sequence[Value]] = (
    Value("image.repository", "Of all of our processes.", TEXT, _OURS[0]),
    Value("image.tag", "The version.", TEXT, _OURS[1]),
    Value("imagePullSecrets", "For a registry that asks who you are.", SECRETS, []),
    Value("namespace.name", "Where everything runs.", LABEL, "lbcf-system"),
    Value("namespace.create", "Whether it is made, for restricted pods.", FLAG, True),
    Value(
        "crds.install", "Whether the kinds are; no uninstall takes them.", FLAG, True
    ),
    Value(
        "shards",
        "Among how many leaders the work is divided; each has a replica, and one waits.",
        {"type": "integer", "minimum": 1, "maximum": MOST_SHARDS},
        1,
    ),
    *(value for values, _ in _PARTS for value in values),
    Value(
        "admission.enabled", "Drivers see objects before they are stored.", FLAG, True
    ),
    Value(
        "admission.failurePolicy",
        "While no replica answers: Fail refuses new objects, Ignore stores them unseen.",
        {"enum": ["Fail", "Ignore"]},
    ),
    Value(
        "admission.certificate",
        "own: made and renewed by itself; or cert-manager.",
        {"enum": ["own", "cert-manager"]},
        "own",
    ),
    *(value for values, _ in _DRIVERS for value in values),
    Value(
        "drivers.haproxy.allowSockets",
        "Runtime APIs that load balancers may name; make it narrow.",
        WORDS | {"minItems": 1},
        ["haproxy.lbcf-system.svc:9999"],
    ),
    Value(
        "drivers.envoy.allowListeners",
        "FLEET/IP:PORT that load balancers may listen on; * for what varies.",
        WORDS | {"minItems": 1},
        ["edge/0.0.0.0:80", "edge/0.0.0.0:443", "edge/0.0.0.0:8???"],
    ),
    Value("drivers.envoy.proxies.image", "Of the Envoys.", TEXT),
    Value("drivers.envoy.proxies.resources", "Requests and limits.", RESOURCES),
    Value("drivers.envoy.proxies.nodeSelector", "Nodes with an Envoy.", LABELS, {}),
    Value("drivers.envoy.storage", "Size of the driver's volume.", TEXT),
    Value(
        "drivers.envoy.storageClassName",
        "Of that volume; empty: the cluster's default.",
        {"type": "string"},
        "",
    ),
    Value(
        "drainGate.enabled",
        "SIGTERM when drained, for pods that ask for it; Kubernetes 1.36 or newer.",
        FLAG,
        False,
    ),
    Value("drainGate.image.repository", "Of their init container.", TEXT, _WAITER[0]),
    Value("drainGate.image.tag", "Its version.", TEXT, _WAITER[1]),
    Value(
        "drainGate.fallbackSeconds",
        "How long a pod waits at most while nothing of ours answers.",
        {"type": "integer", "minimum": 1, "maximum": 3600},
        60,
    ),
    Value(
        "readinessGate.enabled",
        "Pods that ask for it by a label get our readiness gate; Kubernetes 1.36 or newer.",
        FLAG,
        False,
    ),
    Value(
        "monitoring.enabled",
        "PodMonitor, alerts and dashboard; needs the kinds of the Prometheus operator.",
        FLAG,
        False,
    ),
    Value(
        "monitoring.runbookBase",
        "Put before runbook_url in the alerts: where your people read docs/, with a slash.",
        {"type": "string", "pattern": RUNBOOK_BASE},
        "",
    ),
    Value(
        "monitoring.labels",
        "More labels, for a Prometheus that takes only what has them.",
        LABELS,
        {},
    ),
)

PLACES: Final[Sequence[Place]] = (
    *(place for _, places in _PARTS for place in places),
    Place(
        "ValidatingWebhookConfiguration",
        "lbcf.tkestack.io",
        ("webhooks", 0, "failurePolicy"),
        "admission.failurePolicy",
    ),
    *(place for _, places in _DRIVERS for place in places),
    Place(
        *_HAPROXY,
        (*CONTAINER, "args"),
        expression=_flags("--allow-sockets", "drivers.haproxy.allowSockets"),
    ),
    Place(
        *_ENVOY,
        (*CONTAINER, "args"),
        expression=_flags("--allow-listeners", "drivers.envoy.allowListeners"),
    ),
    Place(*_PROXIES, (*CONTAINER, "image"), "drivers.envoy.proxies.image"),
    Place(*_PROXIES, (*CONTAINER, "resources"), "drivers.envoy.proxies.resources"),
    Place(
        *_PROXIES,
        (*POD, "nodeSelector"),
        "drivers.envoy.proxies.nodeSelector",
        is_new=True,
    ),
    Place(*_PROXIES, (*POD, "imagePullSecrets"), "imagePullSecrets", is_new=True),
    Place(
        "PersistentVolumeClaim",
        "lbcf-envoy",
        ("spec", "resources", "requests", "storage"),
        "drivers.envoy.storage",
    ),
    Place(
        "PersistentVolumeClaim",
        "lbcf-envoy",
        ("spec", "storageClassName"),
        "drivers.envoy.storageClassName",
        is_new=True,
    ),
    Place(
        *_GATE_POLICY,
        ("spec", "variables", 0, "expression"),
        expression=f"""{{{{ printf "'%s:%s'" {_GATE_IMAGE} | toJson }}}}""",
    ),
    Place(
        *_GATE_POLICY,
        ("spec", "variables", 1, "expression"),
        expression="""{{ printf "'%d'" (int .Values.drainGate.fallbackSeconds) | toJson }}""",
    ),
    *(
        Place(kind, "lbcf", ("metadata", "labels"), expression=_LABELS)
        for kind in ("PodMonitor", "PrometheusRule")
    ),
    *_runbooks(),
)


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turn names with dots into mappings of mappings."""
    whole: dict[str, Any] = {}
    for name, value in flat.items():
        *front, last = name.split(".")
        inner = whole
        for step in front:
            inner = inner.setdefault(step, {})
        inner[last] = value
    return whole
