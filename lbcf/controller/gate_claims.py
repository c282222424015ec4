"""Who wants a pod to be registered, for the decision about its readiness gate."""

from collections.abc import Iterator

from lbcf.controller.snapshot import take_snapshot
from lbcf.controller.view import View
from lbcf.core.model.cluster import Pod
from lbcf.core.model.names import bind_group_key
from lbcf.core.model.resources import BackendGroup
from lbcf.core.model.values import Gate
from lbcf.core.selection.gate import Claim, Wait, unclear_group


def claims_on(view: View, pod: Pod) -> Iterator[Claim]:
    """Yield what each group that selects a pod wants of it."""
    for group in view.groups_meaning(pod):
        snapshot = take_snapshot(view, group, {pod.meta.key.name})
        yield Claim(group, snapshot, _optional(view, group))


def _optional(view: View, group: BackendGroup) -> frozenset[str]:
    found = (
        (name, view.load_balancers.get(group.load_balancer_key(name)))
        for name in group.load_balancers
    )
    return frozenset(
        name
        for name, balancer in found
        if balancer is not None and balancer.gate is Gate.OPTIONAL
    )


def unclear_groups(view: View, namespace: str) -> Iterator[Wait]:
    """Yield the groups and Binds of a namespace that cannot be understood."""
    for key, told in view.groups.unreadable.items():
        if key.namespace == namespace:
            yield unclear_group(key, told)
    for key, told in view.binds.unreadable.items():
        if key.namespace == namespace:
            yield unclear_group(bind_group_key(key), told)
