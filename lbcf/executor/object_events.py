"""Events about objects: trouble, drivers' answers, abandoned objects, refused statuses."""

from collections.abc import Iterable, Mapping
from datetime import timedelta

import structlog

from prometheus_client import Counter

from lbcf.core.lifecycle.steps import (
    CallDriver,
    CallRefused,
    NoAnswer,
    Reply,
    StillRunning,
    Succeeded,
)
from lbcf.core.lifecycle.trouble import new_trouble
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import API_VERSION, BIND_VERSION, bind_of
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, LoadBalancer, Meta
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import CallEvent, EventReason, Reason
from lbcf.drivers.errors import BadAnswer
from lbcf.executor.load_balancers import Answered
from lbcf.kube.errors import Invalid
from lbcf.kube.events import EventRecorder, Reference
from lbcf.kube.store import Store
from lbcf.runtime.metrics import Metrics


_log = structlog.get_logger(__name__)


def reference_to(kind: str, key: ObjectKey, uid: Uid) -> Reference:
    """Return what an Event is about: a group or load balancer, or the Bind that it is of.

    Args:
        kind: of the object, if it is no Bind's.
        key: as the view has it.
        uid: of the object, or of the Bind.
    """
    bind = bind_of(key)
    if bind is None:
        return Reference(API_VERSION, kind, key, uid)
    return Reference(BIND_VERSION, "Bind", bind, uid)


class TroubleReporter:
    """Listens to records or load balancers, and records events.

    Args:
        recorder: writes events.
        kinds: types of conditions that this process writes.
        action: what it tries to do.
        calls_told: somebody else tells what drivers answer.
    """

    def __init__(
        self,
        recorder: EventRecorder,
        kinds: frozenset[str],
        action: str,
        *,
        calls_told: bool = False,
    ) -> None:
        self._calls_told = calls_told
        self._recorder = recorder
        self._kinds = kinds
        self._action = action

    def listen(self, records: Store[BackendRecord]) -> None:
        """Begin to listen to records."""
        records.on_change(self.record_changed)

    def record_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Record an Event if the conditions tell new trouble."""
        if old is not None and new is not None:
            about = Reference(API_VERSION, "BackendRecord", new.meta.key, new.meta.uid)
            self._tell(about, old.status.conditions, new.status.conditions)

    def load_balancer_changed(
        self, old: LoadBalancer | None, new: LoadBalancer | None
    ) -> None:
        """Record an Event if the conditions tell new trouble."""
        if old is not None and new is not None:
            about = reference_to("LoadBalancer", new.meta.key, new.meta.uid)
            self._tell(about, old.conditions, new.conditions)

    def _tell(
        self, about: Reference, old: tuple[Condition, ...], new: tuple[Condition, ...]
    ) -> None:
        trouble = new_trouble(old, new, self._kinds)
        if trouble is None:
            return
        if self._calls_told and _is_of_a_call(trouble.reason):
            return
        self._recorder.record(
            about,
            reason=trouble.reason,
            action=self._action,
            note=trouble.message,
            warning=True,
        )


def _is_of_a_call(reason: str) -> bool:
    without = {Reason.DRIVER_NOT_FOUND, Reason.DRIVER_UNREADABLE}
    return reason.startswith("Driver") and reason not in without


NOUNS: Mapping[Operation, tuple[str, str]] = {
    Operation.GENERATE_BACKEND_ADDR: ("GenerateAddr", ""),
    Operation.ENSURE_BACKEND: ("EnsureBackend", "Successfully ensured backend"),
    Operation.DEREGISTER_BACKEND: ("Deregister", "Successfully deregistered backend"),
    Operation.CREATE_LOAD_BALANCER: (
        "CreateLoadBalancer",
        "Successfully created load balancer",
    ),
    Operation.ENSURE_LOAD_BALANCER: (
        "EnsureLoadBalancer",
        "Successfully ensured load balancer attributes",
    ),
    Operation.DELETE_LOAD_BALANCER: (
        "DeleteLoadBalancer",
        "Successfully deleted load balancer",
    ),
}
"""What follows Succ, Failed, Running or Invalid, and what is said of a success. Drains
are told by conditions: they are asked about every few seconds."""


class CallReporter:
    """Records events of calls.

    Args:
        recorder: writes events.
        enabled: else it does nothing.
    """

    def __init__(self, recorder: EventRecorder, *, enabled: bool) -> None:
        self._recorder = recorder
        self._enabled = enabled

    def record_told(self, step: CallDriver, reply: Reply) -> None:
        """Record an Event of an answer about a record."""
        if isinstance(reply, Succeeded | StillRunning | CallRefused | NoAnswer):
            meta = step.permission.record.meta
            self._tell("BackendRecord", meta, step.operation, reply)

    def load_balancer_told(
        self, load_balancer: LoadBalancer, operation: Operation, reply: Answered
    ) -> None:
        """Record an Event of an answer about a load balancer."""
        self._tell("LoadBalancer", load_balancer.meta, operation, reply)

    def _tell(
        self, kind: str, meta: Meta, operation: Operation, reply: Answered
    ) -> None:
        """Record one event."""
        noun, success = NOUNS.get(operation, ("", ""))
        if not self._enabled or not noun:
            return
        word, note = _words(reply, success)
        self._recorder.record(
            Reference(API_VERSION, kind, meta.key, meta.uid),
            reason=CallEvent(f"{word}{noun}"),
            action=noun,
            note=note,
            warning=word in {"Failed", "Invalid"},
        )


def _words(reply: Answered, success: str) -> tuple[str, str]:
    """Return the outcome as a word of an Event's reason, and the note."""
    if isinstance(reply, Succeeded):
        return "Succ", f"addr: {reply.backend_addr}" if reply.backend_addr else success
    if isinstance(reply, StillRunning):
        return "Running", f"msg: {reply.message}"
    if isinstance(reply, CallRefused):
        return "Failed", f"msg: {reply.message}"
    word = "Invalid" if reply.reason == BadAnswer.reason else "Failed"
    return word, reply.message


