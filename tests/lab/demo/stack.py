"""Puts up what the demo watches, piece by piece, and takes it down in reverse.

Each piece is a context: kubectl's proxy, the CRDs, the namespace, the load balancer, our three
programs. `run` enters them in that order. Our programs run as they would in production,
started again when they end: one controller, and two deregistrars that elect a leader. In a foreign
cluster there is one of each.
"""

import asyncio
import contextlib
import json
import sys
import time

from collections.abc import AsyncIterator, Coroutine
from pathlib import Path

import attrs

from tests.drivers.servers import ALLOW_BESIDE_US
from tests.lab.cluster.ports import free_ports
from tests.lab.demo import children, gates, haproxy, manifests, traces
from tests.lab.demo.api import Api
from tests.lab.demo.census import Census
from tests.lab.demo.envoy import Envoy
from tests.lab.demo.errors import DemoError
from tests.lab.demo.ground import CONTROLLER, DEREGISTRAR, Ground
from tests.lab.demo.haproxy import HAProxy
from tests.lab.demo.options import Options
from tests.lab.demo.proxy import Proxy


HOST = "127.0.0.1"
ATTEMPTS = 100
PAUSE = 0.1
RETIRE_LIMIT = 60.0
LIST_PERIOD = "1"  # seconds; a reload of HAProxy is noticed after that at most
CRDS = Path("manifests") / "crds"


@attrs.frozen
class Addresses:
    """Where things listen, in the cluster's network.

    Attributes:
        web: the load balancer.
        driver: the driver.
        xds: the driver again, for Envoy.
        told: who is told of SIGTERM by pods.
    """

    web: str
    driver: str
    xds: str
    told: str

    @classmethod
    def choose(cls) -> "Addresses":
        """Take free ports."""
        web, driver, xds, told = free_ports(4)
        return cls(
            *(f"{HOST}:{web}", f"{HOST}:{driver}", f"{HOST}:{xds}"),
            f"{gates.SIDES[0]}:{told}",
        )


@contextlib.asynccontextmanager
async def api_reader(ground: Ground) -> AsyncIterator[Api]:
    """The API server, for reading.

    Raises:
        DemoError: it cannot be reached.
    """
    socket = ground.folder / "api.sock"
    argv = ["kubectl", "proxy", f"--unix-socket={socket}"]
    child = await children.start(ground, ground.folder / "proxy.log", argv)
    try:
        async with Api(socket) as api:
            await api.wait()
            yield api
    finally:
        await children.end(child)


@contextlib.asynccontextmanager
async def definitions(ground: Ground) -> AsyncIterator[None]:
    """The CRDs; taken out of a foreign cluster if they were not there before.

    Raises:
        DemoError: they cannot be applied.
    """
    folder = str(ground.root / CRDS)
    named = await ground.kubectl("get", "-f", folder, "--ignore-not-found", "-oname")
    await ground.kubectl("apply", "--server-side", "-f", folder)
    await ground.kubectl(
        "wait", "--for=condition=Established", "--timeout=30s", "-f", folder
    )
    try:
        yield
    finally:
        if ground.foreign and not named.strip():
            await ground.kubectl("delete", "-f", folder, "--timeout=60s")


@contextlib.asynccontextmanager
async def namespace(ground: Ground) -> AsyncIterator[str]:
    """A namespace of the demo's own; taken out of a foreign cluster at the end.

    Raises:
        DemoError: it cannot be made.
    """
    meta = {"generateName": "lbcf-demo-"}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    text = await ground.kubectl(
        "create", "-f", "-", "-ojson", stdin=json.dumps(manifest)
    )
    name = str(json.loads(text)["metadata"]["name"])
    try:
        await ground.kubectl(
            *("-n", name, "wait", "--for=create", "serviceaccount/default"),
            "--timeout=30s",
        )
        yield name
    finally:
        if ground.foreign:
            await ground.kubectl("delete", "namespace", name, "--timeout=120s")


@contextlib.asynccontextmanager
async def running_haproxy(
    ground: Ground, address: str, defaults: str = ""
) -> AsyncIterator[HAProxy]:
    """HAProxy with an empty backend, and with further `defaults` in its configuration.

    Raises:
        DemoError: it does not start.
    """
    socket, configuration = ground.folder / "ha.sock", ground.folder / "haproxy.cfg"
    log = ground.folder / "haproxy.log"
    haproxy.write_configuration(configuration, socket, address, defaults)
    argv = ["haproxy", "-W", "-db", "-f", str(configuration)]
    child = await children.start(ground, log, argv)
    try:
        proxy = HAProxy(child, socket)
        await _until_answering(proxy, log)
        yield proxy
    finally:
        await children.end(child)


