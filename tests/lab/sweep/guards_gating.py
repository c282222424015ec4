"""Guards of readiness gates."""

from lbcf.controller.gates import ReadinessGates
from lbcf.core.selection import gate
from lbcf.wire import kube
from tests.lab.sweep.edits import Edit, Mutant


GATING: dict[str, Mutant] = {
    "ready-first": Mutant(
        "a pod that only our gate keeps from being Ready is registered",
        (
            Edit(
                kube,
                "can_serve",
                "ready.is_true or READINESS_GATE not in gates",
                "True",
            ),
        ),
        ("gated-rollout",),
    ),
    "unseen-by-the-kubelet": Mutant(
        "and stays so until the kubelet has seen that its gate is open",
        (Edit(kube, "can_serve", " and ready.reason != _AWAITS_GATES", ""),),
        ("gated-rollout",),
    ),
    "gate-first": Mutant(
        "a gate opens when what its pod should have is registered, not written",
        (Edit(gate, "is_serving", "record.is_in and", "True or"),),
        ("gated-rollout",),
    ),
    "gate-unasked": Mutant(
        "a gate is looked at when a record of its pod is registered",
        (
            Edit(
                ReadinessGates,
                "record_changed",
                "if before == after and",
                "if True or",
            ),
        ),
        ("gated-rollout",),
    ),
    "gate-unfreed": Mutant(
        "and when nobody wants its pod any more",
        (
            Edit(
                ReadinessGates,
                "group_changed",
                "self._look_at(either.meta.key.namespace)",
                "pass",
            ),
        ),
        ("gated-and-unwanted", "gated-optional"),
    ),
    "gate-untimed": Mutant(
        "and when its time is over",
        (Edit(ReadinessGates, "reconcile", "RequeueAfter(decision.again)", "Done()"),),
        ("gated-too-long",),
    ),
}
