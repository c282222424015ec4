"""Where the runtime API of a HAProxy listens, and which of these may be used.

A load balancer names its HAProxys, and users write load balancers: without a list of
what is allowed they could make the driver talk to any socket of its machine.
"""

import contextlib
import posixpath
import re

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import PurePosixPath

import attrs

from webhooks.haproxy.errors import InvalidInput
from webhooks.shared.addresses import LAST_PORT, is_literal
from webhooks.shared.rules import parse_rule, why_not


LONGEST_PATH = 107
"""Bytes: what fits into a unix socket's address on Linux."""

_TCP = re.compile(
    r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]{0,252})):([0-9]{1,5})"
)


@attrs.frozen
class Endpoint:
    """A stats socket: a unix path, or host and port.

    Attributes:
        path: absolute and normal; empty for TCP.
        host: an IP address or a name; empty for a unix socket.
        port: 1 to 65535; 0 for a unix socket.
    """

    path: str = ""
    host: str = ""
    port: int = 0

    @property
    def is_unix(self) -> bool:
        """Whether it is a path on this machine."""
        return bool(self.path)

    @property
    def is_literal(self) -> bool:
        """Whether the host is an IP address, which nobody can point elsewhere."""
        return is_literal(self.host)

    def __str__(self) -> str:
        if self.is_unix:
            return self.path
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """Read `/path/to.sock`, `host:port` or `[ipv6]:port`.

    Raises:
        InvalidInput: anything else.
    """
    if text.startswith("/"):
        return Endpoint(path=_checked_path(text))
    found = _TCP.fullmatch(text)
    if found is None or not 1 <= int(found[3]) <= LAST_PORT:
        raise InvalidInput(
            f"sockets: {text!r:.120} is neither an absolute path nor host:port"
        )
    return Endpoint(host=found[1].strip("[]"), port=int(found[3]))


def _checked_path(text: str) -> str:
    """Return the path of a unix socket.

    Raises:
        InvalidInput: it is too long, or says `..`, `//` or what cannot be printed.
    """
    if not text.isprintable() or len(text.encode()) > LONGEST_PATH:
        raise InvalidInput(
            f"sockets: {text!r:.120} is not a path of at most {LONGEST_PATH} bytes"
        )
    if posixpath.normpath(text) != text or text.startswith("//"):
        raise InvalidInput(f"sockets: write {text!r} without `.`, `..` and double `/`")
    return text


@attrs.frozen
class AllowedEndpoints:
    """The endpoints that load balancers may name.

    Attributes:
        patterns: rules (`webhooks.shared.rules`), in whose patterns `*`, `?` and
            `[...]` stand for characters of one part of a path, or of an IP address and
            port. A host name must be said in full: with a wildcard anybody's domain
            could match.
    """

    patterns: Sequence[str] = ("/run/haproxy/*.sock",)

    def said_in_full(self) -> Iterator[Endpoint]:
        """Return the endpoints that rules name without a wildcard."""
        for rule in map(parse_rule, self.patterns):
            with contextlib.suppress(InvalidInput):
                yield parse_endpoint(rule.pattern)

    def check(self, endpoint: Endpoint, namespace: str | None = None) -> None:
        """Let an allowed endpoint pass.

        Args:
            endpoint: that a load balancer names.
            namespace: of the load balancer; None: something there is to go.

        Raises:
            InvalidInput: no rule allows it.
        """
        why = why_not(self.patterns, partial(_matches, endpoint), namespace)
        if why:
            raise InvalidInput(f"sockets: {endpoint} {why} (--allow-sockets)")


def _matches(endpoint: Endpoint, pattern: str) -> bool:
    """Tell whether the pattern allows the endpoint."""
    if endpoint.is_unix:
        return pattern.startswith("/") and PurePosixPath(endpoint.path).match(pattern)
    if str(endpoint) == pattern:
        return True
    return endpoint.is_literal and fnmatchcase(str(endpoint), pattern)
