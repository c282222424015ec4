"""The smallest values: identities, ports, policies. They know only themselves."""

from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple, NewType

import attrs


Uid = NewType("Uid", str)


class ObjectKey(NamedTuple):
    """Namespace and name of an object; the key of stores, queues and log lines."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Write it as kubectl does: `namespace/name`."""
        return f"{self.namespace}/{self.name}"


Listed = tuple[str, str]
"""Address and record id of a member, as its driver lists it; the id may be unknown."""


@attrs.frozen
class BatchShape:
    """How calls of one operation may be gathered into one.

    Attributes:
        max_items: at most so many in a batch.
        max_delay: how long they are gathered while another batch is under way.
    """

    max_items: int
    max_delay: timedelta


class Protocol(StrEnum):
    """The transport protocol of a backend's port."""

    TCP = "TCP"
    UDP = "UDP"


class Port(NamedTuple):
    """A port (1-65535) with its protocol."""

    number: int
    protocol: Protocol = Protocol.TCP

    def __str__(self) -> str:
        """Write it as `80/TCP`."""
        return f"{self.number}/{self.protocol}"


def host_port(host: str, port: Port) -> str:
    """Write an address as drivers take it; IPv6 in brackets (RFC 3986)."""
    return f"[{host}]:{port.number}" if ":" in host else f"{host}:{port.number}"


@attrs.frozen
class Ingress:
    """Where clients reach a load balancer: one address, by IP or by name.

    Attributes:
        ip: empty where it has a host name.
        hostname: empty where it has an IP.
        ports: that answer there; empty where that is not said.
        ip_mode: in a Service's status: whether nodes may take a short cut to an IP (VIP) or
            leave it to the load balancer (Proxy); empty elsewhere.
    """

    ip: str = ""
    hostname: str = ""
    ports: tuple[Port, ...] = ()
    ip_mode: str = ""

    def __str__(self) -> str:
        """Write the address."""
        return self.ip or self.hostname


class NamedPort(NamedTuple):
    """A port of a container by its name; each pod says which number that is."""

    name: str
    protocol: Protocol = Protocol.TCP


class MemberKey(StrEnum):
    """What identifies a member of a load balancer."""

    ADDRESS = "Address"
    RECORD = "Record"


class AddressSource(StrEnum):
    """Where a backend's address comes from: its driver, or the backend itself."""

    DRIVER = "Driver"
    BACKEND = "Backend"


class Repeat(StrEnum):
    """Whether an operation that succeeded is called again by period."""

    IF_NOT_SUCC = "IfNotSucc"
    ALWAYS = "Always"


@attrs.frozen
class EnsurePolicy:
    """When to ensure again what is ensured.

    Attributes:
        repeat: once until it succeeds, or by period for ever.
        period: time between two calls under `Always`.
    """

    repeat: Repeat = Repeat.IF_NOT_SUCC
    period: timedelta = timedelta(minutes=1)

    @property
    def is_always(self) -> bool:
        """Return whether calls go out at any time of the record's life."""
        return self.repeat is Repeat.ALWAYS


class DeregisterPolicy(StrEnum):
    """What deregisters a pod that is not being deleted."""

    IF_NOT_READY = "IfNotReady"
    IF_NOT_RUNNING = "IfNotRunning"
    IF_TERMINATING = "IfTerminating"
    WEBHOOK = "Webhook"


class ReplaceOrder(StrEnum):
    """What comes first where pods of a group replace each other."""

    REGISTER_FIRST = "RegisterFirst"
    DEREGISTER_FIRST = "DeregisterFirst"


class Gate(StrEnum):
    """Whether readiness gates of pods wait for registrations."""

    REQUIRED = "Required"
    OPTIONAL = "Optional"


class FailurePolicy(StrEnum):
    """What becomes of unready pods while the webhook's driver gives no valid answer."""

    DO_NOTHING = "DoNothing"
    IF_NOT_READY = "IfNotReady"
    IF_NOT_RUNNING = "IfNotRunning"


@attrs.frozen
class DeregisterWebhook:
    """The driver that deregisterPolicy Webhook asks, and what holds without an answer."""

    driver: str
    failure_policy: FailurePolicy = FailurePolicy.DO_NOTHING


@attrs.frozen
class DrainPolicy:
    """How long connections to a backend may end before it is deregistered: spec.drain.

    Attributes:
        enabled: False deregisters at once.
        timeout: from the start of the drain to the deregistration at the latest.
    """

    enabled: bool = True
    timeout: timedelta = timedelta(seconds=30)

    @property
    def longest(self) -> timedelta:
        """Return the time that a drain may take; zero where there is none."""
        return self.timeout if self.enabled else timedelta(0)


NO_DRAIN = DrainPolicy(enabled=False)


@attrs.frozen
class BootTime:
    """A moment by the clock that a machine has since its boot.

    Attributes:
        boot: which boot of which machine. All processes there share the clock, also one
            that starts later; moments of two boots cannot be compared.
        seconds: since then, the machine's suspensions included.
    """

    boot: str
    seconds: float
