"""Where drivers may be: the patterns of `--driver-url-allow`.

A tenant writes a driver's URL, and we call it from where we stand: the operator says which
hosts that may reach. Patterns are compared with the URL as it is taken apart for the
call itself, part by part, so that no path or user name can look like a host.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import attrs
import yarl


_ANY = "*"
_CALLED = frozenset({"http", "https"})


@attrs.frozen
class Place:
    """One pattern.

    Attributes:
        scheme: `http`, `https`, or `*` for both.
        host: in it `*` stands for any text, dots included.
        port: None for every port.
    """

    scheme: str
    host: str
    port: int | None = None

    def holds(self, url: yarl.URL) -> bool:
        """Tell whether a URL is of this place."""
        return (
            url.scheme in _CALLED
            and self.scheme in {_ANY, url.scheme}
            and fnmatchcase((url.host or "").lower().rstrip("."), self.host)
            and self.port in {None, url.port}
        )


def parse_place(text: str) -> Place:
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
    return Place(scheme, host.lower(), None if port is None else int(port))


def _split(text: str) -> tuple[str, str | None]:
    """Part host and port; an IPv6 host has brackets around it."""
    if text.startswith("[") and "]" in text:
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":") or None
    host, colon, port = text.partition(":")
    return host, port if colon else None


def is_allowed(url: str, places: Sequence[Place]) -> bool:
    """Tell whether drivers may be called at this URL; without patterns they may."""
    if not places:
        return True
    try:
        read = yarl.URL(url)
        return any(place.holds(read) for place in places)
    except ValueError:
        return False
