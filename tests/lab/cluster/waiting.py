"""Holding services down and letting them go, by the files a `Supervisor` reads.

`api` does it to the control plane, `machines` to nodes and to what runs on them.
"""

import time

from tests.lab.cluster.errors import ClusterError
from tests.lab.cluster.layout import Layout
from tests.lab.cluster.pids import Pid
from tests.patience import PATIENCE


def running_services(layout: Layout) -> dict[str, Pid]:
    """The services that run, with their pids as their own namespace counts."""
    found = {path.name: Pid.read(path) for path in layout.pids.iterdir()}
    return {name: pid for name, pid in sorted(found.items()) if pid is not None}


def hold(layout: Layout, service: str) -> None:
    """Kill a service, and keep it down until it is released.

    Raises:
        ClusterError: There is no such service, or it does not stop.
    """
    # The log tells a service that is about to start again from one unheard of.
    if not (layout.logs / f"{service}.log").exists():
        running = ", ".join(running_services(layout)) or "none"
        raise ClusterError(f"there is no service {service} here (running: {running})")
    (layout.holds / service).touch()
    await_service(layout, service, running=False)


def release(layout: Layout, service: str) -> None:
    """Let a held service start again and wait until it has.

    Raises:
        ClusterError: It is not held, or does not start.
    """
    try:
        (layout.holds / service).unlink()
    except FileNotFoundError:
        raise ClusterError(f"{service} is not held down") from None
    await_service(layout, service, running=True)


def await_service(layout: Layout, service: str, *, running: bool) -> None:
    """Wait until a service runs, or does not.

    Raises:
        ClusterError: It takes longer than `PATIENCE`.
    """
    end = time.monotonic() + PATIENCE
    while (layout.pids / service).exists() != running:
        if time.monotonic() > end:
            verb, log = "start" if running else "stop", layout.logs / f"{service}.log"
            raise ClusterError(f"{service} did not {verb} in {PATIENCE:g} s, see {log}")
        time.sleep(0.02)
