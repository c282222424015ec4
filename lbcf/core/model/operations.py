"""The operations that a driver may offer, by their names on the wire."""

from collections.abc import Mapping
from enum import StrEnum


class Operation(StrEnum):
    """One call of the driver protocol; the value is the last part of its URL."""

    HEALTHZ = "healthz"
    VALIDATE_LOAD_BALANCER = "validateLoadBalancer"
    CREATE_LOAD_BALANCER = "createLoadBalancer"
    ENSURE_LOAD_BALANCER = "ensureLoadBalancer"
    DELETE_LOAD_BALANCER = "deleteLoadBalancer"
    VALIDATE_BACKEND = "validateBackend"
    GENERATE_BACKEND_ADDR = "generateBackendAddr"
    ENSURE_BACKEND = "ensureBackend"
    DEREGISTER_BACKEND = "deregisterBackend"
    JUDGE_POD_DEREGISTER = "judgePodDeregister"
    LIST_BACKENDS = "listBackends"
    DRAIN_BACKEND = "drainBackend"
    ENSURE_BACKENDS = "ensureBackends"
    DEREGISTER_BACKENDS = "deregisterBackends"
    DRAIN_BACKENDS = "drainBackends"


BATCHED: Mapping[Operation, Operation] = {
    Operation.ENSURE_BACKEND: Operation.ENSURE_BACKENDS,
    Operation.DEREGISTER_BACKEND: Operation.DEREGISTER_BACKENDS,
    Operation.DRAIN_BACKEND: Operation.DRAIN_BACKENDS,
}
"""The operations on one member, and what does the same to many in one call."""

SINGLE: Mapping[Operation, Operation] = {many: one for one, many in BATCHED.items()}
"""The operation that a batch has items of."""
