"""Free ports on the loopback, for a control plane that shares it with others."""

import contextlib
import secrets
import socket


# Below the kernel's usual range for outgoing connections, so that no client takes
# the port between the choice and the start of its server; below the NodePorts.
FIRST, LAST = 10_000, 29_999


def free_ports(count: int) -> list[int]:
    """As many different ports of 127.0.0.1 that nobody listens on."""
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            port = FIRST + secrets.randbelow(LAST - FIRST + 1)
            held = stack.enter_context(socket.socket())
            try:
                held.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
        return found
