"""One complete reading of all that decides about a group, or the lack of one.

Before it: the `View`. After it: `lbcf.core.selection.plan`. A reference that leads nowhere, or to
something that cannot be read, is no empty answer: what depends on it is undecided.
"""

from collections.abc import Collection, Iterable

from lbcf.controller.node_scene import take_scene
from lbcf.controller.view import View
from lbcf.core.model.cluster import Attachment, Leaving, Pod, Snapshot
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    PodSelection,
    StaticSelection,
)
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation, Reason


def take_snapshot(
    view: View, group: BackendGroup, pods: Collection[str] | None = None
) -> Snapshot | Explanation:
    """Gather what decides about a group.

    Args:
        view: what has been read.
        group: whose records are to be decided on.
        pods: names of the only pods, or nodes, to look at, None for all of the group.
            Of a group that selects none all is looked at: what it owns beside would be
            missed.
    """
    if isinstance(group.selection, StaticSelection):
        pods = None
    doubt = _doubt(view, group)
    if doubt is not None:
        return doubt
    scene = take_scene(view, group, pods)
    if isinstance(scene, Explanation):
        return scene
    attachments: dict[str, Attachment] = {}
    undecided: dict[str, Explanation] = {}
    leaving: dict[str, Explanation] = {}
    for name in group.load_balancers:
        found = find_attachment(view, group, name)
        match found:
            case Attachment():
                attachments[name] = found
            case Explanation():
                undecided[name] = found
            case Leaving(why):
                leaving[name] = why
    return Snapshot(
        group=group,
        attachments=attachments,
        undecided=undecided,
        pods=tuple(_pods(view, group, pods)),
        records=tuple(_records(view, group, pods)),
        scene=scene,
        leaving=leaving,
    )


def _doubt(view: View, group: BackendGroup) -> Explanation | None:
    """Say what makes the whole reading doubtful."""
    namespace = group.meta.key.namespace
    for store, reason, kind in (
        (view.pods, Reason.POD_UNREADABLE, "pod"),
        (view.records, Reason.RECORD_UNREADABLE, "BackendRecord"),
    ):
        for key, error in store.unreadable.items():
            if key.namespace == namespace:
                message = (
                    f"{kind} {key} cannot be understood, nothing is changed: {error}"
                )
                return Explanation(reason, message)
    return None


def find_attachment(
    view: View, group: BackendGroup, name: str
) -> Attachment | Explanation | Leaving:
    """Find one load balancer of a group."""
    key = group.load_balancer_key(name)
    unreadable = view.load_balancers.unreadable.get(key)
    if unreadable is not None:
        message = f"LoadBalancer {key} cannot be understood: {unreadable}"
        return Explanation(Reason.LOAD_BALANCER_UNREADABLE, message)
    found = view.load_balancers.get(key)
    if found is None:
        message = f"LoadBalancer {key} does not exist; create it or take it out of spec"
        return Explanation(Reason.LOAD_BALANCER_NOT_FOUND, message)
    if found.meta.deleting_since is not None:
        message = (
            f"LoadBalancer {key} is being deleted: its backends leave; take it out of "
            "spec or use another one"
        )
        return Leaving(Explanation(Reason.LOAD_BALANCER_DELETING, message))
    if not found.is_open_to(group.meta.key.namespace):
        message = (
            f"LoadBalancer {key} is not in scope here: backends that it has leave; take "
            "it out of spec, or have the namespace added to its scope"
        )
        return Leaving(Explanation(Reason.LOAD_BALANCER_OUT_OF_SCOPE, message))
    driver = view.driver_of(found)
    if isinstance(driver, Explanation):
        is_left = driver.reason == Reason.DRIVER_OUT_OF_SCOPE
        return Leaving(driver) if is_left else driver
    if found.info is None:
        message = f"LoadBalancer {key} is not created yet; see its conditions"
        return Explanation(Reason.LOAD_BALANCER_NOT_CREATED, message)
    return Attachment(found, driver)


def _pods(
    view: View, group: BackendGroup, names: Collection[str] | None
) -> Iterable[Pod]:
    """Find the pods to look at."""
    if names is None:
        return view.selected_pods(group)
    selection = group.selection
    namespace = group.meta.key.namespace
    found = (view.pods.get(ObjectKey(namespace, name)) for name in names)
    return [
        pod
        for pod in found
        if pod is not None
        and isinstance(selection, PodSelection)
        and selection.selects(pod.meta.key.name, pod.meta.labels)
    ]


def _records(
    view: View, group: BackendGroup, names: Collection[str] | None
) -> Iterable[BackendRecord]:
    """Find the records to look at; a namesake of the group owns other ones."""
    key = group.meta.key
    if names is None:
        found: Iterable[BackendRecord] = view.records_of(key)
    else:
        found = (r for n in names for r in view.records.by_index("pod", (key, n)))
    return [record for record in found if record.group_uid == group.meta.uid]
