"""What people take out of service by an annotation, and keep out until they take it off.

It leaves as what is ineligible for any other reason does, drained; no guard holds it, since
somebody asked for it by name.
"""

from collections.abc import Mapping, Sequence

from lbcf.core.model import conditions
from lbcf.core.model.cluster import Pod, Snapshot
from lbcf.core.model.conditions import Condition
from lbcf.core.model.nodes import Node
from lbcf.core.model.resources import BackendGroup
from lbcf.core.model.verdicts import Ineligible, Verdict
from lbcf.core.reasons import Reason
from lbcf.core.wording import some_of


def with_hand_drains(
    snapshot: Snapshot, verdicts: Mapping[str, Verdict]
) -> dict[str, Verdict]:
    """Replace the verdicts on what is drained by hand."""
    scene = snapshot.scene
    nodes = scene.nodes.values() if scene is not None else ()
    found: dict[str, Verdict | None] = {
        **{pod.meta.uid: judge_hand_drain(pod, snapshot) for pod in snapshot.pods},
        **{node.name: judge_hand_drain(node, snapshot) for node in nodes},
    }
    drained = {key: verdict for key, verdict in found.items() if verdict is not None}
    return {**verdicts, **drained}


def judge_hand_drain(backend: Pod | Node, snapshot: Snapshot) -> Ineligible | None:
    """Return why a pod or node is out of service by hand; None: it is not."""
    if (whole := drained_group(snapshot.group)) is not None:
        return whole
    if why := backend.meta.drained_for:
        kind = "pod" if isinstance(backend, Pod) else "node"
        return _drained(f"{kind} {backend.meta.key.name}", why)
    if isinstance(backend, Pod) and backend.node in snapshot.nodes_drained:
        why = snapshot.nodes_drained[backend.node]
        return _drained(f"pod {backend.meta.key.name}: node {backend.node}", why)
    return None


def drained_group(group: BackendGroup) -> Ineligible | None:
    """Return why all of a group is out of service by hand; None: it is not."""
    why = group.meta.drained_for
    return _drained(f"group {group.meta.key.name}", why) if why else None


def said_of(drained: Sequence[str], generation: int) -> Condition:
    """Return the condition of a group on what of it is out of service by hand.

    Args:
        drained: what is, in words.
        generation: of the group.
    """
    kind = conditions.DRAINED_BY_HAND
    if not drained:
        message = "nothing is kept out by hand"
        return Condition(kind, False, Reason.NOT_DRAINED, message, generation)
    message = some_of(drained, separator="; ", last="; and ")
    return Condition(kind, True, Reason.DRAINED_BY_HAND, message, generation)


def _drained(what: str, why: str) -> Ineligible:
    message = f"{what} is drained by hand: {why}"
    return Ineligible(Reason.DRAINED_BY_HAND, message)
