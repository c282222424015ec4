"""An Event for each answer of a driver, under the names that LBCF in Go gave them.

Before it: the executor had an answer, or none. After it: `kubectl describe`. Off
unless a process is started with --record-events: two more writes per lifecycle.
"""

from collections.abc import Mapping

from lbcf.core.lifecycle.steps import (
    CallDriver,
    CallRefused,
    NoAnswer,
    Reply,
    StillRunning,
    Succeeded,
)
from lbcf.core.model.names import API_VERSION
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer, Meta
from lbcf.core.reasons import CallEvent
from lbcf.drivers.errors import BadAnswer
from lbcf.executor.load_balancers import Answered
from lbcf.kube.events import EventRecorder, Reference


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
        """Tell of an answer about a record."""
        if isinstance(reply, Succeeded | StillRunning | CallRefused | NoAnswer):
            meta = step.permission.record.meta
            self._tell("BackendRecord", meta, step.operation, reply)

    def load_balancer_told(
        self, load_balancer: LoadBalancer, operation: Operation, reply: Answered
    ) -> None:
        """Tell of an answer about a load balancer."""
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
    """Say how it went, and what is told of it."""
    if isinstance(reply, Succeeded):
        return "Succ", f"addr: {reply.backend_addr}" if reply.backend_addr else success
    if isinstance(reply, StillRunning):
        return "Running", f"msg: {reply.message}"
    if isinstance(reply, CallRefused):
        return "Failed", f"msg: {reply.message}"
    word = "Invalid" if reply.reason == BadAnswer.reason else "Failed"
    return word, reply.message
