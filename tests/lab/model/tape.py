"""Writes down what an executor performs, as a trace that `follow` can judge.

tape = Tape(driver)
tape.note("A1", step, reply, uid=uid, began=began, ended=ended)
tape.wrote("A1", "create", written.permission, ended)
follow(tape.trace())
"""

from lbcf.core.lifecycle.steps import (
    Abandoned,
    CallDriver,
    CallRefused,
    Conflicted,
    Deregistered,
    EndCovered,
    LockHeld,
    LockTaken,
    NoAnswer,
    Observed,
    Permission,
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
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, LoadBalancerDriver
from lbcf.core.model.values import MemberKey
from lbcf.kube.errors import KubeError


Json = dict[str, object]

_OPERATIONS = {
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
    Released: "released",
}


def facts(record: BackendRecord) -> Json:
    """Write down what the protocol looks at of a record."""
    return {
        "version": int(record.meta.resource_version),
        "generation": record.meta.generation,
        "deleting": record.is_deleting,
        "held": record.is_held,
        "address": record.address,
        "ensuring": record.status.ensuring,
        "registered": record.is_registered,
        "always": record.spec.ensure_policy.is_always,
        "deregistrar": record.status.deregistrar,
    }


class Tape:
    """Collects steps, in the order in which they end.

    Args:
        driver: gives the times that are waited.
    """

    def __init__(self, driver: LoadBalancerDriver) -> None:
        self._driver = driver
        self._steps: list[Json] = []

    def trace(self) -> Json:
        """Return what was collected."""
        key = "Record" if self._driver.member_key is MemberKey.RECORD else "Address"
        settling = {
            name: self._driver.settling(operation).total_seconds()
            for operation, name in _OPERATIONS.items()
        }
        return {"memberKey": key, "settling": settling, "steps": self._steps}

    def note(
        self,
        actor: str,
        step: Step,
        reply: Reply | BaseException,
        *,
        uid: str,
        began: float,
        ended: float,
    ) -> None:
        """Note a step that was performed; an error means that it may have been done."""
        noted: Json = {"actor": actor, "record": uid, "began": began, "ended": ended}
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

    def inherited(self, actor: str, name: str, began: float) -> None:
        """Note that a deregistrar which began then goes by the name of one before it."""
        inherit: Json = {"actor": actor, "step": "inherit", "name": name}
        self._steps.append({**inherit, "began": began, "ended": began})


def _step(step: Step) -> Json:
    """Write down what was asked."""
    match step:
        case CallDriver():
            return {
                "step": "call",
                "op": _OPERATIONS[step.operation],
                "of": facts(step.permission.record),
                "permitted": step.permission.at,
                "final": step.final,
            }
        case WriteStatus() | WriteSettling():
            return {"step": "write", "of": facts(step.record)}
        case TakeLock():
            # An object that was made anew may mean another load balancer.
            spec = step.record.spec
            where = f"{step.record.driver_key} {sorted(spec.lb_info.items())}"
            lock = f"{where} {step.address}"
            return {"step": "lock", "of": facts(step.record), "lock": lock}
        case ReleaseRecord(proof):
            kind = "abandoned" if isinstance(proof, Abandoned) else "never"
            kind = "deregistered" if isinstance(proof, Deregistered) else kind
            return {"step": "release", "of": facts(proof.record), "proof": kind}
        case _:
            return {"step": "read"}


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
            return {"outcome": "unsent"}
        case BaseException():
            return {"outcome": "unknown"}
        case _:
            return {"outcome": _OUTCOMES[type(reply)]}
