"""Command lines of all processes: errors in one line, and addresses to listen on."""

import argparse
import ipaddress

from typing import NoReturn

import attrs


WRONG_USAGE = 2
"""Exit status after a flag that cannot be used, as argparse has it."""


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """End the process."""
        self.exit(WRONG_USAGE, f"{self.prog}: {message} (--help lists the flags)\n")


_HIGHEST_PORT = 65535


@attrs.frozen
class BindAddress:
    """Where to listen.

    Attributes:
        host: name or address without brackets; None means every interface.
        port: 1-65535, or 0 for one that the system chooses.
    """

    host: str | None
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether nobody on another machine can connect; names are not looked up."""
        if self.host is None or self.host == "localhost":
            return self.host is not None
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        """Write it as the flag is written."""
        host = self.host or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def parse_bind_address(text: str) -> BindAddress | None:
    """Read `host:port`, `[v6]:port` or `:port` (every interface); `0` means off: None.

    Raises:
        ValueError: it is none of these; says what was expected.
    """
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not colon or (":" in host) != bracketed or not _is_port(port):
        raise ValueError(
            f"cannot listen on {text!r}: write HOST:PORT, [IPV6]:PORT, :PORT for every "
            f"interface (port 0-{_HIGHEST_PORT}), or 0 for off"
        )
    return BindAddress(host or None, int(port))


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) <= _HIGHEST_PORT
