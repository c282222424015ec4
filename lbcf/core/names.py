"""Every name of the API: group, kinds, labels, annotations, finalizers, record names.

All but those marked as ours are LBCF's and keep their meaning.
"""

import hashlib

from collections.abc import Iterable
from typing import Final

from lbcf.core.values import ObjectKey


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
LABEL_STATIC: Final = f"{API_GROUP}/backend-static-addr"
ANNOTATION_ABANDON: Final = f"{API_GROUP}/abandon"
"""Ours: takes a finalizer off without the driver; the value says why."""

SYSTEM_NAMESPACE: Final = "kube-system"
SHARED_PREFIX: Final = "lbcf-"
"""Drivers and load balancers so called live in kube-system and serve every namespace."""

_NAME_LIMIT = 63
_HASH_LENGTH = 12


def home_of(name: str, user_namespace: str) -> ObjectKey:
    """Say where a driver or load balancer lives that an object refers to by name."""
    shared = name.startswith(SHARED_PREFIX)
    return ObjectKey(SYSTEM_NAMESPACE if shared else user_namespace, name)


def digest(parts: Iterable[str], length: int = _HASH_LENGTH) -> str:
    """Hash a sequence of strings, unambiguously, to lower-case hexadecimal digits."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode()).hexdigest()[:length]


def label_value(text: str) -> str:
    """Make a label's value of any text: itself, or a hash where labels cannot hold it."""
    plain = text.replace("-", "").replace("_", "").replace(".", "")
    fits = len(text) <= _NAME_LIMIT and plain.isascii() and plain.isalnum()
    if fits and text[0].isalnum() and text[-1].isalnum():
        return text
    return digest([text], 40)


def record_name(group: str, backend: str, number: int, identity: Iterable[str]) -> str:
    """Name a record: readable in front, a hash of its whole identity behind.

    The same identity gets the same name at every run, so that a create that was
    answered by nobody is found again, and not repeated under another name.
    """
    readable = f"{group}-{backend}-{number}".lower()
    clean = "".join(c if c.isascii() and c.isalnum() else "-" for c in readable)
    front = clean[: _NAME_LIMIT - 1 - _HASH_LENGTH].strip("-")
    return f"{front or 'record'}-{digest(identity)}"
