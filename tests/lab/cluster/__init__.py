"""A real Kubernetes cluster on this machine, from packages alone.

    from tests.lab.cluster import Cluster, up
    cluster = up(directory, nodes=0)      # about 5 s; the control plane on loopback
    cluster.kubectl("get", "namespaces")
    cluster.down()

The command line does the same: `python -m tests.lab.cluster --help`. Flow of a start:
`cli` > `lifecycle` > (`binaries`, `credentials`) > `supervisor` > `services`;
what runs is a `Cluster` (`api`).
"""

from tests.lab.cluster.api import Cluster
from tests.lab.cluster.audit import AuditEvent
from tests.lab.cluster.errors import (
    ClusterError,
    KubectlError,
    MissingError,
    StartError,
)
from tests.lab.cluster.layout import Options
from tests.lab.cluster.lifecycle import up


__all__ = [
    "AuditEvent",
    "Cluster",
    "ClusterError",
    "KubectlError",
    "MissingError",
    "Options",
    "StartError",
    "up",
]
