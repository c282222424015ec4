"""Where drivers may be: the patterns of `--driver-url-allow`.

A tenant writes a driver's URL, and we call it from where we stand: the operator says which
hosts that may reach. Patterns are compared with the URL as it is taken apart for the
call itself, part by part, so that no path or user name can look like a host. What is
beside us (loopback, link-local and the like) is nobody's driver unless it is named, also
where a host name leads there.
"""

import ipaddress
import re

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

import attrs
import yarl

from lbcf.runtime.addresses import plain


Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_ANY = "*"
_CALLED = frozenset({"http", "https"})
_LOCALHOST = "localhost"
_SERVICES = (".svc", ".svc.cluster.local")
_REMEMBERED = 1024
"""URLs whose answers are kept: drivers are few, and asked about before each call."""
_OF_ADDRESSES = re.compile(r"[\d.*]*\d[\d.*]*|[\da-f.*]*:[\da-f:.*]*")
"""Patterns that only addresses can match: no host name ends in a number (RFC 3696, 2)."""


@attrs.frozen
class AllowedUrl:
    """One pattern.

    Attributes:
        scheme: `http`, `https`, or `*` for both.
        host: in it `*` stands for any text, dots included; if it looks like an address it
            stands for addresses alone.
        port: None for every port.
    """

    scheme: str
    host: str
    port: int | None = None

    def holds(self, url: yarl.URL) -> bool:
        """Return whether the pattern matches a URL."""
        host = _host(url)
        fits = fnmatchcase(host, self.host) and (
            not self._is_of_addresses or _address(host) is not None
        )
        return fits and self._is_called_by(url)

    def names(self, url: yarl.URL, address: Address) -> bool:
        """Return whether it allows this very address, which the URL leads to."""
        if self.host == _LOCALHOST:
            fits = _host(url) == _LOCALHOST and address.is_loopback
        else:
            fits = self._is_of_addresses and fnmatchcase(str(address), self.host)
        return fits and self._is_called_by(url)

    @property
    def _is_of_addresses(self) -> bool:
        return _OF_ADDRESSES.fullmatch(self.host) is not None

    def _is_called_by(self, url: yarl.URL) -> bool:
        """Compare all but the host."""
        return (
            url.scheme in _CALLED
            and self.scheme in {_ANY, url.scheme}
            and self.port in {None, url.port}
        )


def parse_allowed_url(text: str) -> AllowedUrl:
    """Read a pattern.

    Raises:
        ValueError: it is none; the text says what one looks like.
    """
    scheme, found, rest = text.partition("://")
    host, port = _split(rest)
    is_port = port is None or (port.isascii() and port.isdecimal())
    odd = set(host) & set("/?#@[]\\ ") or not host or not is_port
    if not found or scheme not in {_ANY, *_CALLED} or odd:
        raise ValueError("write SCHEME://HOST[:PORT], such as https://*.drivers.svc")
    return AllowedUrl(scheme, host.lower(), None if port is None else int(port))


def _split(text: str) -> tuple[str, str | None]:
    """Part host and port; an IPv6 host has brackets around it."""
    if text.startswith("[") and "]" in text:
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":") or None
    host, colon, port = text.partition(":")
    return host, port if colon else None


@lru_cache(_REMEMBERED)
def is_allowed(url: str, allowed_urls: tuple[AllowedUrl, ...]) -> bool:
    """Return whether drivers may be called at this URL; without patterns they may.

    A host that is an address is judged at once, a name when it has been looked up.
    """
    try:
        read = yarl.URL(url)
        address = _address(_host(read))
        if address is not None and not may_reach(url, address, allowed_urls):
            return False
        return not allowed_urls or any(place.holds(read) for place in allowed_urls)
    except ValueError:
        return not allowed_urls


@lru_cache(_REMEMBERED)
def is_exposed(url: str, allowed_urls: tuple[AllowedUrl, ...]) -> bool:
    """Return whether what is sent there leaves the cluster's own network unencrypted.

    Not if it goes to a Service or to ourselves, and not where the operator says `http`.
    """
    try:
        read = yarl.URL(url)
    except ValueError:
        return True
    if read.scheme != "http":
        return False
    host = _host(read)
    address = _address(host)
    is_near = address.is_loopback if address is not None else host == _LOCALHOST
    is_named = any(p.scheme == "http" and p.holds(read) for p in allowed_urls)
    return not (is_near or is_named or host.endswith(_SERVICES))


def may_reach(url: str, address: Address, allowed_urls: Sequence[AllowedUrl]) -> bool:
    """Return whether a driver's URL may lead to this address.

    Raises:
        ValueError: the URL is none.
    """
    meant = plain(address)
    beside_us = (
        meant.is_loopback
        or meant.is_link_local
        or meant.is_unspecified
        or meant.is_multicast
    )
    read = yarl.URL(url)
    return not beside_us or any(place.names(read, meant) for place in allowed_urls)


def _host(url: yarl.URL) -> str:
    return (url.host or "").lower().rstrip(".")


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
