"""A load balancer as Envoy's resources: listener, cluster and endpoints. Pure.

Resources are written as the JSON of Envoy's API, as its documentation shows them.
"""

import enum
import hashlib

from collections.abc import Mapping, Sequence

import attrs
import msgspec

from webhooks.envoy.attributes import Check, Settings, Upstream
from webhooks.envoy.balancers import Balancer, Endpoint, Identity, endpoints, places
from webhooks.shared.addresses import read_address


Json = dict[str, object]


class Kind(enum.StrEnum):
    """Kinds of resources, in the order in which an Envoy is given new ones."""

    CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
    ENDPOINTS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
    LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"


_HCM = (
    "type.googleapis.com/envoy.extensions.filters.network."
    "http_connection_manager.v3.HttpConnectionManager"
)
_TCP_PROXY = (
    "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"
)
_UDP_PROXY = (
    "type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig"
)
_UDP_ROUTE = "type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.Route"
_SOURCE = "type.googleapis.com/envoy.extensions.matching.common_inputs.network.v3.SourceIPInput"
_IP_MATCHER = "type.googleapis.com/xds.type.matcher.v3.IPMatcher"
_FILTERS = "type.googleapis.com/envoy.extensions.filters.http"
_STDOUT = (
    "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog"
)
_UPSTREAM = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_COOKIE_STATE = (
    "type.googleapis.com/envoy.extensions.http.stateful_session.cookie.v3."
    "CookieBasedSessionState"
)
_MANY = 1_000_000
"""In place of Envoy's 1,024 requests and connections, which surprise people."""


@attrs.frozen
class Resource:
    """One resource, and its version.

    Attributes:
        kind: of it.
        name: the same for all resources of a load balancer.
        version: the driver's epoch, and a digest of the content.
        content: as JSON.
        draining: of endpoints: addresses that are sent nothing new.
    """

    kind: Kind
    name: str
    version: str
    content: Json = attrs.field(repr=False, eq=False)
    draining: frozenset[str] = frozenset()


Snapshot = Mapping[Kind, Mapping[str, Resource]]
"""All that the Envoys of one fleet shall have, by name."""


def resources(balancer: Balancer, epoch: str) -> Sequence[Resource]:
    """Return the resources of a load balancer, one of each kind."""
    known, settings = balancer.identity, balancer.settings
    hosts = endpoints(balancer.members)
    content = {
        Kind.CLUSTER: _cluster(known, settings),
        Kind.ENDPOINTS: _assignment(known, hosts),
        Kind.LISTENER: _listener(known, settings),
    }
    out = frozenset(one.address for one in hosts if one.draining)
    return [
        Resource(
            kind,
            known.name,
            version(epoch, said),
            {"@type": str(kind), **said},
            out if kind is Kind.ENDPOINTS else frozenset(),
        )
        for kind, said in content.items()
    ]


def noted(before: Balancer | None, after: Balancer | None) -> Balancer | None:
    """Return a load balancer that knows where Envoys will not count all that they have.

    A cluster that changes is another one to Envoy, with hosts of its own, and so is a host
    whose locality changes. What is under way at those before goes on, in no load report.
    """
    if before is None or after is None or after.identity.udp:
        return after
    was = _cluster(before.identity, before.settings)
    is_other = was != _cluster(after.identity, after.settings)
    zones = {one.address: one.zone for one in endpoints(before.members)}
    uncounted = frozenset(
        one.address
        for one in endpoints(after.members)
        if one.address in zones
        and (
            is_other
            or one.address in before.uncounted
            or one.zone != zones[one.address]
        )
    )
    return msgspec.structs.replace(after, uncounted=uncounted)


def version(epoch: str, content: Json) -> str:
    """Return the version of a content: the same for the same, whoever makes it."""
    digest = hashlib.sha256(msgspec.json.encode(content, order="deterministic"))
    return f"{epoch}.{digest.hexdigest()[:24]}"


def is_of(version: str, epoch: str) -> bool:
    """Tell whether a driver with this state made a version."""
    return version.startswith(f"{epoch}.")


def _seconds(number: float) -> str:
    """Write a duration as protobuf's JSON has it."""
    return f"{number:.3f}s"


def _socket(text: str) -> Json:
    """Write an address."""
    address = read_address(text)
    assert address is not None  # noqa: S101 - was read when it came
    return {"socket_address": {"address": str(address.ip), "port_value": address.port}}


def _assignment(known: Identity, hosts: Sequence[Endpoint]) -> Json:
    """Return the members, by zone."""
    zones = sorted({one.zone for one in hosts})
    return {
        "cluster_name": known.name,
        "endpoints": [
            {
                "locality": {"zone": zone},
                "lb_endpoints": [_host(one) for one in hosts if one.zone == zone],
            }
            for zone in zones
        ],
    }


