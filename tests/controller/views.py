"""Views of made-up clusters, and the ways in which an object cannot be read."""

from typing import Any, TypeVar

from lbcf.controller.view import View
from lbcf.core.model.cluster import Pod
from lbcf.core.model.nodes import Node, NodePortService
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    LoadBalancer,
    LoadBalancerDriver,
)
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.kube.kinds import HasMeta
from lbcf.kube.list_watch import Obscured, Put, Unreadable
from lbcf.kube.store import Store
from lbcf.wire.metadata import Identity
from tests.builders import a_driver, a_group, a_load_balancer


T = TypeVar("T", bound=HasMeta)

Thing = (
    Pod
    | Node
    | NodePortService
    | BackendRecord
    | BackendGroup
    | LoadBalancer
    | LoadBalancerDriver
)


def show(view: View, *things: Thing) -> View:
    """Let the watches tell of objects."""
    stores: dict[type[Thing], Store[Any]] = {
        Pod: view.pods,
        Node: view.nodes,
        NodePortService: view.services,
        BackendRecord: view.records,
        BackendGroup: view.groups,
        LoadBalancer: view.load_balancers,
        LoadBalancerDriver: view.drivers,
    }
    for thing in things:
        stores[type(thing)].apply(Put(thing))
    return view


def everyday() -> View:
    """Make a view of the everyday group, load balancer and driver."""
    return show(View(), a_driver(), a_load_balancer(), a_group())


def obscure(store: Store[T], key: ObjectKey, version: int = 9) -> None:
    """Let the watch tell of an object that cannot be read."""
    identity = Identity(key, Uid(f"uid-{key.name}"), str(version))
    store.apply(Obscured(Unreadable(identity, "spec.lbName: expected str")))
