"""A cluster with many records, a driver that notes first calls, and processes as in pods."""

import asyncio
import contextlib
import os
import signal
import time
import uuid

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import attrs

from images.table import IMAGES
from lbcf import sdk
from tests.drivers.servers import ALLOW_BESIDE_US
from tests.e2e import objects
from tests.e2e.stage import Process, Stage, staged
from tests.images.unpacked import Unpacked, unpacked
from tests.lab.bench.pods import paced
from tests.lab.cluster import Cluster
from tests.lab.cluster.ports import free_ports
from tests.lab.faults.witness import served
from tests.manifests.documents import CRDS
from webhooks.memory import MemoryDriver


ROLES = ("controller", "deregistrar")
ACCOUNT = "lbcf"
EACH = 50
"""Addresses of a group."""
BALANCERS = ("front", "back", "left", "right")
RATE = 20.0
"""Groups, or pods, made in a second."""
MOUNTED = ("proc", "var/run")
IN_A_POD = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--pid", "--mount", "--fork", "--kill-child"),
    *("sh", "-ec"),
    (
        'cd "$0"; mount -t proc proc proc; mount -t tmpfs run var/run; '
        "mkdir -p var/run/secrets/kubernetes.io; "
        'cp -r "$1" var/run/secrets/kubernetes.io/serviceaccount; '
        'shift; exec env -i "$@"'
    ),
)
"""Then come the files of the image, the folder of the service account, the environment, and
the program."""


class FirstCalls(MemoryDriver):
    """Notes when it was first asked to drain or to deregister each address."""

    def __init__(self) -> None:
        super().__init__(sdk.MemberKey.RECORD)
        self._heard: dict[str, asyncio.Future[float]] = {}

    async def heard_of(self, address: str) -> float:
        """Wait for the first call for an address; return its time in epoch seconds."""
        return await self._future(address)

    async def drain_backend(
        self, request: sdk.DrainBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Drain, and note it."""
        self._note(request.backend_addr)
        return await super().drain_backend(request)

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Deregister, and note it."""
        self._note(request.backend_addr)
        return await super().deregister_backend(request)

    def _note(self, address: str) -> None:
        heard = self._future(address)
        if not heard.done():
            heard.set_result(time.time())

    def _future(self, address: str) -> asyncio.Future[float]:
        loop = asyncio.get_running_loop()
        return self._heard.setdefault(address, loop.create_future())


@attrs.define
class Scene:
    """What is there."""

    cluster: Cluster
    stage: Stage
    driver: FirstCalls
    image: Unpacked
    """What the processes run from: what ships, without the packages that tests need."""
    account: Path
    pods: list[tuple[str, str]] = attrs.Factory(list)
    """Names and addresses of pods that wait to be deleted."""
    processes: list[Process] = attrs.Factory(list)
    """All that were ever made, in a pod of its own each."""

    async def start(self, role: str) -> Process:
        """Start a process as in a pod of its own."""
        probes, metrics = free_ports(2)
        host, _, port = self.cluster.server.removeprefix("https://").partition(":")
        environment = {
            **self.image.environment,
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "POD_IP": "127.0.0.1",
            "POD_UID": str(uuid.uuid4()),
            "CONTAINER_NAME": role,
        }
        argv = [
            *(*IN_A_POD, str(self.image.files), str(self.account)),
            *(f"{name}={value}" for name, value in environment.items()),
            *self.image.command(".", "0:0"),
            *(role, "--namespace", self.stage.namespace),
            *("--health-probe-bind-address", f":{probes}"),
            *("--metrics-bind-address", f"127.0.0.1:{metrics}"),
            *ALLOW_BESIDE_US,
        ]
        log = self.stage.folder / f"{role}-{len(self.processes)}.log"
        process = Process(role, argv, log)
        self.processes.append(process)
        await process.start()
        return process

    async def until_ready(self, process: Process) -> None:
        """Wait until a process that waits for the lead has read everything."""
        await self.stage.until_logged(process, "leader.followed")
        port = process.argv[process.argv.index("--health-probe-bind-address") + 1]

        async def is_ready() -> bool:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1{port}/readyz") as answer,
            ):
                return answer.status == 200

        await self.stage.until(f"{process.name} is ready", is_ready)

    async def until_out(self, address: str) -> None:
        """Wait until an address is no member any more."""

        async def gone() -> bool:
            return all(one.backend_addr != address for one in self.driver.members)

        await self.stage.until(f"{address} is no member", gone)

    async def end(self) -> None:
        """Kill all that runs."""
        for process in self.processes:
            if process.runs:
                send(process, signal.SIGKILL)
                await process.wait()


