"""Guards of readiness gates, and of what is drained by hand."""

from lbcf.controller.gates import ReadinessGates
from lbcf.controller.triggers import NodeTriggers, Triggers
from lbcf.core.selection import desired, gate, plan
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
    "groups-unheard": Mutant(
        "a gate opens after a read of the groups that there are",
        (
            Edit(
                ReadinessGates,
                "reconcile",
                "await self._groups.since_now(key.namespace)",
                "()",
            ),
        ),
        ("gated-by-two-groups",),
    ),
    "hand-drain-unheeded": Mutant(
        "what is drained by hand is no backend",
        (
            Edit(
                plan,
                "judge_all",
                "with_hand_drains(snapshot, _judge_by_state(snapshot))",
                "_judge_by_state(snapshot)",
            ),
        ),
        ("pod-drained-by-hand", "node-drained-by-hand", "group-drained-by-hand"),
    ),
    "hand-drain-of-addresses": Mutant(
        "nor are the static addresses of a group that is",
        (
            Edit(
                desired,
                "_backends",
                "case StaticSelection() if drained_group(snapshot.group) is not None:",
                "case StaticSelection() if False:",
            ),
        ),
        ("addresses-drained-by-hand",),
    ),
    "node-annotation-unseen": Mutant(
        "an annotation of a node is one of its pods",
        (
            Edit(
                NodeTriggers,
                "node_changed",
                "self._look_at_pods_on(either.name)",
                "pass",
            ),
        ),
        ("node-drained-by-hand",),
    ),
    "group-annotation-unseen": Mutant(
        "an annotation of a group is looked at as its spec is",
        (
            Edit(
                Triggers,
                "group_changed",
                "(same_spec(old, new) and _same_drain(old, new))",
                "same_spec(old, new)",
            ),
        ),
        ("group-drained-by-hand", "addresses-drained-by-hand"),
    ),
}
