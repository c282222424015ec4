"""Pods, and the snapshot of the cluster that decisions about one group are made from."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import attrs

from lbcf.core.model.nodes import NodeScene
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    LoadBalancer,
    LoadBalancerDriver,
    Meta,
)
from lbcf.core.model.values import NamedPort
from lbcf.core.model.verdicts import WebhookDecision
from lbcf.core.reasons import Explanation


@attrs.frozen
class ReadinessGate:
    """Our readiness gate in the spec of a pod: its Ready waits for the condition.

    Attributes:
        is_open: the condition is True; it stays so for the life of the pod.
        since: when its containers became ready, by its node's clock; None where unsaid.
    """

    is_open: bool = False
    since: datetime | None = None


@attrs.frozen
class Pod:
    """The few fields of a pod that make it a backend or not.

    Attributes:
        address: status.podIP, empty until the kubelet has one.
        is_ready: it can serve: the Ready condition is True, or our own readiness gate
            alone keeps it from being so (`lbcf.core.model.readiness`).
        phase: Pending, Running, Succeeded, Failed or Unknown.
        node: the name of its node, empty until it has one.
        gate: our readiness gate; None: it has none.
        ports: numbers of the ports that its containers name.
        pre_stop: for how long its containers sleep before SIGTERM, the shortest of them;
            None: none says so in its preStop hook.
        deletion_grace: from the request of its deletion to its deletionTimestamp.
    """

    meta: Meta
    address: str = ""
    is_ready: bool = False
    phase: str = ""
    node: str = ""
    gate: ReadinessGate | None = None
    ports: Mapping[NamedPort, int] = attrs.Factory(dict)
    pre_stop: timedelta | None = None
    deletion_grace: timedelta = timedelta(0)

    @property
    def has_finished(self) -> bool:
        """Return whether it has ended for good."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def has_shut_gate(self) -> bool:
        """Return whether it has our readiness gate, which is not open yet."""
        return self.gate is not None and not self.gate.is_open

    @property
    def awaits_gate(self) -> bool:
        """Return whether it can serve and waits for our readiness gate."""
        return self.is_ready and self.has_shut_gate

    @property
    def is_terminating(self) -> bool:
        """Return whether it has a deletionTimestamp."""
        return self.meta.deleting_since is not None

    @property
    def serves_until(self) -> datetime | None:
        """Return when it stops to serve at the latest; None: it is not being deleted.

        It is killed at its deletionTimestamp. One that waits for the end of its records
        gets SIGTERM earlier, when its preStop hook gives up.
        """
        killed_at, wait = self.meta.deleting_since, self.meta.gate_wait
        if killed_at is None or wait is None:
            return killed_at
        # Whoever shortens the grace period moves both: the request's moment stays.
        requested_at = killed_at - self.deletion_grace
        return min(killed_at, requested_at + wait)


@attrs.frozen
class Leaving:
    """Why a group leaves a load balancer: its records go, and nothing new comes."""

    why: Explanation


@attrs.frozen
class Attachment:
    """A load balancer that a group may use, with the driver that operates it."""

    load_balancer: LoadBalancer
    driver: LoadBalancerDriver


@attrs.frozen
class Snapshot:
    """One complete reading of all that decides about a group.

    It exists only if everything in it could be read: `take_snapshot` gives an
    `Explanation` otherwise, so that no answer can never look like an empty one.

    Attributes:
        attachments: by name of load balancer, those that can be used.
        undecided: by name of load balancer, why its records stay as they are. Records of
            load balancers that are in neither are to go.
        leaving: by name of load balancer, why the group leaves it; it is in neither.
        pods: those that the group selects.
        records: all that the group owns, also those being deleted.
        webhook_decision: what is to become of its unready pods, under policy Webhook.
        scene: its nodes; None for groups of anything else.
        nodes_gone: names of nodes that its pods are on, and that do not exist any more.
        nodes_drained: nodes that its pods are on and that are drained by hand, by name, and
            why.
    """

    group: BackendGroup
    attachments: Mapping[str, Attachment]
    undecided: Mapping[str, Explanation]
    pods: tuple[Pod, ...]
    records: tuple[BackendRecord, ...]
    webhook_decision: WebhookDecision = WebhookDecision()
    scene: NodeScene | None = None
    leaving: Mapping[str, Explanation] = attrs.Factory(dict)
    nodes_gone: frozenset[str] = frozenset()
    nodes_drained: Mapping[str, str] = attrs.Factory(dict)