@contextlib.asynccontextmanager
async def running_envoy(ground: Ground, addresses: Addresses) -> AsyncIterator[Envoy]:
    """Envoy, which waits for its driver.

    Raises:
        DemoError: it does not start.
    """
    envoy = await Envoy.start(ground, addresses.web, addresses.xds)
    try:
        await _until_answering(envoy, ground.folder / "envoy.log")
        yield envoy
    finally:
        await children.end(envoy.child)


def running_proxy(
    ground: Ground, addresses: Addresses, options: Options
) -> contextlib.AbstractAsyncContextManager[Proxy]:
    """The load balancer that was asked for."""
    if options.driver == "envoy":
        return running_envoy(ground, addresses)
    return running_haproxy(ground, addresses.web)


async def _until_answering(proxy: Proxy, log: Path) -> None:
    """Wait until the load balancer answers.

    Raises:
        DemoError: it does not; the message holds the end of its log.
    """
    for _ in range(ATTEMPTS):
        with contextlib.suppress(DemoError):
            await proxy.look()
            return
        await asyncio.sleep(PAUSE)
    raise DemoError(f"the load balancer does not start:\n{children.tail(log)}")


def our_programs(
    ground: Ground, name: str, addresses: Addresses, proxy: Proxy
) -> dict[str, children.Supervised]:
    """The driver, the controller and one deregistrar, not started yet."""
    commands = {
        "driver": [
            *(sys.executable, "-m", "tests.lab.traced.recording"),
            *(str(ground.folder / traces.CALLS), *proxy.driver),
            *("--bind-address", addresses.driver, "--allow-addresses", "127.0.0.0/8"),
        ],
        "controller": [
            *_process(ground, "controller", CONTROLLER, name),
            *("--no-leader-elect", "--list-backends-period", LIST_PERIOD),
        ],
        "deregistrar": [
            *_process(ground, "deregistrar", DEREGISTRAR, name),
            "--no-leader-elect",
        ],
    }
    return {
        role: children.Supervised(ground, role, argv) for role, argv in commands.items()
    }


def two_deregistrars(ground: Ground, name: str) -> dict[str, children.Supervised]:
    """Two replicas that elect a leader, and both answer pods that wait."""
    programs = {}
    for number, side in enumerate(gates.SIDES, 1):
        replica = f"deregistrar-{number}"
        argv = [
            *_process(ground, "deregistrar", DEREGISTRAR, name),
            *("--leader-elect", "--drain-gate-bind-address", f"{side}:{gates.PORT}"),
            *("--journal", str(ground.folder / f"{replica}.journal")),
        ]
        programs[replica] = children.Supervised(ground, replica, argv)
    return programs


def _process(ground: Ground, role: str, user: str, name: str) -> list[str]:
    """The command line of a process of ours, but for its leader election."""
    return [
        *(sys.executable, "-m", "lbcf", role, "--namespace", name),
        *("--kubeconfig", str(ground.kubeconfigs[user])),
        *("--metrics-bind-address", "0", "--health-probe-bind-address", "0"),
        *("--log-format", "json", *ALLOW_BESIDE_US),
    ]


@contextlib.asynccontextmanager
async def beside(*coroutines: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Run coroutines beside the body, and cancel them at its end.

    Raises:
        ExceptionGroup: with what one of them, or the body, raised.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine) for coroutine in coroutines]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


@contextlib.asynccontextmanager
async def load_balancing(
    ground: Ground, place: manifests.Place, census: Census, options: Options
) -> AsyncIterator[None]:
    """The web app and its load balancing, applied.

    In a foreign cluster they are deleted at the end, while our programs still run:
    finalizers hold them until those have done their work.

    Raises:
        DemoError: the API server refuses something.
    """
    wanted = [
        *manifests.web_app(place, options),
        *manifests.load_balancing(place, options),
    ]
    await ground.kubectl("apply", "-f", "-", stdin=manifests.render(wanted))
    try:
        yield
    finally:
        if ground.foreign:
            await retire(ground, place, census)


async def retire(ground: Ground, place: manifests.Place, census: Census) -> None:
    """Delete group, load balancer and driver, one after the other, and wait.

    Raises:
        DemoError: something does not go.
    """

    async def delete(resource: str) -> None:
        words = ("--all", "--ignore-not-found", f"--timeout={RETIRE_LIMIT:.0f}s")
        await ground.kubectl("-n", place.namespace, "delete", resource, *words)

    await delete("backendgroups")
    end = time.monotonic() + RETIRE_LIMIT
    while census.records:
        if time.monotonic() > end:
            names = ", ".join(record.name for record in census.records.values())
            raise DemoError(
                f"records stay though their group is gone: {names}; see what their "
                "conditions say, and controller.log and deregistrar.log"
            )
        await asyncio.sleep(PAUSE)
    await delete("loadbalancers")
    await delete("loadbalancerdrivers")
