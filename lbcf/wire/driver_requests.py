"""What a driver is asked, one type per operation.

lbcf.drivers sends requests, lbcf.sdk receives them, `lbcf.wire.driver` turns them into
bytes and back. Each type names the type of its answer as its parameter.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Generic, TypeVar

import msgspec

from lbcf.core.model.values import MemberKey
from lbcf.wire.driver_answers import (
    Answer,
    BackendAnswer,
    BackendsAnswer,
    CreateLoadBalancerAnswer,
    DrainBackendAnswer,
    DrainBackendsAnswer,
    EnsureLoadBalancerAnswer,
    GenerateBackendAddrAnswer,
    HealthzAnswer,
    JudgePodDeregisterAnswer,
    ListBackendsAnswer,
    Message,
    RetriedAnswer,
    StringMap,
    ValidationAnswer,
    WholeObject,
)


Answer_co = TypeVar("Answer_co", bound=Answer, covariant=True)
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
PortNumber = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class ValidationOperation(StrEnum):
    """What the user is about to do with the object that is validated."""

    CREATE = "Create"
    UPDATE = "Update"


class BackendType(StrEnum):
    """What stands behind an address."""

    SERVICE = "Service"
    POD = "Pod"
    STATIC = "Static"
    NODE = "Node"


class Request(Message, Generic[Answer_co], frozen=True, kw_only=True):
    """What a driver is asked; the parameter is the type of its answer."""


class HealthzRequest(Request[HealthzAnswer], frozen=True, kw_only=True):
    """A look at the driver; nothing is said."""


class RetriedRequest(Request[Answer_co], Generic[Answer_co], frozen=True, kw_only=True):
    """An attempt at a task that is repeated until it succeeds.

    Attributes:
        record_id: names the task; the same at each attempt.
        retry_id: names the attempt.
        dry_run: nothing may be changed.
        not_after: a call that arrives later must be refused; None: no such limit.
    """

    record_id: str = msgspec.field(name="recordID")
    retry_id: str = msgspec.field(name="retryID", default="")
    dry_run: bool = False
    not_after: Moment | None = None


class ValidateLoadBalancerRequest(Request[ValidationAnswer], frozen=True, kw_only=True):
    """A load balancer to be; `old_attributes` are there on Update.

    Attributes:
        namespace: of the LoadBalancer or Bind; empty: the caller does not say.
        member_key: spec.memberKey of the LoadBalancerDriver; None: the caller does not say.
    """

    namespace: str = ""
    lb_spec: StringMap = msgspec.field(default_factory=dict)
    operation: ValidationOperation = ValidationOperation.CREATE
    attributes: StringMap = msgspec.field(default_factory=dict)
    old_attributes: StringMap | None = None
    member_key: MemberKey | None = None


class CreateLoadBalancerRequest(
    RetriedRequest[CreateLoadBalancerAnswer], frozen=True, kw_only=True
):
    """Create what `lb_spec` describes, or find it.

    Attributes:
        namespace: of the LoadBalancer or Bind; empty: the caller does not say.
        member_key: spec.memberKey of the LoadBalancerDriver; None: the caller does not say.
    """

    namespace: str = ""
    lb_spec: StringMap = msgspec.field(default_factory=dict)
    attributes: StringMap = msgspec.field(default_factory=dict)
    member_key: MemberKey | None = None


class LoadBalancerRequest(
    RetriedRequest[Answer_co], Generic[Answer_co], frozen=True, kw_only=True
):
    """A load balancer by its identity."""

    lb_info: StringMap = msgspec.field(default_factory=dict)
    attributes: StringMap = msgspec.field(default_factory=dict)


class EnsureLoadBalancerRequest(
    LoadBalancerRequest[EnsureLoadBalancerAnswer], frozen=True, kw_only=True
):
    """Give the load balancer these attributes.

    Attributes:
        namespace: of the LoadBalancer or Bind; empty: the caller does not say.
        member_key: spec.memberKey of the LoadBalancerDriver; None: the caller does not say.
    """

    namespace: str = ""
    member_key: MemberKey | None = None


class DeleteLoadBalancerRequest(
    LoadBalancerRequest[RetriedAnswer], frozen=True, kw_only=True
):
    """Delete the load balancer; one that is gone is deleted.

    `lb_info` is empty where createLoadBalancer was called and never answered Succ: then
    `lb_spec` and the record id, both as they were at that call, say what may be there.
    """

    lb_spec: StringMap = msgspec.field(default_factory=dict)


class ValidateBackendRequest(Request[ValidationAnswer], frozen=True, kw_only=True):
    """Parameters for backends; `old_parameters` are there on Update.

    Attributes:
        namespace: of the LoadBalancer or Bind; empty: the caller does not say.
    """

    namespace: str = ""
    backend_type: BackendType
    lb_info: StringMap = msgspec.field(default_factory=dict)
    operation: ValidationOperation = ValidationOperation.CREATE
    parameters: StringMap = msgspec.field(default_factory=dict)
    old_parameters: StringMap | None = None


class PortSelector(Message, frozen=True, kw_only=True):
    """A port, 1 to 65535; `port_number` is its old name and always the same."""

    port: PortNumber = 0
    port_number: PortNumber = 0
    protocol: str = "TCP"

    def __post_init__(self) -> None:
        """Set both names to the value of the one that was given; `port` goes first."""
        number = self.port or self.port_number
        if not number:
            raise ValueError("one of `port` and `portNumber` must be 1 to 65535")
        msgspec.structs.force_setattr(self, "port", number)
        msgspec.structs.force_setattr(self, "port_number", number)


class NodeAddress(Message, frozen=True, kw_only=True):
    """An address of a node and its type, such as InternalIP."""

    type: str
    address: str


class PodBackend(Message, frozen=True, kw_only=True):
    """A port of a pod."""

    pod: WholeObject
    port: PortSelector


class ServiceBackend(Message, frozen=True, kw_only=True):
    """The node port of a service on one node."""

    service: WholeObject
    port: PortSelector
    node_name: str = ""
    node_addresses: Sequence[NodeAddress] = ()


class NodeBackend(Message, frozen=True, kw_only=True):
    """A port of a node."""

    node: WholeObject
    port: PortSelector


class GenerateBackendAddrRequest(
    RetriedRequest[GenerateBackendAddrAnswer],
    frozen=True,
    kw_only=True,
):
    """A backend without an address; exactly one of the three backends is there.

    Attributes:
        member_key: spec.memberKey of the LoadBalancerDriver; None: the caller does not say.
    """

    lb_info: StringMap = msgspec.field(default_factory=dict)
    lb_attributes: StringMap = msgspec.field(default_factory=dict)
    parameters: StringMap = msgspec.field(default_factory=dict)
    member_key: MemberKey | None = None
    pod_backend: PodBackend | None = None
    service_backend: ServiceBackend | None = None
    node_backend: NodeBackend | None = None

    def __post_init__(self) -> None:
        """Refuse none and several."""
        backends = (self.pod_backend, self.service_backend, self.node_backend)
        if sum(backend is not None for backend in backends) != 1:
            raise ValueError(
                "exactly one of `podBackend`, `serviceBackend` and `nodeBackend` is due"
            )


class BackendRequest(
    RetriedRequest[Answer_co],
    Generic[Answer_co],
    frozen=True,
    kw_only=True,
):
    """One member of one load balancer: `BackendRequest[BackendAnswer]` is any of these requests.

    Attributes:
        member_key: spec.memberKey of the LoadBalancerDriver; None: the caller does not say.
    """

    lb_info: StringMap = msgspec.field(default_factory=dict)
    backend_addr: str
    parameters: StringMap = msgspec.field(default_factory=dict)
    injected_info: StringMap = msgspec.field(default_factory=dict)
    member_key: MemberKey | None = None


class EnsureBackendRequest(BackendRequest[BackendAnswer], frozen=True, kw_only=True):
    """Put the member into full service, with these parameters.

    Attributes:
        namespace: of the LoadBalancer or Bind; empty: the caller does not say.
    """

    namespace: str = ""


class DeregisterBackendRequest(
    BackendRequest[BackendAnswer], frozen=True, kw_only=True
):
    """Take the member out; without `drained` the driver may cut what is left on it."""

    drained: bool = False


class Drain(Message, frozen=True, kw_only=True):
    """When a drain began and when waiting for it ends."""

    started_at: Moment
    deadline: Moment


class DrainBackendRequest(
    BackendRequest[DrainBackendAnswer], frozen=True, kw_only=True
):
    """Send nothing new to the member, let what runs go on, tell what is left."""

    drain: Drain | None = None


MOST_ITEMS = 1000
"""Items of a batch, at most."""


def _check_items(items: Sequence[BackendRequest[BackendAnswer]]) -> None:
    """Refuse a batch that cannot be answered by recordID.

    Raises:
        ValueError: it has too many items, none, or two of one record.
    """
    if not 0 < len(items) <= MOST_ITEMS:
        raise ValueError(f"`items` must be 1 to {MOST_ITEMS}")
    if len({item.record_id for item in items}) != len(items):
        raise ValueError("`items` must have each recordID once")


class EnsureBackendsRequest(Request[BackendsAnswer], frozen=True, kw_only=True):
    """Put many members of one load balancer into full service.

    Attributes:
        items: the calls of ensureBackend that it stands for, one for each record.
    """

    items: Sequence[EnsureBackendRequest]

    def __post_init__(self) -> None:
        """Refuse what cannot be answered."""
        _check_items(self.items)


class DeregisterBackendsRequest(Request[BackendsAnswer], frozen=True, kw_only=True):
    """Take many members of one load balancer out.

    Attributes:
        items: the calls of deregisterBackend that it stands for, one for each record.
    """

    items: Sequence[DeregisterBackendRequest]

    def __post_init__(self) -> None:
        """Refuse what cannot be answered."""
        _check_items(self.items)


class DrainBackendsRequest(Request[DrainBackendsAnswer], frozen=True, kw_only=True):
    """Send nothing new to many members of one load balancer.

    Attributes:
        items: the calls of drainBackend that it stands for, one for each record.
    """

    items: Sequence[DrainBackendRequest]

    def __post_init__(self) -> None:
        """Refuse what cannot be answered."""
        _check_items(self.items)


BatchRequest = EnsureBackendsRequest | DeregisterBackendsRequest | DrainBackendsRequest


class JudgePodDeregisterRequest(
    Request[JudgePodDeregisterAnswer], frozen=True, kw_only=True
):
    """Pods that are neither ready nor being deleted: which are to stay.

    Attributes:
        dry_run: nothing may be changed.
    """

    dry_run: bool = False
    not_ready_pods: Sequence[WholeObject] = ()


class ListBackendsRequest(Request[ListBackendsAnswer], frozen=True, kw_only=True):
    """A load balancer whose members, put there by this driver, are to be told."""

    lb_info: StringMap = msgspec.field(default_factory=dict)
    attributes: StringMap = msgspec.field(default_factory=dict)
