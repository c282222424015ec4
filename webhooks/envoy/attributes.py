"""The attributes of a load balancer, checked before anything is changed. Pure."""

import enum
import ipaddress
import re

from collections.abc import Mapping
from typing import TypeVar

import attrs

from webhooks.envoy.errors import InvalidInput
from webhooks.shared.addresses import IPAddress, read_address
from webhooks.shared.reach import Network


_TIME = re.compile(r"([1-9][0-9]{0,5})(ms|s|m|h)")
_IN_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_COOKIE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_PATH = re.compile(r"/[!-~]{0,255}")
_COUNT = re.compile(r"[1-9][0-9]?")
_DIGIT = re.compile(r"[0-9]")
_SECONDS = re.compile(r"[1-9][0-9]{0,5}")

ALGORITHMS = {
    "roundrobin": "ROUND_ROBIN",
    "leastrequest": "LEAST_REQUEST",
    "random": "RANDOM",
    "source": "RING_HASH",
    "maglev": "MAGLEV",
}
"""Names, and what Envoy calls them; the last two hash the client's address."""

_BY_HASH = ("source", "maglev")
_FAMILIES = {"IPv4": 4, "IPv6": 6}
_ONLY_HTTP = (
    *("upstreamProtocol", "upstreamIdleTimeout", "requestTimeout"),
    *("retries", "stickyCookie"),
)
_ONLY_CHECKED = ("checkPath", "checkInterval", "checkTimeout", "checkRise", "checkFall")

_T = TypeVar("_T")


class Upstream(enum.StrEnum):
    """The version of HTTP in which members are spoken to; gRPC needs HTTP/2."""

    HTTP1 = "http1"
    HTTP2 = "http2"
    CLIENT = "client"
    """That of each request's client."""


@attrs.frozen
class Check:
    """How Envoys find out whether a member is well; none asks where `path` is None.

    Attributes:
        path: that is asked for over HTTP; empty: a connection is enough.
        interval, timeout: in seconds.
        rise, fall: so many checks of one kind change the verdict.
    """

    path: str
    interval: float
    timeout: float
    rise: int
    fall: int


@attrs.frozen
class Settings:
    """What a load balancer is like; times are in seconds, 0: without end.

    Attributes:
        http: whether requests are balanced, else connections, or datagrams of UDP.
        algorithm: Envoy's name.
        upstream: how members are spoken to.
        connect_timeout: for a connection to a member.
        idle_timeout: of clients' connections.
        upstream_idle_timeout: of connections to members that no request is on.
        request_timeout: of a request as a whole.
        retries: how often a request that no member has begun to serve is tried again.
        slow_start: how long a new member has until its full share.
        sticky_cookie: by which a client stays with a member; empty: none.
        check: health checks of the Envoys; None: none.
        access_log: whether each request is logged to the Envoys' standard output.
        sources: networks of clients that are served; none: all.
        address: where clients reach it, in place of the address in `listen`; None: unsaid.
        families: versions of IP in which clients are to reach it; empty: those of `listen`.
    """

    http: bool
    algorithm: str
    upstream: Upstream
    connect_timeout: float
    idle_timeout: float
    upstream_idle_timeout: float
    request_timeout: float
    retries: int
    slow_start: float
    sticky_cookie: str
    check: Check | None
    access_log: bool
    sources: tuple[Network, ...] = ()
    address: IPAddress | None = None
    families: frozenset[int] = frozenset()

    @property
    def by_hash(self) -> bool:
        """Whether the client's address chooses the member."""
        return self.algorithm in {ALGORITHMS[one] for one in _BY_HASH}


