"""Writes down what an executor performs, as a trace that `follow` can judge.

tape = Tape(driver)
tape.note("A1", step, reply, uid=uid, began=began, ended=ended)
tape.wrote("A1", "create", written.permission, ended)
follow(tape.trace())
"""

from asyncio import CancelledError
from datetime import datetime

from lbcf.core.lifecycle.steps import (
    Abandoned,
    BalancerRead,
    CallDriver,
    CallRefused,
    Conflicted,
    CoverEnd,
    Deregistered,
    EndCovered,
    LockHeld,
    LockTaken,
    NoAnswer,
    Observed,
    Permission,
    PodRead,
    RecordGone,
    Released,
    ReleaseRecord,
    Reply,
    Step,
    StillRunning,
    Succeeded,
    Superseded,
    TakeLock,
    WriteSettling,
    WriteStatus,
)
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model.names import ANNOTATION_ABANDON
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, LoadBalancerDriver
from lbcf.core.model.values import MemberKey
from lbcf.kube.errors import KubeError, Unavailable
from lbcf.runtime.tasks import is_ending
from tests.fakes.clock import EPOCH


Json = dict[str, object]

OPERATIONS = {
    Operation.ENSURE_BACKEND: "ensure",
    Operation.DEREGISTER_BACKEND: "deregister",
    Operation.DRAIN_BACKEND: "drain",
    Operation.GENERATE_BACKEND_ADDR: "generate",
}
_OUTCOMES: dict[type, str] = {
    RecordGone: "gone",
    Conflicted: "conflicted",
    Observed: "observed",
    Superseded: "superseded",
    Succeeded: "succeeded",
    StillRunning: "running",
    CallRefused: "refused",
    LockTaken: "taken",
    LockHeld: "held",
    EndCovered: "covered",
    PodRead: "observed",
    BalancerRead: "observed",
    Released: "released",
}


def facts(record: BackendRecord) -> Json:
    """Write down what the protocol looks at of a record."""
    drain = record.status.drain
    return {
        "version": int(record.meta.resource_version),
        "generation": record.meta.generation,
        "driver": str(record.driver_key),
        "deleting": record.is_deleting,
        "deleted": _second(record.meta.deleting_since or EPOCH),
        "held": record.is_held,
        "address": record.address,
        "ensuring": record.status.ensuring,
        "registered": record.is_registered,
        "always": record.spec.ensure_policy.is_always,
        "deregistrar": record.status.deregistrar,
        "settling": record.settling.total_seconds(),
        "lock_settling": record.status.lock_settling.total_seconds(),
        "drain": record.spec.drain.longest.total_seconds(),
        "drain_started": None if drain is None else _second(drain.started_at),
        "drain_deadline": None if drain is None else _second(drain.deadline),
        "backend_gone": record.status.backend_gone,
        # An empty value is no order.
        "abandoned": bool(record.meta.annotations.get(ANNOTATION_ABANDON, "").strip()),
    }


def _second(moment: datetime) -> float:
    """Return a moment of a wall clock as one of the trace."""
    return (moment - EPOCH).total_seconds()


