"""All that a driver's author needs: `from lbcf import sdk`.

Write a subclass of `Driver`, end the module with `run(MyDriver, default_port=9000)`.
"""

from lbcf.core.model.operations import Operation
from lbcf.core.model.values import MemberKey
from lbcf.runtime.clock import Clock, SystemClock
from lbcf.sdk.credentials import CredentialFiles
from lbcf.sdk.driver import (
    Driver,
    Fail,
    NotThere,
    Permanent,
    Refusal,
    RetryAfter,
    Running,
    Succ,
)
from lbcf.sdk.run import run, serve
from lbcf.sdk.server import Service
from lbcf.wire.driver_answers import (
    Answer,
    BackendAnswer,
    BackendState,
    Ingress,
    IngressPort,
    ListBackendsAnswer,
    ListedBackend,
    Status,
    WholeObject,
)
from lbcf.wire.driver_requests import (
    BackendRequest,
    BackendType,
    CreateLoadBalancerRequest,
    DeleteLoadBalancerRequest,
    DeregisterBackendRequest,
    Drain,
    DrainBackendRequest,
    EnsureBackendRequest,
    EnsureLoadBalancerRequest,
    GenerateBackendAddrRequest,
    JudgePodDeregisterRequest,
    ListBackendsRequest,
    NodeAddress,
    NodeBackend,
    PodBackend,
    PortSelector,
    Request,
    RetriedRequest,
    ServiceBackend,
    ValidateBackendRequest,
    ValidateLoadBalancerRequest,
    ValidationOperation,
)


__all__ = [
    "Answer",
    "BackendAnswer",
    "BackendRequest",
    "BackendState",
    "BackendType",
    "Clock",
    "CreateLoadBalancerRequest",
    "CredentialFiles",
    "DeleteLoadBalancerRequest",
    "DeregisterBackendRequest",
    "Drain",
    "DrainBackendRequest",
    "Driver",
    "EnsureBackendRequest",
    "EnsureLoadBalancerRequest",
    "Fail",
    "GenerateBackendAddrRequest",
    "Ingress",
    "IngressPort",
    "JudgePodDeregisterRequest",
    "ListBackendsAnswer",
    "ListBackendsRequest",
    "ListedBackend",
    "MemberKey",
    "NodeAddress",
    "NodeBackend",
    "NotThere",
    "Operation",
    "Permanent",
    "PodBackend",
    "PortSelector",
    "Refusal",
    "Request",
    "RetriedRequest",
    "RetryAfter",
    "Running",
    "Service",
    "ServiceBackend",
    "Status",
    "Succ",
    "SystemClock",
    "ValidateBackendRequest",
    "ValidateLoadBalancerRequest",
    "ValidationOperation",
    "WholeObject",
    "run",
    "serve",
]