DEFAULTS: Mapping[str, str] = {
    "protocol": "http",
    "algorithm": "roundrobin",
    "upstreamProtocol": "http1",
    "connectTimeout": "1s",
    "idleTimeout": "1h",
    "upstreamIdleTimeout": "4s",
    "requestTimeout": "",
    "retries": "2",
    "slowStart": "",
    "stickyCookie": "",
    "check": "none",
    "checkPath": "/",
    "checkInterval": "2s",
    "checkTimeout": "1s",
    "checkRise": "1",
    "checkFall": "3",
    "accessLog": "none",
    "sessionAffinity": "None",
    "sessionAffinityTimeoutSeconds": "",
    "loadBalancerSourceRanges": "",
    "address": "",
    "ipFamilies": "",
}
"""All attributes that there are, and what holds where one is unsaid."""

_OF_UDP: Mapping[str, str] = {"idleTimeout": "1m"}
"""Nobody says when a client's datagrams are over."""


def parse_attributes(attributes: Mapping[str, str], *, udp: bool = False) -> Settings:
    """Read a load balancer's attributes.

    Args:
        attributes: as users said them.
        udp: whether it is for datagrams: then `protocol` has no meaning, since a class says
            it for all ports of its Services.

    Raises:
        InvalidInput: an unknown attribute, a bad value, or two that contradict.
    """
    unknown = sorted(set(attributes) - set(DEFAULTS))
    if unknown:
        raise InvalidInput(
            f"attributes: {unknown[0]!r:.60} is unknown; known are {', '.join(DEFAULTS)}"
        )
    said = {**DEFAULTS, **(_OF_UDP if udp else {}), **attributes}
    http = _one_of(said, "protocol", {"http": not udp, "tcp": False})
    _check_together(attributes, said, http=http, udp=udp)
    _check_affinity_time(said)
    return Settings(
        http=http,
        algorithm=_algorithm(said),
        upstream=_one_of(said, "upstreamProtocol", {str(one): one for one in Upstream}),
        connect_timeout=_time(said, "connectTimeout"),
        idle_timeout=_time(said, "idleTimeout"),
        upstream_idle_timeout=_time(said, "upstreamIdleTimeout"),
        request_timeout=_time(said, "requestTimeout"),
        retries=int(_matching(said, "retries", _DIGIT, "a number from 0 to 9")),
        slow_start=_time(said, "slowStart"),
        sticky_cookie=_matching(said, "stickyCookie", _COOKIE, "the name of a cookie"),
        check=_check(said),
        access_log=_one_of(said, "accessLog", {"none": False, "stdout": True}),
        sources=_networks(said, "loadBalancerSourceRanges"),
        address=_address(said, "address"),
        families=_families(said, "ipFamilies"),
    )


def difference(
    some: Mapping[str, str], others: Mapping[str, str], *, udp: bool
) -> tuple[str, str, str] | None:
    """Return the first attribute that differs, and its values; None: all are the same.

    What is unsaid counts as its default, of which some are others for `udp`.
    """
    unsaid = {**DEFAULTS, **(_OF_UDP if udp else {})}
    mine, theirs = {**unsaid, **some}, {**unsaid, **others}
    for name in unsaid:
        if mine[name] != theirs[name]:
            return name, mine[name], theirs[name]
    return None


def _check_together(
    attributes: Mapping[str, str], said: Mapping[str, str], *, http: bool, udp: bool
) -> None:
    """Refuse attributes that would have no effect beside the others.

    Raises:
        InvalidInput: names the one, and what it needs.
    """
    needs = dict.fromkeys(_ONLY_HTTP, (http, "protocol: http, and TCP"))
    needs["check"] = (said["check"] == "none" or not udp, "TCP")
    needs |= dict.fromkeys(_ONLY_CHECKED, (said["check"] != "none", "check"))
    sticky = said["sessionAffinity"] == "ClientIP"
    needs["sessionAffinityTimeoutSeconds"] = (sticky, "sessionAffinity: ClientIP")
    needs["checkPath"] = (said["check"] == "http", "check: http")
    even = _algorithm(said) in {"ROUND_ROBIN", "LEAST_REQUEST"}
    needs["slowStart"] = (even, "algorithm: roundrobin or leastrequest")
    for name, (is_met, need) in needs.items():
        if attributes.get(name) and not is_met:
            raise InvalidInput(f"attributes: {name} means nothing without {need}")


