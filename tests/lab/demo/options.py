"""The demo's command line: what to run, for how long, and what must be reached."""

import argparse

from collections.abc import Mapping, Sequence

import attrs

from tests.lab.demo.exchange import Protocol
from tests.lab.demo.journal import API_SERVER


DESCRIPTION = """\
Real nodes, a real HAProxy or Envoy and steady traffic, while everything breaks: rolling updates,
scaling, deleted pods, drained nodes, killed controllers, a reloaded load balancer. Ends with
exit code 1 if a request failed, or if too little happened to prove anything."""


RESTARTS = {"haproxy": "reloads of HAProxy", "envoy": "restarts of Envoy"}
"""What befalls the load balancer itself, by driver."""

KILLS = {"controller": 10, "deregistrar": 10, "driver": 4, API_SERVER: 0}


HTTP2: Mapping[str, int] = {Protocol.HTTP2: 5_000, Protocol.GRPC: 200}
"""Requests and streams that are not HTTP/1.1, where the load balancer speaks that."""


@attrs.frozen
class Options:
    """What was asked for.

    Attributes:
        driver: of which load balancer.
        nodes: nodes of the demo's own cluster.
        seconds: length of the script in seconds; the minima below hold all the same.
        rate: requests per second.
        drain: False: the group does not drain, to show what that does.
        gates: pods are Ready when they are registered, and get SIGTERM when they are drained;
            False: when their probe succeeds, and when they are deleted, to show what that
            does. In a foreign cluster, whose pods may not reach us, there are no gates.
        campaign: pods are evicted, too, and rolling updates go on by quarters of the pods,
            while the API server is killed, and while there is no deregistrar.
        seed: draws the order and the moments of kills.
        json: print one JSON object as the last line of standard output.
        keep: keep the folder with the logs also when nothing failed.
        foreign: use the cluster of KUBECONFIG instead of an own one.
        drain_nodes: nodes of that cluster which may be drained of the demo's pods.
        image: the web app's image.
    """

    driver: str = "haproxy"
    nodes: int = 3
    seconds: float = 90.0
    rate: float = 400.0
    drain: bool = True
    gates: bool = True
    campaign: bool = False
    seed: int = 1
    json: bool = False
    keep: bool = False
    foreign: bool = False
    drain_nodes: tuple[str, ...] = ()
    image: str = "lbcf.local/web:1"


@attrs.frozen
class Minima:
    """Below these the demo proves nothing, whatever failed or not.

    Attributes:
        requests: requests sent.
        protocols: the least of them in each of these.
        rollouts: rolling updates completed.
        node_drains: nodes drained and given back.
        kills: kills of each process, all replicas of it together.
        driver: as in `Options`.
        reloads: reloads or restarts of the load balancer.
        evictions: times that pods were evicted.
        outages: times that there was no deregistrar for a while.
    """

    requests: int = 30_000
    protocols: Mapping[str, int] = {}
    rollouts: int = 3
    node_drains: int = 1
    kills: Mapping[str, int] = attrs.field(factory=KILLS.copy)
    driver: str = "haproxy"
    reloads: int = 1
    evictions: int = 0
    outages: int = 0


def minima(options: Options) -> Minima:
    """What must be reached; not by what may not be done to a foreign cluster."""
    protocols = HTTP2 if options.driver == "envoy" else {}
    if options.campaign:
        return Minima(
            protocols=protocols,
            rollouts=4,
            kills=KILLS | {API_SERVER: 1},
            driver=options.driver,
            evictions=1,
            outages=1,
        )
    drainable = options.drain_nodes or not options.foreign
    return Minima(
        protocols=protocols,
        node_drains=1 if drainable else 0,
        driver=options.driver,
    )


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line; ends the program with a line that says what is wrong."""
    parser = _parser()
    found = parser.parse_args(arguments)
    if found.nodes < 2:
        parser.error("--nodes must be at least 2: a drained node's pods need another")
    if not 1 <= found.rate <= 2000:
        parser.error("--rate must be between 1 and 2000 requests per second")
    if not 1 <= found.seconds <= 3600:
        parser.error("--seconds must be between 1 and 3600")
    if found.campaign and found.use_kubeconfig:
        parser.error("--campaign kills the API server: not that of --use-kubeconfig")
    if found.drain_node and not found.use_kubeconfig:
        parser.error("--drain-node goes with --use-kubeconfig; own nodes are drained")
    return Options(
        driver=found.driver,
        nodes=found.nodes,
        seconds=found.seconds,
        rate=found.rate,
        drain=found.drain,
        gates=found.gates and not found.use_kubeconfig,
        campaign=found.campaign,
        seed=found.seed,
        json=found.json,
        keep=found.keep,
        foreign=found.use_kubeconfig,
        drain_nodes=tuple(found.drain_node),
        image=found.image,
    )


def _parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.demo",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = Options()
    add = parser.add_argument
    add(
        "--driver",
        choices=RESTARTS,
        default=default.driver,
        help="of which load balancer (default %(default)s); Envoy is killed and started "
        "again where HAProxy is reloaded, and is sent HTTP/2 and gRPC, too",
    )
    add("--nodes", type=int, default=default.nodes, help="nodes of the own cluster")
    add(
        "--seconds",
        type=float,
        default=default.seconds,
        help="how long things are broken (default %(default)s); it takes longer if too "
        "little has happened by then",
    )
    add("--rate", type=float, default=default.rate, help="requests per second")
    add(
        "--no-drain",
        dest="drain",
        action="store_false",
        help="drain off: requests fail, and so the demo",
    )
    add(
        "--no-gates",
        dest="gates",
        action="store_false",
        help="pods that do not wait for load balancers: requests fail, and so the demo",
    )
    add(
        "--campaign",
        action="store_true",
        help="more befalls the app: evictions, rolling updates by quarters, while the API "
        "server is killed, and without any deregistrar",
    )
    add("--seed", type=int, default=default.seed, help="draws the moments of kills")
    add("--json", action="store_true", help="last line: the result as a JSON object")
    add("--keep", action="store_true", help="keep the logs though nothing failed")
    add(
        "--use-kubeconfig",
        action="store_true",
        help="use the cluster that KUBECONFIG names; pods must be reachable from here",
    )
    add(
        "--drain-node",
        action="append",
        default=[],
        metavar="NAME",
        help="with --use-kubeconfig: a node to drain of the demo's pods (repeatable)",
    )
    add("--image", default=default.image, help="image of the web app")
    return parser
