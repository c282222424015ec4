"""Free ports on the loopback, for a control plane that shares it with others."""

import contextlib
import itertools
import os
import secrets
import socket

from collections.abc import Iterator


# Below the kernel's usual range for outgoing connections, so that no client takes
# the port between the choice and the start of its server; below the NodePorts.
FIRST, LAST = 10_000, 29_999

_SHARES = 8
"""Processes that look for ports at the same time rarely have the same share."""


def free_ports(count: int) -> list[int]:
    """As many different ports of 127.0.0.1 that nobody listens on.

    None of them is given again soon: its server may not have begun to listen.
    """
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            port = next(_PORTS)
            held = stack.enter_context(socket.socket())
            try:
                held.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
        return found


def _own_ports() -> Iterator[int]:
    """The ports of this process's share, from anywhere in it, round and round."""
    size = (LAST - FIRST + 1) // _SHARES
    first = FIRST + os.getpid() % _SHARES * size
    for number in itertools.count(secrets.randbelow(size)):
        yield first + number % size


_PORTS = _own_ports()
