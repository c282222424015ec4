"""Lock keys of load balancers: which LoadBalancers share members.

A lock is on a key and an address. LoadBalancers that have members in common must have a
key in common, however they are spelled and whichever LoadBalancerDriver they name: the
driver's own `lockKey`, or, where it answers none, its URL and the load balancer's lbInfo.
A key that has been in use stays beside a newer one: records hold locks under it.
"""

import contextlib
import ipaddress
import re

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from lbcf.core.model.names import digest


_HASH = 40
_MOST_KEYS = 4
_ANSWERED = "key:"
_PORTS = {"http": 80, "https": 443}
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_UNRESERVED = re.compile(r"[\w.~-]", re.ASCII)


def key_of(
    answered: str, url: str, info: Mapping[str, str], known: Sequence[str] = ()
) -> str:
    """Return the present key of a load balancer.

    Args:
        answered: the driver's lockKey; empty where it has none, or was not asked.
        url: the driver's.
        info: lbInfo, the identity that the driver gave the load balancer.
        known: its keys until now, the newest first; what a driver answered once stays
            until it answers something else.
    """
    if answered:
        return _ANSWERED + answered
    for key in known:
        if key.startswith(_ANSWERED):
            return key
    identity = [canonical_url(url), *(f"{k}={info[k]}" for k in sorted(info))]
    return f"url:{digest(identity, _HASH)}"


def with_key(
    keys: tuple[str, ...], key: str, shared: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the keys with this one; a new one comes first, and the latest others stay.

    Args:
        keys: of a load balancer.
        key: the one that it has from now on.
        shared: keys of all objects that are the same load balancer to the driver, the
            newest first. They come along, in their order: locks are taken the oldest
            first, and where that order turns round, two records wait for each other.
    """
    older = in_order((shared, keys))[:_MOST_KEYS]
    return older if key in older else (key, *older)[:_MOST_KEYS]


def in_order(found: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return all keys of some lists, in the order of the longest list first.

    A list grows at its newest end, so that a shorter one lacks the newest keys.
    """
    longest = sorted(found, key=len, reverse=True)
    return tuple(dict.fromkeys(key for keys in longest for key in keys))


def canonical_url(url: str) -> str:
    """Return the canonical spelling of a URL: two that callers take for one are one (RFC 3986, 6.2).

    Letter case, default port, trailing slash, escapes without need, dot segments, and the
    spelling of IPv6 addresses. What is no URL is its own spelling.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    scheme, host = parts.scheme.lower(), (parts.hostname or "").rstrip(".")
    where = f"[{_canonical_ipv6(host)}]" if ":" in host else host
    if port is not None and port != _PORTS.get(scheme):
        where += f":{port}"
    query = f"?{_unescaped(parts.query)}" if parts.query else ""
    return f"{scheme}://{where}{_canonical_path(parts.path)}{query}"


def _canonical_ipv6(host: str) -> str:
    with contextlib.suppress(ValueError):
        return str(ipaddress.IPv6Address(host))
    return host


def _canonical_path(path: str) -> str:
    segments: list[str] = []
    for segment in _unescaped(path).split("/"):
        if segment == "..":
            del segments[max(1, len(segments) - 1) :]  # the root stays
        elif segment != ".":
            segments.append(segment)
    return "/".join(segments).rstrip("/")


def _unescaped(text: str) -> str:
    """Return a text with those characters escaped that need it, in capital digits."""
    return _ESCAPE.sub(_needed, text)


def _needed(escape: re.Match[str]) -> str:
    char = chr(int(escape[1], 16))
    return char if _UNRESERVED.fullmatch(char) else escape[0].upper()
