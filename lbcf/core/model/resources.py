"""Our own kinds as values: drivers, load balancers, groups, records.

`lbcf.wire.resources` reads them from JSON and writes them back.
"""

import math

from collections.abc import Mapping
from datetime import datetime, timedelta

import attrs

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.departures import Departure
from lbcf.core.model.names import (
    ANNOTATION_ABANDON,
    ANNOTATION_DRAIN,
    ANNOTATION_DRAIN_GATE,
    ANNOTATION_SETTLING,
    FINALIZER_RECORD,
    LABEL_DRAINING,
    bind_of,
    home_of,
    load_balancer_key,
)
from lbcf.core.model.node_backends import (
    NodeRef,
    NodeSelection,
    ServiceRef,
    ServiceSelection,
)
from lbcf.core.model.operations import Operation
from lbcf.core.model.selectors import Selector
from lbcf.core.model.values import (
    NO_DRAIN,
    AddressSource,
    BatchShape,
    BootTime,
    DeregisterPolicy,
    DeregisterWebhook,
    DrainPolicy,
    EnsurePolicy,
    Gate,
    Ingress,
    Listed,
    MemberKey,
    NamedPort,
    ObjectKey,
    Port,
    ReplaceOrder,
    Uid,
)


@attrs.frozen
class Meta:
    """What every stored object has of its metadata.

    Attributes:
        key: namespace and name.
        uid: the identity of this very object; a namesake has another.
        resource_version: the version that was read, opaque but for its order (KEP-5504).
        generation: counts changes of the spec.
        deleting_since: deletionTimestamp, None while it lives.
        finalizers: who must agree before it goes.
        labels: all labels.
        annotations: those of our own API group.
    """

    key: ObjectKey
    uid: Uid
    resource_version: str
    generation: int = 0
    deleting_since: datetime | None = None
    finalizers: tuple[str, ...] = ()
    labels: Mapping[str, str] = attrs.Factory(dict)
    annotations: Mapping[str, str] = attrs.Factory(dict)

    @property
    def abandoned(self) -> str:
        """Return the reason in the abandon annotation; empty: there is none."""
        # An empty value is no order: a template may have left it so.
        return self.annotations.get(ANNOTATION_ABANDON, "").strip()

    @property
    def drained_for(self) -> str:
        """Return the reason in the drain annotation; empty: there is none."""
        return self.annotations.get(ANNOTATION_DRAIN, "").strip()

    @property
    def gate_wait(self) -> timedelta | None:
        """Return for how long a pod waits for the end of its records; None: unsaid.

        A record has its pod's annotation.
        """
        said = self.annotations.get(ANNOTATION_DRAIN_GATE, "")
        is_number = said.isascii() and said.isdecimal() and len(said) <= _WAIT_DIGITS
        return timedelta(seconds=int(said)) if is_number else None


SENDING_MARGIN = timedelta(seconds=2)
"""From a permission to the latest moment at which its call is sent."""
_SKEW_AND_TRUNCATION = timedelta(seconds=3)
_DEFAULT_TIMEOUT = timedelta(seconds=10)
_DEFAULT_LATE_EFFECT = timedelta(seconds=10)
USUAL_SETTLING = (
    _DEFAULT_TIMEOUT + SENDING_MARGIN + _DEFAULT_LATE_EFFECT + _SKEW_AND_TRUNCATION
)
"""Δ of a driver that says nothing of its times, and of records that say nothing of it."""
GATE_TIMEOUT = timedelta(minutes=10)
"""For how long a readiness gate waits for a group that says nothing of it."""
_DIGITS = 4
"""Of the longest Δ in seconds: a time-out of a minute, lateEffectSeconds of an hour."""
_WAIT_DIGITS = 7
"""Of the longest wait of a preStop hook in seconds: grace periods may be of many days."""


@attrs.frozen
class SecretKey:
    """A key of a Secret in the namespace of who names it."""

    name: str
    key: str


@attrs.frozen
class Security:
    """How a driver is called: `spec.tls` and `spec.auth`.

    Attributes:
        ca_bundle: PEM certificates that its own must chain to; empty: the system's.
        server_name: that its certificate must carry; empty: the host of its URL.
        client_certificate: name of a Secret with `tls.crt` and `tls.key`; empty: none.
        token: where the bearer token is; None: none is sent.
    """

    ca_bundle: bytes = attrs.field(default=b"", repr=False)
    server_name: str = ""
    client_certificate: str = ""
    token: SecretKey | None = None


