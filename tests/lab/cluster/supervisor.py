"""The background process that a cluster hangs on: `python -m ...supervisor DIR FD`.

`lifecycle` starts it; FD is its end of the leash. With nodes it is PID 1 of the
cluster's own namespaces, so its end is the end of everything in them.
"""

import os
import socket
import ssl
import sys
import urllib.error
import urllib.request

from pathlib import Path
from typing import NoReturn

from tests.lab.cluster import controlplane
from tests.lab.cluster.cgroups import remove_groups
from tests.lab.cluster.layout import Layout, Plan
from tests.lab.cluster.nodes import make_network, node_services
from tests.lab.cluster.services import Supervisor


def api_ready(layout: Layout, plan: Plan) -> bool:
    """Whether the API server says that it is ready."""
    trust = ssl.create_default_context(cafile=layout.pki / "ca.crt")
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
    )
    try:
        url = f"{plan.server}/readyz"
        with opener.open(url, timeout=10) as reply:
            return bool(reply.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def main() -> None:
    """Run the control plane, and the nodes if there are any, until told to end."""
    layout, leash = Layout(Path(sys.argv[1])), socket.socket(fileno=int(sys.argv[2]))
    os.set_inheritable(leash.fileno(), False)  # positional by definition
    plan = Plan.load(layout)
    supervisor = Supervisor(layout, leash)
    try:
        _run(layout, plan, supervisor)
    finally:
        remove_groups(layout)


def _run(layout: Layout, plan: Plan, supervisor: Supervisor) -> NoReturn:
    """Start everything in order and keep it running."""
    if plan.options.nodes:
        make_network()
    for service in controlplane.first_services(layout, plan):
        supervisor.add(service)
    for service in node_services(layout, plan):
        supervisor.add(service)
    supervisor.run_until(lambda: api_ready(layout, plan))
    supervisor.report("api")
    for service in controlplane.later_services(layout, plan):
        supervisor.add(service)
    supervisor.run()


if __name__ == "__main__":
    main()
