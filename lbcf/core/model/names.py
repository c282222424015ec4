"""Every name of the API: group, kinds, labels, annotations, finalizers, names of records.

Those not marked as ours are LBCF's, with its meaning.
"""

import hashlib

from collections.abc import Iterable
from typing import Final

from lbcf.core.model.values import ObjectKey


API_GROUP: Final = "lbcf.tkestack.io"
API_VERSION: Final = f"{API_GROUP}/v1beta1"

FINALIZER_RECORD: Final = f"{API_GROUP}/deregister-backend"
FINALIZER_LOAD_BALANCER: Final = f"{API_GROUP}/delete-load-loadbalancer"
"""Misspelled since LBCF's first release; clusters hold objects with it."""
FINALIZER_DRIVER: Final = f"{API_GROUP}/driver-in-use"
"""Ours: holds a driver until nothing needs it any more."""

LABEL_DRAINING: Final = f"{API_GROUP}/driver-draining"
"""On a LoadBalancerDriver, with the value `true`: nothing new may use it."""
LABEL_DRIVER: Final = f"{API_GROUP}/lb-driver"
LABEL_LOAD_BALANCER: Final = f"{API_GROUP}/lb-name"
LABEL_GROUP: Final = f"{API_GROUP}/backend-group"
LABEL_POD: Final = f"{API_GROUP}/backend-pod"
LABEL_POD_UID: Final = f"{API_GROUP}/backend-pod-uid"
"""Ours: the uid of a record's pod, by which the drain gate finds all of a pod's records."""
LABEL_SERVICE: Final = f"{API_GROUP}/backend-service"
LABEL_NODE: Final = f"{API_GROUP}/backend-node"
"""Ours: the node of a record, whether for a Service or for itself."""
LABEL_STATIC: Final = f"{API_GROUP}/backend-static-addr"
LABEL_BUCKET: Final = f"{API_GROUP}/bucket"
"""Ours, on a record that was made by one of several shards: which of them ends it."""

BIND_VERSION: Final = f"{API_GROUP}/v1"
LABEL_BIND: Final = f"{API_GROUP}/bind"
LABEL_BIND_DRIVER: Final = f"{API_GROUP}/driver"
LABEL_BIND_LOAD_BALANCER: Final = f"{API_GROUP}/lb"
LABEL_BIND_POD: Final = f"{API_GROUP}/pod"

READINESS_GATE: Final = f"{API_GROUP}/registered"
"""Ours: the condition of a pod that says that it is registered, and its readiness gate."""

ANNOTATION_ABANDON: Final = f"{API_GROUP}/abandon"
"""Ours: takes a finalizer off without the driver; the value says why."""
ANNOTATION_DRAIN: Final = f"{API_GROUP}/drain"
"""Ours, on a pod, a node, a group or a Bind: takes what it names out of service, drained, and
keeps it out; the value says why."""
ANNOTATION_REMOVE_ORPHANS: Final = f"{API_GROUP}/remove-orphans"
"""Ours, on a LoadBalancer: the record ids whose members a person has confirmed to be nobody's,
separated by commas; the deregistrar takes those out, and no others."""
ANNOTATION_SETTLING: Final = f"{API_GROUP}/settling-seconds"
"""On a record: for how long an ensure of it may take effect, where that is not 25 s."""
ANNOTATION_DRAIN_GATE: Final = f"{API_GROUP}/drain-gate-seconds"
"""On a pod whose preStop waits until no record names it: for how long at most. Its records
say so, too: before their first ensure the pod is read."""
ANNOTATION_OWN_PRE_STOP: Final = f"{API_GROUP}/own-pre-stop"
"""On such a pod: its containers with a preStop hook of their own, which do not wait."""
ANNOTATION_TRAFFIC_POLICY: Final = f"{API_GROUP}/external-traffic-policy"
"""Ours, on a Service: `Local` announces a switch of its externalTrafficPolicy."""