@attrs.frozen
class LoadBalancerDriver:
    """A webhook service that operates load balancers of one make.

    Attributes:
        url: where its operations live.
        timeouts: by operation, for those that the driver lists.
        batches: by operation on one member, for those whose calls it takes together.
        late_effect: how long after a time-out a call may still take effect.
        max_concurrent_calls: how many calls it takes at the same time.
        security: how it is known, and how it knows us.
        scope: namespaces whose load balancers it serves beside its own; `*` for all;
            None where unsaid: all, as LBCF has it.
    """

    meta: Meta
    url: str
    timeouts: Mapping[str, timedelta] = attrs.Factory(dict)
    batches: Mapping[str, BatchShape] = attrs.Factory(dict)
    accept_dry_run: bool = False
    member_key: MemberKey = MemberKey.ADDRESS
    address_source: AddressSource = AddressSource.DRIVER
    late_effect: timedelta = _DEFAULT_LATE_EFFECT
    max_concurrent_calls: int = 32
    security: Security = Security()
    scope: tuple[str, ...] | None = None
    conditions: tuple[Condition, ...] = ()

    @property
    def secrets(self) -> frozenset[ObjectKey]:
        """Return the keys of the Secrets that it names, all in its own namespace."""
        token = self.security.token
        names = {self.security.client_certificate, token.name if token else ""}
        home = self.meta.key.namespace
        return frozenset(ObjectKey(home, name) for name in names if name)

    @property
    def is_leaving(self) -> bool:
        """Return whether it takes no new load balancers: draining, or being deleted."""
        draining = self.meta.labels.get(LABEL_DRAINING) == "true"
        return draining or self.meta.deleting_since is not None

    def serves(self, namespace: str) -> bool:
        """Return whether load balancers of a namespace may have this driver."""
        if self.scope is None or namespace == self.meta.key.namespace:
            return True
        return namespace in self.scope or "*" in self.scope

    def declares(self, operation: Operation) -> bool:
        """Return whether the driver lists this operation (needed for optional ones)."""
        return operation in self.timeouts

    def batch(self, operation: Operation) -> BatchShape | None:
        """Return how calls of an operation on one member are gathered; None: not at all."""
        return self.batches.get(operation)

    @property
    def largest_batch(self) -> int:
        """Return how many members one call may be about."""
        return max((shape.max_items for shape in self.batches.values()), default=1)

    @property
    def turns_at_once(self) -> int:
        """Return how many members its calls under way may be about at the same time."""
        return self.max_concurrent_calls * self.largest_batch

    def timeout(self, operation: Operation) -> timedelta:
        """Return the time-out of one call of an operation."""
        return self.timeouts.get(operation, _DEFAULT_TIMEOUT)

    def window(self, operation: Operation) -> timedelta:
        """Return how long after its permission began a call must have ended (W)."""
        return self.timeout(operation) + SENDING_MARGIN

    def settling(self, operation: Operation) -> timedelta:
        """Return how long a call without a definite answer may still take effect (Δ).

        The window, the driver's lateEffectSeconds, one second since deletionTimestamp is
        cut to seconds, and two for clocks that differ; whole seconds, rounded up.
        """
        exact = self.window(operation) + self.late_effect + _SKEW_AND_TRUNCATION
        return timedelta(seconds=math.ceil(exact.total_seconds()))

    @property
    def end_settling(self) -> timedelta:
        """Return Δ of the calls for a record's end, the longest."""
        # A drainBackend that takes effect late would drain the next owner of the address.
        longest = self.settling(Operation.DEREGISTER_BACKEND)
        if self.declares(Operation.DRAIN_BACKEND):
            longest = max(longest, self.settling(Operation.DRAIN_BACKEND))
        return longest


