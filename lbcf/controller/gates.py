"""Readiness gates: opens those of pods that are registered wherever they should be.

One patch of a pod's status in its life, and none before: a gate that is shut is one without a
condition. Whoever leads decides from pods, groups and records, and from what drivers told of
new members (`lbcf.controller.first_checks`). Before a gate opens, the groups of its namespace
are read once more (`lbcf.controller.group_reader`).
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta

import attrs
import structlog

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lbcf.controller.first_checks import FirstChecks
from lbcf.controller.gate_claims import claims_on, unclear_groups
from lbcf.controller.group_reader import GroupReader
from lbcf.controller.triggers import same_but_status
from lbcf.controller.view import View
from lbcf.core.lifecycle.in_service import GRACE
from lbcf.core.model.cluster import Pod
from lbcf.core.model.resources import BackendGroup, BackendRecord, LoadBalancer, PodRef
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import EventReason, Reason
from lbcf.core.selection.gate import KeepShut, OpenGate, Wait, decide_gate, is_serving
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import Conflict, NotFound
from lbcf.kube.events import EventRecorder, Reference
from lbcf.runtime.clock import Clock
from lbcf.runtime.metrics import Metrics
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, RequeueAfter, Result
from lbcf.wire.kube import render_gate


_log = structlog.get_logger(__name__)
_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600)


class GateMetrics(Collector):
    """Counts gates, and measures for how long they were shut.

    Args:
        view: where the pods are.
        metrics: of the process.
    """

    def __init__(self, view: View, metrics: Metrics) -> None:
        self._view = view
        self._opened = Counter(
            "lbcf_readiness_gates_opened",
            "Readiness gates of pods that this process has opened, by reason.",
            ["reason"],
            registry=metrics.registry,
        )
        self._wait = Histogram(
            "lbcf_readiness_gate_wait_seconds",
            "Time for which a readiness gate kept a pod that could serve from being "
            "Ready, as this process saw it.",
            buckets=_BUCKETS,
            registry=metrics.registry,
        )
        # An alert asks by how much it grew: it has to be there before it does.
        self._opened.labels(Reason.GATE_TIMED_OUT)
        metrics.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Count the pods that wait."""
        family = GaugeMetricFamily(
            "lbcf_readiness_gates_waiting",
            "Pods that could serve and wait for their readiness gate.",
            labels=["namespace"],
        )
        for namespace, count in self._view.pods_awaiting().items():
            family.add_metric([namespace], count)
        yield family

    def opened(self, reason: Reason, waited: timedelta) -> None:
        """Count one."""
        self._opened.labels(reason).inc()
        self._wait.observe(waited.total_seconds())