FINALIZER_SERVICE: Final = "service.kubernetes.io/load-balancer-cleanup"
"""Kubernetes' own: whoever balances a Service takes it off when nothing is left."""
ANNOTATION_CLASS: Final = f"{API_GROUP}/load-balancer-class"
"""Ours, on a Service: the class that it was taken up with."""
ANNOTATION_BACKENDS: Final = f"{API_GROUP}/backends"
"""Ours, on a Service: `nodes` takes its node ports for backends, and not its pods."""
ANNOTATION_SHARED: Final = f"{API_GROUP}/shared-address"
"""Ours, on a Service: those of a namespace with the same value share an address."""
LABEL_EXPOSES: Final = f"{API_GROUP}/service"
"""On a LoadBalancer or group that is derived from a Service: its name."""
LABEL_EXPOSES_UID: Final = f"{API_GROUP}/service-uid"

SYSTEM_NAMESPACE: Final = "kube-system"
SHARED_PREFIX: Final = "lbcf-"
"""Drivers and load balancers so called live in kube-system and serve every namespace."""

_NAME_LIMIT = 63
_HASH_LENGTH = 12


def home_of(name: str, user_namespace: str) -> ObjectKey:
    """Return the key of a driver or load balancer that an object refers to by name."""
    shared = name.startswith(SHARED_PREFIX)
    return ObjectKey(SYSTEM_NAMESPACE if shared else user_namespace, name)


def is_shared(key: ObjectKey) -> bool:
    """Return whether a driver or load balancer serves every namespace."""
    return home_of(key.name, "") == key


_BIND: Final = "bind/"
"""No object's name has a slash: what a Bind is or holds is told apart by it."""


def bind_group_key(bind: ObjectKey) -> ObjectKey:
    """Return a Bind's key among the BackendGroups, none of which can have it."""
    return ObjectKey(bind.namespace, f"{_BIND}{bind.name}")


def bind_load_balancer_key(bind: ObjectKey, name: str) -> ObjectKey:
    """Return the key of a Bind's load balancer among the LoadBalancers."""
    return ObjectKey(bind.namespace, f"{_BIND}{bind.name}/{name}")


def bind_of(key: ObjectKey) -> ObjectKey | None:
    """Return the Bind that a key of the two kinds above is of; None: it is neither."""
    if not key.name.startswith(_BIND):
        return None
    return ObjectKey(key.namespace, key.name.split("/")[1])


def own_name(key: ObjectKey) -> str:
    """Return the name of a group or load balancer inside its own object."""
    return key.name.rpartition("/")[2]


def load_balancer_key(group: ObjectKey | None, name: str, namespace: str) -> ObjectKey:
    """Return the key of a load balancer that a group, or its record, names."""
    bind = None if group is None else bind_of(group)
    return (
        home_of(name, namespace) if bind is None else bind_load_balancer_key(bind, name)
    )


def digest(parts: Iterable[str], length: int = _HASH_LENGTH) -> str:
    """Hash a sequence of strings, unambiguously, to lower-case hexadecimal digits."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode()).hexdigest()[:length]


def label_value(text: str) -> str:
    """Return a text as the value of a label: itself, or a hash where it does not fit."""
    plain = text.replace("-", "").replace("_", "").replace(".", "")
    fits = len(text) <= _NAME_LIMIT and plain.isascii() and plain.isalnum()
    if fits and text[0].isalnum() and text[-1].isalnum():
        return text
    return digest([text], 40)


def record_name(group: str, backend: str, number: int, identity: Iterable[str]) -> str:
    """Return the name of a record: a readable part, then a hash of its identity.

    The same identity has the same name at every run, so that a create without an answer
    is found again, and not repeated under another name.
    """
    readable = f"{group}-{backend}-{number}".lower()
    clean = "".join(c if c.isascii() and c.isalnum() else "-" for c in readable)
    front = clean[: _NAME_LIMIT - 1 - _HASH_LENGTH].strip("-")
    return f"{front or 'record'}-{digest(identity)}"