@attrs.frozen
class LoadBalancer:
    """A load balancer as the user asked for it, and its identity once created.

    Attributes:
        info: the identity that the driver gave it; None until it is created.
        scope: namespaces that may use it; `*` for all; empty for its own.
        epoch: what listBackends said of its memory when all records were last in.
        backends: how many records were registered when that was last counted.
        lock_keys: what it has in common with others that have the same members (see
            `locking`), the newest first; empty where that is not written down yet.
        gate: whether readiness gates wait for registrations there.
        ingress: where clients reach it, as its driver says.
        pool: the class of whose addresses it is to have one; empty: of none.
        address: that it has been given; empty: none yet.
        orphans: the first members, in order, whose records do not exist; of a Bind's none
            are named.
    """

    meta: Meta
    driver: str
    spec: Mapping[str, str]
    attributes: Mapping[str, str] = attrs.Factory(dict)
    scope: tuple[str, ...] = ()
    ensure_policy: EnsurePolicy = EnsurePolicy()
    drain: DrainPolicy | None = None
    max_concurrent_calls: int | None = None
    info: Mapping[str, str] | None = None
    epoch: str = ""
    backends: int = 0
    lock_keys: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    gate: Gate = Gate.REQUIRED
    ingress: tuple[Ingress, ...] = ()
    pool: str = ""
    address: str = ""
    orphans: tuple[Listed, ...] = ()

    @property
    def driver_key(self) -> ObjectKey:
        """Return the key of its driver."""
        return home_of(self.driver, self.meta.key.namespace)

    @property
    def may_exist(self) -> bool:
        """Return whether its driver has created it, or may have."""
        return self.info is not None or conditions.is_begun(self.conditions)

    def is_open_to(self, namespace: str) -> bool:
        """Return whether groups of a namespace may use it."""
        home = namespace == self.meta.key.namespace
        return home or namespace in self.scope or "*" in self.scope

    def is_of(self, spec: "RecordSpec") -> bool:
        """Return whether it is the load balancer that a record names, not one made anew."""
        return spec.driver == self.driver and spec.lb_info == (self.info or {})