def _algorithm(said: Mapping[str, str]) -> str:
    """Return Envoy's name; with session affinity the client's address chooses."""
    chosen = _one_of(said, "algorithm", ALGORITHMS)
    sticky = _one_of(said, "sessionAffinity", {"None": False, "ClientIP": True})
    if not sticky or said["algorithm"] in _BY_HASH:
        return chosen
    if said["algorithm"] != DEFAULTS["algorithm"]:
        raise InvalidInput(
            "attributes: sessionAffinity: ClientIP needs algorithm source or maglev, not "
            f"{said['algorithm']}"
        )
    return ALGORITHMS["source"]


def _check_affinity_time(said: Mapping[str, str]) -> None:
    """Accept how long a client is to stay: it stays for as long as its member does.

    The API server gives each Service with session affinity such a time.
    """
    name = "sessionAffinityTimeoutSeconds"
    _matching(said, name, _SECONDS, "a number of seconds")


def _networks(said: Mapping[str, str], name: str) -> tuple[Network, ...]:
    """Return networks that are written with commas between."""
    try:
        texts = [one.strip() for one in said[name].split(",")]
        return tuple(ipaddress.ip_network(one) for one in texts if one)
    except ValueError as error:
        raise InvalidInput(f"attributes: {name}: {error}") from error


def _families(said: Mapping[str, str], name: str) -> frozenset[int]:
    """Return versions of IP that are written with commas between."""
    words = [one.strip() for one in said[name].split(",")] if said[name] else []
    if not _FAMILIES.keys() >= set(words):
        known = ", ".join(_FAMILIES)
        raise InvalidInput(
            f"attributes: {name} is one of {known}, or both, not {said[name]!r:.60}"
        )
    return frozenset(_FAMILIES[one] for one in words)


def _address(said: Mapping[str, str], name: str) -> IPAddress | None:
    """Return an address that one machine can have."""
    if not said[name]:
        return None
    found = read_address(f"[{said[name]}]:1") or read_address(f"{said[name]}:1")
    if found is None or found.is_nobodys:
        raise InvalidInput(
            f"attributes: {name} must be an IP address of one machine, not {said[name]!r:.60}"
        )
    return found.ip


def _check(said: Mapping[str, str]) -> Check | None:
    """Read the health check."""
    kind = _one_of(said, "check", {"none": None, "tcp": "tcp", "http": "http"})
    if kind is None:
        return None
    path = _matching(said, "checkPath", _PATH, "a path such as /healthz")
    return Check(
        path if kind == "http" else "",
        _time(said, "checkInterval"),
        _time(said, "checkTimeout"),
        int(_matching(said, "checkRise", _COUNT, "a number from 1 to 99")),
        int(_matching(said, "checkFall", _COUNT, "a number from 1 to 99")),
    )


def _one_of(said: Mapping[str, str], name: str, known: Mapping[str, _T]) -> _T:
    """Return what a word stands for."""
    if said[name] not in known:
        words = ", ".join(known)
        raise InvalidInput(
            f"attributes: {name} is one of {words}, not {said[name]!r:.60}"
        )
    return known[said[name]]


def _matching(
    said: Mapping[str, str], name: str, pattern: re.Pattern[str], what: str
) -> str:
    """Return a text of that form; empty where it may be unsaid."""
    text = said[name]
    if pattern.fullmatch(text) is None and (text or DEFAULTS[name]):
        raise InvalidInput(f"attributes: {name} must be {what}, not {text!r:.60}")
    return text


def _time(said: Mapping[str, str], name: str) -> float:
    """Return seconds; 0: unsaid."""
    text = _matching(said, name, _TIME, "a time such as 500ms, 2s, 1m or 1h")
    found = _TIME.fullmatch(text)
    return int(found[1]) * _IN_SECONDS[found[2]] if found else 0.0
