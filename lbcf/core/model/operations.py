"""The operations that a driver may offer, by their names on the wire."""

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