def send(process: Process, how: signal.Signals) -> None:
    """Send a signal to all that runs in a pod."""
    os.killpg(process.pid, how)


@contextlib.asynccontextmanager
async def put_up(
    cluster: Cluster, folder: Path, records: int, pods: int
) -> AsyncIterator[Scene]:
    """Have so many records registered, those of some pods among them; one of each role runs."""
    cluster.kubectl("apply", "-f", CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "-f", CRDS)
    driver = FirstCalls()
    with cluster.namespace() as namespace:
        async with staged(cluster, namespace, folder) as stage, served(driver) as url:
            account = _account(cluster, namespace, folder / "account")
            stage.driver_url = url
            image = unpacked(IMAGES["lbcf"], folder)
            for name in MOUNTED:
                (image.files / name).mkdir(parents=True)
            scene = Scene(cluster, stage, driver, image, account)
            try:
                for role in ROLES:
                    await stage.until_working(await scene.start(role))
                await _fill(scene, records, pods)
                yield scene
            finally:
                await scene.end()


def _account(cluster: Cluster, namespace: str, folder: Path) -> Path:
    """Make a service account that may do anything, with what a kubelet mounts of it."""
    inside = ("--namespace", namespace)
    cluster.kubectl("create", "serviceaccount", ACCOUNT, *inside)
    who = f"--serviceaccount={namespace}:{ACCOUNT}"
    cluster.kubectl(
        "create", "clusterrolebinding", namespace, "--clusterrole=cluster-admin", who
    )
    folder.mkdir()
    token = cluster.kubectl("create", "token", ACCOUNT, *inside, "--duration=6h")
    (folder / "token").write_text(token)
    (folder / "namespace").write_text(namespace)
    authority = cluster.layout.pki / "ca.crt"
    (folder / "ca.crt").write_bytes(authority.read_bytes())
    return folder


async def _fill(scene: Scene, records: int, pods: int) -> None:
    stage = scene.stage
    await stage.create(objects.DRIVERS, objects.a_driver(stage.driver_url))
    for name in BALANCERS:
        await stage.create(objects.LOAD_BALANCERS, objects.a_load_balancer(name))
    await stage.create(objects.GROUPS, objects.a_group())
    scene.pods = [(f"p{n}", f"10.1.{n >> 8}.{n & 255}") for n in range(pods)]

    async def add_group(number: int) -> None:
        first = number * EACH
        count = min(EACH, records - pods - first)
        static = [f"10.2.{n >> 8}.{n & 255}:80" for n in range(first, first + count)]
        lbs = [BALANCERS[number % len(BALANCERS)]]
        spec = {"loadBalancers": lbs, "static": static}
        body = {"metadata": {"name": f"s{number}"}, "spec": spec}
        await stage.create(objects.GROUPS, body)

    async def add_pod(number: int) -> None:
        name, address = scene.pods[number]
        body = objects.a_pod(name)
        body["metadata"]["finalizers"] = [objects.HELD_BY_KUBELET]
        await stage.create(objects.PODS, body)
        await stage.set_pod(name, address, ready=True)

    await paced(range(-(-(records - pods) // EACH)), RATE, add_group)
    await paced(range(pods), RATE, add_pod)

    async def are_in() -> bool:
        return len(list(scene.driver.members)) == records

    await stage.until(f"{records} are members", are_in)
    while len(await stage.registered()) < records:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(1)