def _host(one: Endpoint) -> Json:
    """Return a member."""
    return {
        "endpoint": {"address": _socket(one.address)},
        "health_status": "DRAINING" if one.draining else "HEALTHY",
        "load_balancing_weight": one.weight,
    }


def _cluster(known: Identity, settings: Settings) -> Json:
    """Return the cluster: how members are chosen and spoken to.

    Without a panic threshold of zero, Envoy sends requests to draining members as soon as
    half of the members are out. A member that is removed goes even while it is healthy.
    """
    limits = {
        "max_connections": _MANY,
        "max_pending_requests": _MANY,
        "max_requests": _MANY,
        "max_retries": 1000,
    }
    cluster: Json = {
        "name": known.name,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": {"ads": {}, "resource_api_version": "V3"}},
        "connect_timeout": _seconds(settings.connect_timeout),
        "lb_policy": settings.algorithm,
        "common_lb_config": _common_choice(settings),
        "ignore_health_on_host_removal": True,
        "circuit_breakers": {"thresholds": [limits]},
    }
    if settings.http:
        cluster["typed_extension_protocol_options"] = {_UPSTREAM: _upstream(settings)}
    if settings.check is not None:
        cluster["health_checks"] = [_health_check(settings.check, settings.upstream)]
    if settings.slow_start:
        start = {"slow_start_window": _seconds(settings.slow_start)}
        kind = f"{settings.algorithm.lower()}_lb_config"
        cluster[kind] = {"slow_start_config": start}
    return cluster


def _common_choice(settings: Settings) -> Json:
    """Return what holds for each algorithm.

    By default a cookie leads to no member that drains: its sessions would end with the
    beginning of the drain.
    """
    said: Json = {"healthy_panic_threshold": {"value": 0}}
    if settings.sticky_cookie:
        statuses = ["UNKNOWN", "HEALTHY", "DEGRADED", "DRAINING"]
        said["override_host_status"] = {"statuses": statuses}
    return said


def _upstream(settings: Settings) -> Json:
    """Return how members are spoken to in HTTP.

    A request that crosses a member's close of an idle connection is lost, and not tried again:
    the member may have had it. So Envoy closes first.
    """
    idle = {"idle_timeout": _seconds(settings.upstream_idle_timeout)}
    http1: Json = {"http_protocol_options": {}}
    http2: Json = {"http2_protocol_options": {}}
    versions: Mapping[Upstream, Json] = {
        Upstream.HTTP1: {"explicit_http_config": http1},
        Upstream.HTTP2: {"explicit_http_config": http2},
        Upstream.CLIENT: {"use_downstream_protocol_config": http1 | http2},
    }
    return {
        "@type": f"type.googleapis.com/{_UPSTREAM}",
        "common_http_protocol_options": idle,
        **versions[settings.upstream],
    }


def _health_check(check: Check, upstream: Upstream) -> Json:
    """Return how Envoys find out whether a member is well."""
    asked: Json = {"tcp_health_check": {}}
    if check.path:
        codec = "HTTP2" if upstream is Upstream.HTTP2 else "HTTP1"
        asked = {"http_health_check": {"path": check.path, "codec_client_type": codec}}
    return {
        "interval": _seconds(check.interval),
        "no_traffic_interval": _seconds(check.interval),
        "timeout": _seconds(check.timeout),
        "healthy_threshold": check.rise,
        "unhealthy_threshold": check.fall,
        **asked,
    }


def _listener(known: Identity, settings: Settings) -> Json:
    """Return the listener."""
    ranges = [
        {"address_prefix": str(one.network_address), "prefix_len": one.prefixlen}
        for one in settings.sources
    ]
    if known.udp:
        return _udp_listener(known, settings, ranges)
    made = _http(known, settings) if settings.http else _tcp(known, settings)
    match: Json = (
        {"filter_chain_match": {"source_prefix_ranges": ranges}} if ranges else {}
    )
    return {
        "name": known.name,
        **_listening(known, settings),
        **_bound(settings),
        "filter_chains": [{"filters": [made], **match}],
    }


