"""The kinds that this project reads and writes, each with its narrow decoder."""

from typing import Final

from lbcf.core.model.access import Secret
from lbcf.core.model.binds import Bind
from lbcf.core.model.cluster import Pod
from lbcf.core.model.names import API_GROUP
from lbcf.core.model.nodes import EndpointSlice, Node, Service
from lbcf.core.model.resources import (
    BackendGroup,
    BackendRecord,
    LoadBalancer,
    LoadBalancerDriver,
)
from lbcf.kube.resource import Resource
from lbcf.wire.binds import parse_bind
from lbcf.wire.kube import parse_pod, parse_secret
from lbcf.wire.nodes import parse_endpoint_slice, parse_node, parse_service
from lbcf.wire.records import parse_record
from lbcf.wire.resources import parse_driver, parse_group, parse_load_balancer


PODS: Final[Resource[Pod]] = Resource("", "v1", "pods", "Pod", parse_pod)
SECRETS: Final[Resource[Secret]] = Resource("", "v1", "secrets", "Secret", parse_secret)
NODES: Final[Resource[Node]] = Resource(
    "", "v1", "nodes", "Node", parse_node, namespaced=False
)
SERVICES: Final[Resource[Service]] = Resource(
    "", "v1", "services", "Service", parse_service
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
BINDS: Final[Resource[Bind]] = Resource(API_GROUP, "v1", "binds", "Bind", parse_bind)