class AbandonmentReporter:
    """Reports objects that were released by the annotation, without their driver.

    Args:
        recorder: of events.
        metrics: of the process; None: nobody measures.
    """

    def __init__(self, recorder: EventRecorder, metrics: Metrics | None) -> None:
        self._recorder = recorder
        self._counter = _make_counter(
            metrics,
            "lbcf_abandoned_total",
            "Objects that were let go by the annotation lbcf.tkestack.io/abandon, by kind.",
            ("BackendRecord", "Bind", "LoadBalancer", "LoadBalancerDriver"),
        )

    def tell(self, kind: str, meta: Meta, why: str) -> None:
        """Record an Event and count one object.

        Args:
            kind: of our API.
            meta: as it was let go.
            why: what the annotation says.
        """
        if self._counter is not None:
            self._counter.labels(kind).inc()
        version = BIND_VERSION if kind == "Bind" else API_VERSION
        self._recorder.record(
            Reference(version, kind, meta.key, meta.uid),
            reason=EventReason.ABANDONED,
            action="Release",
            note=f"let go without its driver: {why}",
            warning=True,
        )


class RefusalReporter:
    """Reports statuses that the API server refused: an Event, a metric, the log.

    Args:
        recorder: of events.
        metrics: of the process; None: nobody measures.
    """

    def __init__(self, recorder: EventRecorder, metrics: Metrics | None) -> None:
        self._recorder = recorder
        self._counter = _make_counter(
            metrics,
            "lbcf_status_refusals_total",
            "Writes of a status that the API server refused as invalid, by kind.",
            ("BackendGroup", "Bind", "LoadBalancer", "LoadBalancerDriver"),
        )

    def tell(self, kind: str, meta: Meta, error: Invalid, pause: timedelta) -> None:
        """Report one refusal; `pause` is how long the status is not sent again."""
        if self._counter is not None:
            self._counter.labels(kind).inc()
        _log.warning(
            "status.refused",
            kind=kind,
            object=str(meta.key),
            error=str(error),
            retry_after=pause,
        )
        version = BIND_VERSION if kind == "Bind" else API_VERSION
        self._recorder.record(
            Reference(version, kind, meta.key, meta.uid),
            reason=Reason.STATUS_REFUSED,
            action="WriteStatus",
            note=(
                "its status is as old as this event; the API server refuses to store the "
                "new one, which is tried again every 2 minutes at the latest. Install the "
                "CustomResourceDefinitions of this version (manifests/crds), or look for "
                f"an admission rule that refuses it: {error}"
            ),
            warning=True,
        )


def _make_counter(
    metrics: Metrics | None, name: str, text: str, kinds: Iterable[str]
) -> Counter | None:
    """Make a counter by kind, with all its series: a rate needs a first sample."""
    if metrics is None:
        return None
    counter = Counter(name, text, ["kind"], registry=metrics.registry)
    for kind in kinds:
        counter.labels(kind)
    return counter