def _udp_listener(known: Identity, settings: Settings, ranges: Sequence[Json]) -> Json:
    """Return the listener for datagrams: those of other clients than may come are dropped."""
    route: Json = {
        "action": {
            "name": "route",
            "typed_config": {"@type": _UDP_ROUTE, "cluster": known.name},
        }
    }
    among: Json = {
        "@type": _IP_MATCHER,
        "range_matchers": [{"ranges": ranges, "on_match": route}],
    }
    source: Json = {
        "input": {"name": "source", "typed_config": {"@type": _SOURCE}},
        "custom_match": {"name": "among", "typed_config": among},
    }
    hashed: Json = {"hash_policies": [{"source_ip": True}]} if settings.by_hash else {}
    config = {
        "@type": _UDP_PROXY,
        "stat_prefix": known.name,
        "matcher": {"matcher_tree": source} if ranges else {"on_no_match": route},
        "idle_timeout": _seconds(settings.idle_timeout),
        **hashed,
        **_logs(settings),
    }
    proxy = {"name": "envoy.filters.udp_listener.udp_proxy", "typed_config": config}
    return {
        "name": known.name,
        **_listening(known, settings),
        **_bound(settings),
        "udp_listener_config": {},
        "listener_filters": [proxy],
    }


def _listening(known: Identity, settings: Settings) -> Json:
    """Return the addresses of a listener; that of IPv6 is not one of IPv4 as well."""
    protocol = {"protocol": "UDP"} if known.udp else {}
    found = [
        {"address": str(one.ip), "port_value": one.port, **protocol}
        for one in places(known, settings)
    ]
    first, *others = ({"address": {"socket_address": one}} for one in found)
    return first | ({"additional_addresses": others} if others else {})


def _bound(settings: Settings) -> Json:
    """Listen also where the machine has not the address: another one may have it just now."""
    return {"freebind": True} if settings.address else {}


def _logs(settings: Settings) -> Json:
    """Return where requests, or connections, are logged."""
    if not settings.access_log:
        return {}
    return {
        "access_log": [{"name": "stdout", "typed_config": {"@type": _STDOUT}}],
    }


def _tcp(known: Identity, settings: Settings) -> Json:
    """Return the filter for connections."""
    hashed: Json = {"hash_policy": [{"source_ip": {}}]} if settings.by_hash else {}
    config = {
        "@type": _TCP_PROXY,
        "stat_prefix": known.name,
        "cluster": known.name,
        "idle_timeout": _seconds(settings.idle_timeout),
        **hashed,
        **_logs(settings),
    }
    return {"name": "envoy.filters.network.tcp_proxy", "typed_config": config}


def _http(known: Identity, settings: Settings) -> Json:
    """Return the filter for requests."""
    hosts = {"name": "all", "domains": ["*"], "routes": [_route(known, settings)]}
    config = {
        "@type": _HCM,
        "stat_prefix": known.name,
        "route_config": {"name": known.name, "virtual_hosts": [hosts]},
        "http_filters": _http_filters(settings),
        "use_remote_address": True,
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "common_http_protocol_options": {
            "idle_timeout": _seconds(settings.idle_timeout)
        },
        "stream_idle_timeout": "0s",
        **_logs(settings),
    }
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": config,
    }


def _route(known: Identity, settings: Settings) -> Json:
    """Return where all requests go."""
    hashed = (
        {"hash_policy": [{"connection_properties": {"source_ip": True}}]}
        if settings.by_hash
        else {}
    )
    return {
        "match": {"prefix": "/"},
        "route": {
            "cluster": known.name,
            "timeout": _seconds(settings.request_timeout),
            **_retries(settings.retries),
            **hashed,
        },
    }


def _retries(most: int) -> Json:
    """Return what is tried again, at another member: what none has begun to serve."""
    if not most:
        return {}
    kind = "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
    another = {
        "name": "envoy.retry_host_predicates.previous_hosts",
        "typed_config": {"@type": f"type.googleapis.com/{kind}"},
    }
    policy = {
        "retry_on": "connect-failure,refused-stream,reset-before-request",
        "num_retries": most,
        "retry_host_predicate": [another],
        "host_selection_retry_max_attempts": 3,
    }
    return {"retry_policy": policy}


def _http_filters(settings: Settings) -> Sequence[Json]:
    """Return what is done with a request."""
    router: Json = {
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": f"{_FILTERS}.router.v3.Router"},
    }
    if not settings.sticky_cookie:
        return [router]
    cookie = {"name": settings.sticky_cookie, "path": "/", "ttl": "0s"}
    state = {
        "name": "envoy.http.stateful_session.cookie",
        "typed_config": {"@type": _COOKIE_STATE, "cookie": cookie},
    }
    kind = f"{_FILTERS}.stateful_session.v3.StatefulSession"
    sticky: Json = {
        "name": "envoy.filters.http.stateful_session",
        "typed_config": {"@type": kind, "session_state": state},
    }
    return [sticky, router]