class ReadinessGates:
    """Opens gates.

    Args:
        view: what has been read.
        pods: writes their status.
        queue: of pods; its workers call `reconcile`.
        groups: reads the groups that there are.
        checks: knows which members wait for the first checks of their load balancer.
        recorder: of events.
        clock: tells for how long gates have been waiting.
        metrics: of the process; None: nobody measures.
    """

    def __init__(
        self,
        view: View,
        pods: ObjectWriter[Pod],
        queue: WorkQueue[ObjectKey],
        *,
        groups: GroupReader,
        checks: FirstChecks,
        recorder: EventRecorder,
        clock: Clock,
        metrics: Metrics | None,
    ) -> None:
        self._view = view
        self._pods = pods
        self._queue = queue
        self._groups = groups
        self._checks = checks
        self._recorder = recorder
        self._clock = clock
        self._metrics = None if metrics is None else GateMetrics(view, metrics)
        self._since: dict[Uid, float] = {}

    def listen(self) -> None:
        """Begin to listen, and look at all pods that there are."""
        view = self._view
        self._checks.on_passed(self._queue.add)
        view.pods.follow(self.pod_changed)
        view.records.on_change(self.record_changed)
        view.groups.on_change(self.group_changed)
        view.load_balancers.on_change(self.load_balancer_changed)
        view.load_balancers.on_unreadable(self.look_at_load_balancer)
        for unreadable in (view.pods, view.records, view.groups, view.binds):
            unreadable.on_unreadable(lambda key: self._look_at(key.namespace))

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Look at a pod that waits; forget one that does not any more."""
        if new is not None and new.awaits_gate:
            self._queue.add(new.meta.key)
        gone = old is not None and (new is None or new.meta.uid != old.meta.uid)
        over = new is None or not new.awaits_gate
        if old is not None and (gone or over):
            self._since.pop(old.meta.uid, None)
        if old is not None and (gone or new is None or not new.has_shut_gate):
            self._checks.forget(old.meta.uid)

    def record_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Look at the pod of a record that is in service now, or is no more."""
        either = new or old
        if either is None or not isinstance(either.spec.backend, PodRef):
            return
        before, after = (r is not None and is_serving(r) for r in (old, new))
        if before == after and old is not None and new is not None:
            return
        key = ObjectKey(either.meta.key.namespace, either.spec.backend.name)
        pod = self._view.pods.get(key)
        if pod is not None and pod.awaits_gate:
            self._queue.add(key)

    def group_changed(self, old: BackendGroup | None, new: BackendGroup | None) -> None:
        """Look at the pods that wait where a group came, went, or is another one."""
        either = new or old
        if either is not None and not same_but_status(old, new):
            self._look_at(either.meta.key.namespace)

    def load_balancer_changed(
        self, old: LoadBalancer | None, new: LoadBalancer | None
    ) -> None:
        """Look at the pods that may wait for a load balancer."""
        either = new or old
        if either is not None and not same_but_status(old, new):
            self.look_at_load_balancer(either.meta.key)

    def look_at_load_balancer(self, key: ObjectKey) -> None:
        """Look at the pods that wait in the namespaces of a load balancer's groups."""
        groups = self._view.groups.by_index("load_balancer", key)
        for namespace in {group.meta.key.namespace for group in groups}:
            self._look_at(namespace)

    def _look_at(self, namespace: str) -> None:
        for pod in self._view.pods.by_index("awaiting", namespace):
            self._queue.add(pod.meta.key)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Open a pod's gate, if it waits for nobody.

        Raises:
            KubeError: it was not written, or nobody knows; to be tried again.
        """
        pod = self._view.pods.get(key)
        if pod is None or not pod.awaits_gate or pod.is_terminating:
            return Done()
        waited = self._waited(pod)
        decision = self._decide(pod, (), waited)
        if isinstance(decision, OpenGate):
            # Watches tell in no order: a group that was there before the pod may be
            # unheard of.
            unclear = await self._groups.since_now(key.namespace)
            decision = self._decide(pod, unclear, waited)
        if isinstance(decision, OpenGate):
            await self._open(pod, decision, waited)
            return Done()
        return Done() if decision.again is None else RequeueAfter(decision.again)

    def _decide(
        self, pod: Pod, unclear: Iterable[Wait], waited: timedelta
    ) -> OpenGate | KeepShut:
        """Decide by what has been read.

        Args:
            pod: that waits.
            unclear: what else may be a group that selects it.
            waited: for how long.
        """
        known = unclear_groups(self._view, pod.meta.key.namespace)
        claims = tuple(claims_on(self._view, pod, self._checks.waits))
        decision = decide_gate(claims, dict.fromkeys((*known, *unclear)), waited)
        is_unchecked = any(claim.unchecked for claim in claims)
        if isinstance(decision, OpenGate) or not is_unchecked:
            return decision
        # What nobody here has heard is over then.
        again = GRACE if decision.again is None else min(decision.again, GRACE)
        return attrs.evolve(decision, again=again)

    def _waited(self, pod: Pod) -> timedelta:
        """Return for how long a gate has kept a pod from being Ready.

        This process counts by a clock that nobody sets; what was before it is taken from
        the pod, as far as wall clocks agree.
        """
        now = self._clock.monotonic()
        if pod.meta.uid not in self._since:
            since = None if pod.gate is None else pod.gate.since
            before = timedelta(0) if since is None else self._clock.now() - since
            self._since[pod.meta.uid] = now - max(before.total_seconds(), 0.0)
        return timedelta(seconds=now - self._since[pod.meta.uid])

    async def _open(self, pod: Pod, decision: OpenGate, waited: timedelta) -> None:
        body = render_gate(decision.reason, decision.message, self._clock.now())
        try:
            await self._pods.patch(pod.meta, body, "status", merges_lists=True)
        except NotFound:
            return
        except Conflict:
            await self._pods.refresh(pod.meta.key)
            raise
        if self._metrics is not None:
            self._metrics.opened(decision.reason, waited)
        _log.info("gate.opened", pod=str(pod.meta.key), reason=decision.reason)
        if decision.reason == Reason.GATE_TIMED_OUT:
            self._recorder.record(
                Reference("v1", "Pod", pod.meta.key, pod.meta.uid),
                reason=EventReason.GATE_TIMED_OUT,
                action="OpenGate",
                note=decision.message,
                warning=True,
            )
