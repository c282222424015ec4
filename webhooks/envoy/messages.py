"""Protobuf on one side, values on the other: the only module that knows its messages.

Modules that are imported for nothing else make their messages known by name, so that the
JSON of resources can be read.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any
from weakref import WeakKeyDictionary

import attrs
import msgspec

from envoy.config.cluster.v3 import cluster_pb2  # noqa: F401
from envoy.config.endpoint.v3 import endpoint_pb2  # noqa: F401
from envoy.config.listener.v3 import listener_pb2  # noqa: F401
from envoy.extensions.access_loggers.stream.v3 import stream_pb2  # noqa: F401
from envoy.extensions.filters.http.router.v3 import router_pb2  # noqa: F401
from envoy.extensions.filters.http.stateful_session.v3 import (
    stateful_session_pb2,  # noqa: F401
)
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,  # noqa: F401
)
from envoy.extensions.filters.network.tcp_proxy.v3 import tcp_proxy_pb2  # noqa: F401
from envoy.extensions.filters.udp.udp_proxy.v3 import (
    route_pb2,  # noqa: F401
    udp_proxy_pb2,  # noqa: F401
)
from envoy.extensions.http.stateful_session.cookie.v3 import cookie_pb2  # noqa: F401
from envoy.extensions.matching.common_inputs.network.v3 import (
    network_inputs_pb2,  # noqa: F401
)
from envoy.extensions.retry.host.previous_hosts.v3 import (
    previous_hosts_pb2,  # noqa: F401
)
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2  # noqa: F401
from envoy.service.discovery.v3 import discovery_pb2
from envoy.service.load_stats.v3 import lrs_pb2
from google.protobuf import any_pb2, duration_pb2, json_format
from google.protobuf.message import DecodeError
from xds.type.matcher.v3 import ip_pb2  # noqa: F401

from webhooks.envoy.loads import Load, Report
from webhooks.envoy.resources import Kind, Resource
from webhooks.envoy.subscriptions import Asked, Offer
from webhooks.shared.addresses import read_address


Message = Any
"""A message of protobuf, whose package has no types."""

Unreadable = DecodeError
"""What came is none."""

LONGEST_TEXT = 512
"""Characters of an Envoy's error that are kept."""


@attrs.frozen
class Node:
    """Who an Envoy says that it is: `node.cluster` and `node.id`."""

    fleet: str
    envoy: str


def node_of(request: Message) -> Node:
    """Return who sends the first request of a stream."""
    return Node(str(request.node.cluster), str(request.node.id))


def kind_of(request: Message) -> Kind | None:
    """Return what a request is about; None: nothing that this driver has."""
    try:
        return Kind(str(request.type_url))
    except ValueError:
        return None


def read_request(request: Message) -> Asked:
    """Read a DeltaDiscoveryRequest."""
    failed = request.HasField("error_detail")
    text = str(request.error_detail.message)[:LONGEST_TEXT]
    return Asked(
        frozenset(request.resource_names_subscribe),
        frozenset(request.resource_names_unsubscribe),
        dict(request.initial_resource_versions),
        str(request.response_nonce),
        (text or "an error without a text") if failed else "",
    )


def response(kind: Kind, offer: Offer, nonce: str) -> Message:
    """Return a DeltaDiscoveryResponse."""
    return discovery_pb2.DeltaDiscoveryResponse(
        type_url=str(kind),
        nonce=nonce,
        resources=map(_resource, offer.resources.values()),
        removed_resources=sorted(offer.gone),
    )


def _resource(one: Resource) -> Message:
    """Return a resource with its name and version."""
    content = any_pb2.Any()
    content.ParseFromString(_packed(one))
    return discovery_pb2.Resource(name=one.name, version=one.version, resource=content)


_SENT: WeakKeyDictionary[Resource, bytes] = WeakKeyDictionary()
"""Of the resources that there are, as they are sent: many Envoys are sent the same."""


def _packed(one: Resource) -> bytes:
    """Return the content of a resource as an Any."""
    if one not in _SENT:
        message = any_pb2.Any()
        json_format.Parse(msgspec.json.encode(one.content), message)
        _SENT[one] = bytes(message.SerializeToString(deterministic=True))
    return _SENT[one]


def wish_for_reports(every: float) -> Message:
    """Return the LoadStatsResponse by which an Envoy tells of each member, so often."""
    micros = int(every * 1_000_000)
    return lrs_pb2.LoadStatsResponse(
        send_all_clusters=True,
        load_reporting_interval=duration_pb2.Duration(
            seconds=micros // 1_000_000, nanos=micros % 1_000_000 * 1000
        ),
        report_endpoint_granularity=True,
    )


def read_report(request: Message, names: AbstractSet[str]) -> Report:
    """Read what a LoadStatsRequest says of some clusters."""
    stats = {
        str(one.cluster_service_name or one.cluster_name): one.upstream_locality_stats
        for one in request.cluster_stats
    }
    return {name: dict(_loads(stats[name])) for name in stats.keys() & names}


def _loads(localities: Iterable[Message]) -> Iterable[tuple[str, Load]]:
    """Return what each address had."""
    for locality in localities:
        for one in locality.upstream_endpoint_stats:
            socket = one.address.socket_address
            yield (
                _address(str(socket.address), int(socket.port_value)),
                Load(
                    int(one.total_requests_in_progress),
                    int(one.total_issued_requests),
                ),
            )


def _address(host: str, port: int) -> str:
    """Write an address as backends have it."""
    text = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return str(read_address(text) or text)


def as_mapping(message: Message) -> Mapping[str, object]:
    """Return a message as protobuf's JSON has it, for people."""
    found: Mapping[str, object] = json_format.MessageToDict(message)
    return found