@attrs.frozen
class PodSelection:
    """Which pods of its namespace a group means.

    Attributes:
        ports: each of them becomes a backend of each pod; one that is named, of each pod
            with a container that has a port of that name.
        selector: by labels; None where pods are named.
        names: by name; None where pods are selected.
        excluded: names that the selector must not catch.
    """

    ports: tuple[Port | NamedPort, ...]
    selector: Selector | None = None
    names: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a pod belongs to the group."""
        if self.names is not None:
            return name in self.names
        matched = self.selector is not None and self.selector.matches(labels)
        return matched and name not in self.excluded


@attrs.frozen
class StaticSelection:
    """Addresses that the user gives literally."""

    addresses: tuple[str, ...]


Selection = PodSelection | StaticSelection | ServiceSelection | NodeSelection


@attrs.frozen
class GroupStatus:
    """What a group's status says.

    Attributes:
        backends: backends selected, ready or not, each once; none that terminates.
        registered: records that are in their load balancer.
        draining: records on their way out.
        in_service: registered ones that their load balancer does not call down; None:
            none of their load balancers can be asked.
        departed: registrations that have ended, newest first.
    """

    backends: int = 0
    registered: int = 0
    draining: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    in_service: int | None = None
    departed: tuple[Departure, ...] = ()


@attrs.frozen
class BackendGroup:
    """Which backends go to which load balancers, and how.

    Attributes:
        webhook: whom policy Webhook asks; None under any other policy.
        drain: None where the load balancer's default holds.
        max_unready_percent: above this part of unready backends, removals that only
            readiness asks for are held; None: never.
        max_unavailable: how many ready pods may be missing at a load balancer while
            others that still serve leave it.
        replace_order: what comes first where pods replace each other.
        status: counts and conditions as last written, for comparison.
        gate: whether readiness gates of its pods wait for their registrations.
        gate_timeout: for how long they do at most, None: for as long as it takes.
    """

    meta: Meta
    load_balancers: tuple[str, ...]
    selection: Selection
    parameters: Mapping[str, str] = attrs.Factory(dict)
    deregister_policy: DeregisterPolicy = DeregisterPolicy.IF_NOT_READY
    ensure_policy: EnsurePolicy = EnsurePolicy()
    drain: DrainPolicy | None = None
    max_unready_percent: int | None = None
    max_unavailable: int = 0
    replace_order: ReplaceOrder = ReplaceOrder.REGISTER_FIRST
    status: GroupStatus = GroupStatus()
    webhook: DeregisterWebhook | None = None
    gate: Gate = Gate.REQUIRED
    gate_timeout: timedelta | None = GATE_TIMEOUT

    @property
    def webhook_driver_key(self) -> ObjectKey | None:
        """Return the key of the driver that policy Webhook asks, None: no driver."""
        if self.webhook is None:
            return None
        return home_of(self.webhook.driver, self.meta.key.namespace)

    @property
    def is_bind(self) -> bool:
        """Return whether it is derived from a Bind."""
        return bind_of(self.meta.key) is not None

    def load_balancer_key(self, name: str) -> ObjectKey:
        """Return the key of one of its load balancers."""
        return load_balancer_key(self.meta.key, name, self.meta.key.namespace)


@attrs.frozen
class PodRef:
    """A port of a pod; uid is empty in records that LBCF in Go wrote."""

    name: str
    uid: Uid
    port: Port


@attrs.frozen
class StaticRef:
    """A literal address."""

    address: str


Backend = PodRef | StaticRef | ServiceRef | NodeRef


def backend_name(backend: Backend) -> str:
    """Return a backend with its port: `web-1:80`."""
    match backend:
        case PodRef(name, _, port):
            return f"{name}:{port.number}"
        case StaticRef(literal):
            return literal
        case ServiceRef(name, port, _, node):
            return f"{node} for {name}:{port.number}"
        case NodeRef(name, port):
            return f"{name}:{port.number}"


@attrs.frozen
class RecordSpec:
    """What is to be registered, copied so that it outlives group and load balancer.

    Attributes:
        address: known beforehand, else found by the registrar (see RecordStatus).
        host: the backend's own IP address or host name when the record was made, whoever
            spells what is registered; empty for static addresses, and in records of LBCF
            in Go and of earlier versions.
        node_uid: of the backend's node at that time, empty where it is none.
    """

    load_balancer: str
    driver: str
    lb_info: Mapping[str, str]
    backend: Backend
    lb_attributes: Mapping[str, str] = attrs.Factory(dict)
    parameters: Mapping[str, str] = attrs.Factory(dict)
    ensure_policy: EnsurePolicy = EnsurePolicy()
    address: str = ""
    drain: DrainPolicy = NO_DRAIN
    host: str = ""
    node_uid: Uid = Uid("")


@attrs.frozen
class DrainProgress:
    """A drain that had to wait; its clock survives restarts because it is written.

    Attributes:
        connections: as the driver last said, None where it does not say.
    """

    started_at: datetime
    deadline: datetime
    connections: int | None = None


ANY_INCARNATION = "*"
"""Several incarnations: in `ensuring`, any of them may have an ensure out; in
`deregistrar`, more than one may have called for the end of the record."""
SIGNED_OFF = "-"
"""In `ensuring` of a record that ends: no ensure of it is out, nor will be."""


@attrs.frozen
class Waiting:
    """The lock on its address that a record waits for.

    Attributes:
        holder: uid of the record that has the lock.
        is_over: its deregistrar knows that it has ended, and that each call for its end
            had a definite answer, or is over: none can take effect any more.
        gone_at: since when that record is known to be gone, or all calls for its end to
            have been sent; None: it is not.
    """

    holder: Uid
    is_over: bool = False
    gone_at: BootTime | None = None


@attrs.frozen
class RecordStatus:
    """How far a record is.

    Attributes:
        address: written before the first ensure where the spec has none.
        injected_info: what the driver gave back, sent along with every later call.
        ensuring: the incarnation that may have an ensure out, `*` for an unknown one.
        next_attempt: as planned when a condition was last written.
        backend_gone: the backend did not exist any more, or not at this address, while
            it was being drained: nothing is left to drain.
        deregistrar: the incarnation that may call for the record's end without writing
            first, `*` when another one may have called; empty: unknown.
        waiting: for the end of another record with the same address; None: for none.
        deletion_seen_at: when the deregistrar saw the deletion; only written where it
            waits for ensures that may be out.
        lock_settling: for how long calls for the record's end may take effect as the lock
            on its address says; zero: unknown, or there is no lock.
    """

    address: str = ""
    injected_info: Mapping[str, str] = attrs.Factory(dict)
    conditions: tuple[Condition, ...] = ()
    ensuring: str = ""
    drain: DrainProgress | None = None
    next_attempt: datetime | None = None
    backend_gone: bool = False
    deregistrar: str = ""
    waiting: Waiting | None = None
    deletion_seen_at: BootTime | None = None
    lock_settling: timedelta = timedelta(0)


@attrs.frozen
class BackendRecord:
    """One backend at one load balancer: written before it is done, kept until undone.

    Attributes:
        group: key of the owning group (of a Bind: its key among groups), None where
            nothing owns it.
        group_uid: of that very group.
    """

    meta: Meta
    spec: RecordSpec
    status: RecordStatus = RecordStatus()
    group: ObjectKey | None = None
    group_uid: Uid = Uid("")

    @property
    def address(self) -> str:
        """Return the address that may be registered; empty: none was."""
        return self.spec.address or self.status.address

    @property
    def driver_key(self) -> ObjectKey:
        """Return the key of its driver."""
        return home_of(self.spec.driver, self.meta.key.namespace)

    @property
    def settling(self) -> timedelta:
        """Return how long ensures of it that are out may take effect, by its annotation.

        No less than Δ of the driver as the sender of each ensure saw it; the deregistrar
        may see another version of the driver (w50).
        """
        said = self.meta.annotations.get(ANNOTATION_SETTLING, "")
        is_number = said.isascii() and said.isdecimal() and len(said) <= _DIGITS
        return timedelta(seconds=int(said)) if is_number else USUAL_SETTLING

    @property
    def is_gated(self) -> bool:
        """Return whether its pod is told to end only when no record names it any more."""
        return ANNOTATION_DRAIN_GATE in self.meta.annotations

    @property
    def load_balancer_key(self) -> ObjectKey:
        """Return the key of its load balancer."""
        where = self.meta.key.namespace
        return load_balancer_key(self.group, self.spec.load_balancer, where)

    @property
    def is_deleting(self) -> bool:
        """Return whether it has a deletionTimestamp."""
        return self.meta.deleting_since is not None

    @property
    def is_held(self) -> bool:
        """Return whether it has our finalizer."""
        return FINALIZER_RECORD in self.meta.finalizers

    @property
    def is_in(self) -> bool:
        """Return whether it is registered, with its present spec or with an earlier one."""
        registered = conditions.find(self.status.conditions, conditions.REGISTERED)
        return registered is not None and registered.status is True

    @property
    def has_failed(self) -> bool:
        """Return whether it is not registered, and its condition says why not."""
        registered = conditions.find(self.status.conditions, conditions.REGISTERED)
        return registered is not None and registered.status is not True

    @property
    def is_registered(self) -> bool:
        """Return whether its present spec is registered in the load balancer."""
        registered = conditions.find(self.status.conditions, conditions.REGISTERED)
        if registered is None or registered.status is not True:
            return False
        ensured = registered.observed_generation == self.spec_generation
        return ensured or self.is_legacy

    @property
    def spec_generation(self) -> int:
        """Return the generation that its spec had last."""
        # A deletion that finalizers hold up counts as a change of the spec: the API
        # server raises metadata.generation by one when it sets deletionTimestamp.
        return self.meta.generation - (1 if self.is_deleting else 0)

    @property
    def is_legacy(self) -> bool:
        """Return whether LBCF in Go wrote the address, and this project nothing since."""
        # Our own writes of an address set `ensuring`, and clear it only together with a
        # Registered that has a generation, which LBCF's conditions never have.
        registered = conditions.find(self.status.conditions, conditions.REGISTERED)
        unsaid = registered is None or not registered.observed_generation
        mine = self.spec.address or self.status.ensuring
        return bool(self.status.address) and unsaid and not mine

    @property
    def is_settled(self) -> bool:
        """Return whether no ensure can be out: one deregistration is enough."""
        if self.spec.ensure_policy.is_always:
            return False
        is_unmarked = not self.status.ensuring and not self.is_legacy
        is_over = self.is_registered and is_unmarked
        return is_over or self.status.ensuring == SIGNED_OFF
