"""The driver as a process that kills itself before its n-th step, as kill -9 does.

Steps are what it does to the world: each write, rename and sync of its state, and each
response to an Envoy.
"""

import argparse
import os
import signal

from lbcf import sdk
from webhooks.envoy.__main__ import DEFAULT_PORT, add_flags, make_driver
from webhooks.envoy.driver import EnvoyDriver


def flags(parser: argparse.ArgumentParser) -> None:
    """Add the driver's own flags, and when it is to die."""
    add_flags(parser)
    parser.add_argument("--die-at", type=int, default=-1)


def make(chosen: argparse.Namespace) -> EnvoyDriver:
    """Return a driver that dies at its n-th step, counted from 0."""
    driver = make_driver(chosen)
    left = chosen.die_at

    def step(_: str) -> None:
        """Count, and die."""
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    driver.keeper.store.step = step
    return driver


if __name__ == "__main__":
    sdk.run(make, default_port=DEFAULT_PORT, flags=flags)
