"""Where a cluster keeps its files, and what `up` was asked for.

`lifecycle` writes both before it starts the supervisor; supervisors, nodes and
every later call (`exec`, `down`, ...) read them back from the cluster's folder.
"""

import json

from pathlib import Path
from typing import Self

import attrs

from tests.lab.cluster.errors import ClusterError
from tests.patience import PATIENCE


CONTROL_PLANE_ADDRESS = "198.18.0.1"  # of a cluster with nodes, in its own network
SERVICE_RANGE = "198.18.64.0/20"
SERVICE_ADDRESS = "198.18.64.1"  # of the Service `kubernetes`
DNS_ADDRESS = "198.18.64.10"
POD_RANGE = "198.19.0.0/16"


def node_address(number: int) -> str:
    """The address of node `number` (1, 2, ...) on the cluster's bridge."""
    return f"198.18.0.{10 + number}"


def node_pods(number: int) -> str:
    """The range that the pods of node `number` get their addresses from."""
    return f"198.19.{number}.0/24"


@attrs.frozen
class Layout:
    """The files and folders of one cluster, all below `root`."""

    root: Path

    @property
    def pki(self) -> Path:
        """Keys, certificates and the components' kubeconfigs."""
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        """One log per service."""
        return self.root / "logs"

    @property
    def pids(self) -> Path:
        """One file per running service: its pid and start time."""
        return self.root / "pids"

    @property
    def holds(self) -> Path:
        """One file per service that is held down."""
        return self.root / "holds"

    @property
    def images(self) -> Path:
        """Image archives that every node imports beside the cluster's own."""
        return self.root / "images"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.root / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, one JSON event per line."""
        return self.root / "audit.log"

    @property
    def plan(self) -> Path:
        """The `Plan` this cluster runs by."""
        return self.root / "cluster.json"

    @property
    def supervisor(self) -> Path:
        """Pid and start time of the process that all others hang on."""
        return self.root / "supervisor.pid"

    def make(self) -> None:
        """Make the folders."""
        for folder in (self.pki, self.logs, self.pids, self.holds, self.images):
            folder.mkdir(parents=True)


@attrs.frozen
class Options:
    """What a caller may ask of a cluster.

    Attributes:
        nodes: Real nodes; 0 is the control plane alone, on loopback.
        timeout: Seconds until a start is given up.
        lease: Seconds that a node's lease lasts.
        api_flags: More flags for kube-apiserver.
        controller_flags: More flags for kube-controller-manager.
        kubelet_flags: More flags for every kubelet.
        proxy_mode: `nftables` or `iptables`.
        audit_bodies: The audit log holds what was written and shown of records, drivers
            and Leases, too, for `tests.lab.traced`.
    """

    nodes: int = 0
    timeout: float = 4 * PATIENCE
    lease: int = 40
    api_flags: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    controller_flags: tuple[str, ...] = attrs.field(
        default=(), converter=tuple[str, ...]
    )
    kubelet_flags: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    proxy_mode: str = "nftables"
    audit_bodies: bool = False


@attrs.frozen
class Plan:
    """All that the cluster's own processes need to know.

    Attributes:
        options: What was asked for.
        binaries: The folder of etcd, kube-apiserver and the others.
        images: The folder of image archives; empty without nodes.
        address: Where the API server listens.
        api_port: Its port.
        etcd_ports: etcd's client port and peer port, on 127.0.0.1.
    """

    options: Options
    binaries: str
    images: str
    address: str
    api_port: int
    etcd_ports: tuple[int, int]

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://{self.address}:{self.api_port}"

    def binary(self, name: str) -> str:
        """The path of a Kubernetes binary."""
        return str(Path(self.binaries) / name)

    def has(self, name: str) -> bool:
        """Whether a binary is there: assets of others may lack the controllers."""
        return Path(self.binary(name)).exists()

    def save(self, layout: Layout) -> None:
        """Write the plan into the cluster's folder."""
        layout.plan.write_text(json.dumps(attrs.asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, layout: Layout) -> Self:
        """Read the plan back.

        Raises:
            ClusterError: The folder holds no cluster.
        """
        try:
            fields = json.loads(layout.plan.read_text())
        except (FileNotFoundError, NotADirectoryError):
            raise ClusterError(
                f"{layout.root} holds no cluster (no {layout.plan.name} in it): "
                f"start one with `python -m tests.lab.cluster up --dir {layout.root}`"
            ) from None
        options, ports = fields.pop("options"), fields.pop("etcd_ports")
        return cls(options=Options(**options), etcd_ports=tuple(ports), **fields)
