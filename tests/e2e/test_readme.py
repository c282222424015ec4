"""README's Service, line by line, on the manifests that ship: from `kubectl expose` to an answer.

The driver and an Envoy run with the flags and the configuration of manifests/drivers/envoy, and
Envoy in a network of its own, where port 80 is free and 192.0.2.1 is a node's.
"""

import asyncio
import contextlib
import secrets
import shlex
import sys

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Self

import attrs
import pytest
import yaml

from lbcf.core.model import names
from lbcf.core.model.values import ObjectKey
from tests.e2e import objects
from tests.e2e.stage import Process, Stage
from tests.envoy.shipped import envoy_argv, pod, write_certificates
from tests.envoy.shipped import objects as shipped
from tests.lab.cluster.ports import free_ports
from tests.lab.installed.install import ROOT
from tests.lab.installed.quickstart import lines


pytestmark = [pytest.mark.cluster, pytest.mark.envoy, pytest.mark.long]

SYSTEM = "kube-system"
HEADING = "A load balancer for a Service"
ADDRESS = "192.0.2.1"
POD = "10.0.0.1"


@attrs.frozen
class Node:
    """A network with the address of a node, and that of a pod.

    Attributes:
        holder: a process in it.
    """

    holder: int

    @classmethod
    @contextlib.asynccontextmanager
    async def up(cls) -> AsyncIterator[Self]:
        """Have it for a block."""
        kept = await asyncio.create_subprocess_exec(
            *("unshare", "--net", "cat"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert kept.stdin is not None
        assert kept.stdout is not None
        try:
            kept.stdin.write(b"\n")  # answered by cat, so it has its own network
            await kept.stdout.readline()
            node = cls(kept.pid)
            await node.run("ip", "link", "set", "lo", "up")
            for address in (ADDRESS, POD):
                await node.run("ip", "address", "add", f"{address}/32", "dev", "lo")
            yield node
        finally:
            kept.kill()
            await kept.wait()

    def command(self, *argv: str | Path) -> list[str]:
        """A command line that runs there."""
        net = f"--net=/proc/{self.holder}/ns/net"
        return ["nsenter", net, *(str(word) for word in argv)]

    async def run(self, *argv: str) -> str:
        """Run a program there; return what it printed, whether it succeeded or not."""
        child = await asyncio.create_subprocess_exec(
            *self.command(*argv),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await child.communicate()
        return said.decode()


@contextlib.asynccontextmanager
async def handed_on(path: Path, port: int) -> AsyncIterator[None]:
    """Hand connections on from a socket file, which other networks see, to a port of this one."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()  # the driver is not up yet
            return
        await asyncio.gather(pump(reader, back), pump(there, writer))

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield
    finally:
        server.close()


def driver_flags(folder: Path, serving: int, xds: int) -> list[str]:
    """Return the shipped flags of the driver, with files of ours."""
    workload = pod(shipped("deployment.yaml")["Deployment"])
    text = "\n".join(workload["containers"][0]["args"])
    for theirs, ours in (
        ("=:18000", f"=127.0.0.1:{xds}"),
        ("/etc/lbcf/token", str(folder)),
        ("/etc/lbcf/xds", str(folder)),
        ("/var/lib/lbcf-envoy", str(folder)),
    ):
        assert theirs in text
        text = text.replace(theirs, ours)
    return ["--bind-address", f"127.0.0.1:{serving}", *text.splitlines()]


def made_token(folder: Path) -> dict[str, Any]:
    """Write the driver's token; return the Secret of it that its callers read."""
    token = secrets.token_hex(32)
    (folder / "token").write_text(token)
    labels = {"app.kubernetes.io/part-of": "lbcf"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "lbcf-envoy-token", "namespace": SYSTEM, "labels": labels},
        "stringData": {"token": token},
    }


async def started(stage: Stage, name: str, argv: Sequence[str | Path]) -> None:
    """Start a program that ends with the stage."""
    words = [str(word) for word in argv]
    stage.processes[name] = Process(name, words, stage.folder / f"{name}.log")
    await stage.processes[name].start()


@pytest.fixture(name="node")
async def _node(bare: Stage) -> AsyncIterator[Node]:
    """All that ships is there: processes of ours, driver and LoadBalancerDriver, and an Envoy."""
    folder, cluster = bare.folder, bare.cluster
    serving, xds, ready = free_ports(3)
    write_certificates(folder)
    driver = shipped("deployment.yaml")["LoadBalancerDriver"]
    driver["spec"]["url"] = f"http://127.0.0.1:{serving}"
    both = yaml.safe_dump_all([made_token(folder), driver])
    socket = folder / "xds.sock"
    flags = driver_flags(folder, serving, xds)
    bare.namespaces.add("default")
    await started(bare, "envoy-driver", [*bare.recorded("webhooks.envoy"), *flags])
    async with Node.up() as node, handed_on(socket, xds):
        cluster.kubectl("apply", "-f", "-", stdin=both)
        argv = envoy_argv(folder, f"pipe: {{path: {socket}}}", ready)
        await started(bare, "envoy", node.command(*argv))
        await bare.start("controller")
        await bare.start("deregistrar")
        try:
            yield node
        finally:
            await take_away(bare)
            # Tests of the policies leave them in place, and one guards drivers by a label.
            lets_go = f"{names.LABEL_DRAINING}=true"
            cluster.kubectl("label", "lbd/lbcf-envoy", "-n", SYSTEM, lets_go)
            cluster.kubectl("delete", "-f", "-", stdin=both)


async def take_away(stage: Stage) -> None:
    """Delete what README makes; the Service is gone when its load balancer is."""
    gone = ("delete", "--ignore-not-found", "--wait=false", "-n", "default")
    for one in ("service/web", "deployment/web", "pod/web", "loadbalancerclass/edge"):
        stage.cluster.kubectl(*gone, one)

    async def is_gone() -> bool:
        left = stage.cluster.kubectl(
            "get", "svc,lb,bg,br", "-n", "default", "-o", "name"
        )
        return {"service/kubernetes"} >= set(left.split())

    await stage.until("all of it is gone", is_gone)


async def has_pod(stage: Stage, node: Node) -> None:
    """Be the ReplicaSet, the node and the image of the Deployment: a pod that is served."""
    page = stage.folder / "page"
    page.mkdir()
    (page / "index.html").write_text("served")
    argv = ("-m", "http.server", "8080", "--bind", POD, "--directory", page)
    await started(stage, "web", node.command(sys.executable, *argv))
    await stage.client.create(objects.PODS, "default", objects.a_pod("web", app="web"))
    status = objects.pod_status(POD, ready=True)
    key = ObjectKey("default", "web")
    await stage.client.patch(objects.PODS, key, status, subresource="status")


async def test_the_service_of_readme(bare: Stage, node: Node) -> None:
    """Its lines alone, in their order, and clients are served at the address that it shows."""
    shown = [
        one.command
        for one in lines((ROOT / "README.md").read_text())
        if one.heading == HEADING
    ]

    def run(command: str) -> str:
        return bare.cluster.kubectl(*shlex.split(command, comments=True)[1:])

    for command in shown[:-1]:
        run(command)
    await has_pod(bare, node)

    async def has_address() -> bool:
        return run(shown[-1]).splitlines()[1].split()[3] == ADDRESS

    async def is_served() -> bool:
        url = f"http://{ADDRESS}/"
        return await node.run("curl", "--silent", "--max-time", "5", url) == "served"

    await bare.until("the Service has the address", has_address)
    await bare.until("clients are served there", is_served)