class Tape:
    """Collects steps, in the order in which they end.

    Args:
        drivers: that there are.
    """

    def __init__(self, *drivers: LoadBalancerDriver) -> None:
        self._keyed: set[str] = set()
        self._steps: list[Json] = []
        for driver in drivers:
            self.learn(driver)

    def learn(self, driver: LoadBalancerDriver) -> None:
        """Note how a driver knows its members."""
        if driver.member_key is MemberKey.RECORD:
            self._keyed.add(str(driver.meta.key))

    def trace(self) -> Json:
        """Return what was collected."""
        return {"keyed": sorted(self._keyed), "steps": self._steps}

    def note(
        self,
        actor: str,
        step: Step,
        reply: Reply | BaseException,
        *,
        uid: str,
        began: Now,
        ended: Now,
    ) -> None:
        """Note a step that was performed; an error means that it may have been done."""
        noted: Json = {"actor": actor, "record": uid}
        noted |= {"began": began.monotonic, "ended": ended.monotonic}
        noted["wall"] = [_second(began.wall), _second(ended.wall)]
        self._steps.append({**noted, **_step(step), **_outcome(step, reply)})

    def wrote(
        self,
        actor: str,
        step: str,
        permission: Permission,
        ended: float,
        before: BackendRecord | None = None,
    ) -> None:
        """Note a create, an update or a delete that returned the record."""
        record = permission.record
        noted: Json = {"actor": actor, "step": step, "record": record.meta.uid}
        if before is not None:
            noted["of"] = facts(before)
        times: Json = {"began": permission.at, "ended": ended}
        shown: Json = {"outcome": "observed", "now": facts(record)}
        self._steps.append({**noted, **times, **shown})

    def crashed(self, actor: str, at: float) -> None:
        """Note an incarnation's end."""
        crash: Json = {"actor": actor, "step": "crash", "began": at, "ended": at}
        self._steps.append(crash)

    def inherited(self, actor: str, name: str, began: float, recalls: str = "") -> None:
        """Note that who began then goes by the name of one before it.

        Args:
            actor: a registrar or a deregistrar.
            name: of the one before it.
            began: seconds.
            recalls: whose knowledge of its calls it has; empty: nobody's.
        """
        inherit: Json = {"actor": actor, "step": "inherit", "name": name}
        inherit["recalls"] = recalls
        self._steps.append({**inherit, "began": began, "ended": began})


def _step(step: Step) -> Json:
    """Write down what was asked."""
    match step:
        case CallDriver():
            return {
                "step": "call",
                "op": OPERATIONS[step.operation],
                "of": facts(step.permission.record),
                "driver": _driver(step.driver),
                "final": step.final,
                "drained": step.drained,
            }
        case WriteStatus():
            clears = not step.status.ensuring
            return {"step": "write", "of": facts(step.record), "clears": clears}
        case WriteSettling():
            return {"step": "write", "of": facts(step.record)}
        case TakeLock():
            # An object that was made anew may mean another load balancer.
            spec = step.record.spec
            where = f"{step.record.driver_key} {sorted(spec.lb_info.items())}"
            lock = f"{where} {step.address}"
            driver = _driver(step.driver)
            return {
                "step": "lock",
                "of": facts(step.record),
                "lock": lock,
                "driver": driver,
            }
        case CoverEnd():
            return {"step": "cover", "of": facts(step.record)}
        case ReleaseRecord(proof):
            kind = "abandoned" if isinstance(proof, Abandoned) else "never"
            kind = "deregistered" if isinstance(proof, Deregistered) else kind
            return {"step": "release", "of": facts(proof.record), "proof": kind}
        case _:
            return {"step": "read"}


def _driver(driver: LoadBalancerDriver) -> Json:
    """Write down what is known of a driver."""
    settling = {
        name: driver.settling(operation).total_seconds()
        for operation, name in OPERATIONS.items()
    }
    return {"settling": settling, "drains": driver.declares(Operation.DRAIN_BACKEND)}


def _outcome(step: Step, reply: Reply | BaseException) -> Json:
    """Write down what came of it."""
    match reply:
        case Observed(permission) | Superseded(permission):
            outcome = _OUTCOMES[type(reply)]
            return {"outcome": outcome, "now": facts(permission.record)}
        case NoAnswer():
            return {"outcome": "unanswered" if reply.may_land else "unsent"}
        case KubeError() if isinstance(step, CallDriver):
            # The permission was too old and could not be renewed: nothing was sent.
            return {"outcome": "withheld"}
        case CancelledError() if isinstance(step, CallDriver) and not is_ending():
            # A call that was sent is answered even if it is cut off: this was the renewal.
            return {"outcome": "withheld"}
        case KubeError() if isinstance(step, WriteStatus) and not _may_be_made(reply):
            return {"outcome": "withheld"}
        case LockTaken(settling) | EndCovered(settling):
            outcome = _OUTCOMES[type(reply)]
            return {"outcome": outcome, "settling": settling.total_seconds()}
        case BaseException():
            return {"outcome": "unknown"}
        case _:
            return {"outcome": _OUTCOMES[type(reply)]}


def _may_be_made(error: KubeError) -> bool:
    """Return whether a write that failed so may have been made, or may still be."""
    return isinstance(error, Unavailable) and error.maybe_applied
