"""Who wants a pod to be registered, for the decision about its readiness gate."""

from collections.abc import Callable, Iterator

from lbcf.controller.snapshot import take_snapshot
from lbcf.controller.view import View
from lbcf.core.model.cluster import Pod, Snapshot
from lbcf.core.model.names import bind_group_key
from lbcf.core.model.resources import BackendGroup, BackendRecord
from lbcf.core.model.values import Gate
from lbcf.core.selection.gate import Claim, Wait, unclear_group


def claims_on(
    view: View, pod: Pod, is_unchecked: Callable[[BackendRecord], bool]
) -> Iterator[Claim]:
    """Yield what each group that selects a pod wants of it.

    Args:
        view: what has been read.
        pod: whose gate it is about.
        is_unchecked: tells whether a registered member waits for its load balancer's
            first checks.
    """
    for group in view.groups_meaning(pod):
        snapshot = take_snapshot(view, group, {pod.meta.key.name})
        records = snapshot.records if isinstance(snapshot, Snapshot) else ()
        unchecked = {r.meta.uid for r in records if r.is_in and is_unchecked(r)}
        yield Claim(group, snapshot, _optional(view, group), unchecked)


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
