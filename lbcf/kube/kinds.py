"""Kinds of objects: their paths, their decoders, and those that this project works with."""

from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import quote

import attrs

from lbcf.core.model.access import Secret
from lbcf.core.model.binds import Bind
from lbcf.core.model.cluster import Pod
from lbcf.core.model.names import API_GROUP, is_shared
from lbcf.core.model.nodes import EndpointSlice, Node, NodePortService
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    LoadBalancer,
    LoadBalancerDriver,
    Meta,
)
from lbcf.core.model.services import LoadBalancerClass
from lbcf.core.model.shards import Shard
from lbcf.core.model.values import ObjectKey
from lbcf.wire.binds import parse_bind
from lbcf.wire.kube import (
    parse_endpoint_slice,
    parse_node,
    parse_pod,
    parse_secret,
    parse_service,
)
from lbcf.wire.metadata import MetaOnly, parse_meta_only
from lbcf.wire.records import parse_record
from lbcf.wire.resources import parse_driver, parse_group, parse_load_balancer
from lbcf.wire.services import parse_class


class HasMeta(Protocol):
    """Anything that was read from the API server."""

    @property
    def meta(self) -> Meta:
        """Return its metadata."""


T = TypeVar("T", bound=HasMeta)


@attrs.frozen
class Resource(Generic[T]):
    """One kind of object, read as values of one class.

    Attributes:
        group: API group; empty for the core group.
        version: of the group, such as `v1beta1`.
        plural: as in paths.
        kind: as in the objects.
        parse: reads one object's JSON, which in a list of a built-in kind has neither
            apiVersion nor kind; raises `lbcf.wire.errors.Malformed`.
        namespaced: False for kinds of the whole cluster.
    """

    group: str
    version: str
    plural: str
    kind: str
    parse: Callable[[bytes], T]
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return what objects say in apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection(self, namespace: str | None = None) -> str:
        """Return the path of a namespace's objects; None: of all namespaces'."""
        root = "/apis" if self.group else "/api"
        path = f"{root}/{self.api_version}"
        if self.namespaced and namespace:
            path += f"/namespaces/{quote(namespace, safe='')}"
        return f"{path}/{self.plural}"

    def path(self, key: ObjectKey, subresource: str = "") -> str:
        """Return the path of one object, or of a part of it such as `status`."""
        path = f"{self.collection(key.namespace)}/{quote(key.name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


PODS: Final[Resource[Pod]] = Resource("", "v1", "pods", "Pod", parse_pod)
SECRETS: Final[Resource[Secret]] = Resource("", "v1", "secrets", "Secret", parse_secret)
NODES: Final[Resource[Node]] = Resource(
    "", "v1", "nodes", "Node", parse_node, namespaced=False
)
SERVICES: Final[Resource[NodePortService]] = Resource(
    "", "v1", "services", "Service", parse_service
)
NAMESPACES: Final[Resource[MetaOnly]] = Resource(
    "", "v1", "namespaces", "Namespace", parse_meta_only, namespaced=False
)
ENDPOINT_SLICES: Final[Resource[EndpointSlice]] = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", parse_endpoint_slice
)
DRIVERS: Final[Resource[LoadBalancerDriver]] = Resource(
    API_GROUP, "v1beta1", "loadbalancerdrivers", "LoadBalancerDriver", parse_driver
)
LOAD_BALANCERS: Final[Resource[LoadBalancer]] = Resource(
    API_GROUP, "v1beta1", "loadbalancers", "LoadBalancer", parse_load_balancer
)
GROUPS: Final[Resource[BackendGroup]] = Resource(
    API_GROUP, "v1beta1", "backendgroups", "BackendGroup", parse_group
)
RECORDS: Final[Resource[BackendRecord]] = Resource(
    API_GROUP, "v1beta1", "backendrecords", "BackendRecord", parse_record
)
RECORD_METAS: Final[Resource[MetaOnly]] = Resource(
    RECORDS.group, RECORDS.version, RECORDS.plural, RECORDS.kind, parse_meta_only
)
"""Records, of which nothing but their metadata is read."""
CLASSES: Final[Resource[LoadBalancerClass]] = Resource(
    API_GROUP,
    "v1beta1",
    "loadbalancerclasses",
    "LoadBalancerClass",
    parse_class,
    namespaced=False,
)
BINDS: Final[Resource[Bind]] = Resource(API_GROUP, "v1", "binds", "Bind", parse_bind)


def divided_drivers(shard: Shard, *, everywhere: bool) -> Resource[LoadBalancerDriver]:
    """Return the kind of drivers, of whose `maxConcurrentCalls` a shard takes its part.

    Args:
        shard: whose.
        everywhere: all shards call every driver; else only those that all namespaces use.
    """

    def parse(raw: bytes) -> LoadBalancerDriver:
        found = parse_driver(raw)
        if not (everywhere or is_shared(found.meta.key)):
            return found
        part = shard.part_of(found.max_concurrent_calls)
        return attrs.evolve(found, max_concurrent_calls=part)

    return DRIVERS if shard.is_whole else attrs.evolve(DRIVERS, parse=parse)


def divided_load_balancers(shard: Shard, *, everywhere: bool) -> Resource[LoadBalancer]:
    """Return the kind of load balancers with their part, as `divided_drivers` has it."""

    def parse(raw: bytes) -> LoadBalancer:
        found = parse_load_balancer(raw)
        limit = found.max_concurrent_calls
        if limit is None or not (everywhere or is_shared(found.meta.key)):
            return found
        return attrs.evolve(found, max_concurrent_calls=shard.part_of(limit))

    return (
        LOAD_BALANCERS if shard.is_whole else attrs.evolve(LOAD_BALANCERS, parse=parse)
    )
