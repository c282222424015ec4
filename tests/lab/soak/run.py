"""Puts the soak up, lets it run, and takes it down; says what came of it."""

import asyncio
import contextlib
import random
import sys
import time

from collections.abc import AsyncIterator, Sequence

import attrs

from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import connect
from lbcf.kube.kinds import NAMESPACES
from lbcf.runtime.clock import SystemClock
from tests.drivers.servers import ALLOW_BESIDE_US
from tests.e2e import objects
from tests.lab.cluster import Cluster
from tests.lab.cluster.ports import free_ports
from tests.lab.demo import haproxy
from tests.lab.demo.children import Supervised
from tests.lab.demo.ground import Ground
from tests.lab.demo.haproxy import HAProxy
from tests.lab.demo.journal import Journal
from tests.lab.demo.stack import beside, running_haproxy
from tests.lab.demo.traffic import FailedRequest, Traffic, outside_gaps
from tests.lab.demo.verdict import explain
from tests.lab.soak.audit import Auditor
from tests.lab.soak.kills import DRIVER, Killer
from tests.lab.soak.pods import PORT, Pods
from tests.lab.soak.turmoil import Turmoil


KILL_PAUSE = 1.0
REST = 60.0
LAST_GRACE = 12.0
TELL_EVERY = 10.0
LOOK = 0.3
EXAMPLES = 5


@attrs.frozen
class Result:
    """What came of a soak.

    Attributes:
        wrong: what must not be, for people; empty is good.
        figures: by name.
    """

    wrong: Sequence[str]
    figures: dict[str, object]


@attrs.frozen
class Scene:
    """All that runs."""

    turmoil: Turmoil
    traffic: Traffic
    programs: Sequence[Supervised]

    @property
    def journal(self) -> Journal:
        """What was done."""
        return self.turmoil.journal


async def soak(
    ground: Ground,
    cluster: Cluster,
    chance: random.Random,
    seconds: float,
    rate: float,
) -> Result:
    """Soak for so long."""
    began = time.monotonic()
    async with _scene(ground, cluster, chance, seconds, rate) as scene:
        turmoil = scene.turmoil
        async with beside(turmoil.auditor.run(), _tell(scene, began)):
            async with beside(turmoil.killer.run()):
                await turmoil.run(seconds)
            rest = await _until_rest(scene)
            await scene.traffic.stop()
            await turmoil.pods.end_all(LAST_GRACE)
            gone = await _until_rest(scene)
    return _result(scene, [rest, gone], time.monotonic() - began)


async def _until_rest(scene: Scene) -> str:
    """Wait until all is as it should be; say what is not, when the time is over."""
    pods, auditor = scene.turmoil.pods, scene.turmoil.auditor
    end = time.monotonic() + REST
    while True:
        wrong = await auditor.at_rest({pod.address for pod in pods.living})
        if not wrong or time.monotonic() > end:
            return wrong
        await asyncio.sleep(LOOK)


async def _tell(scene: Scene, began: float) -> None:
    """Tell how far things are, now and then."""
    while True:
        await asyncio.sleep(TELL_EVERY)
        auditor, journal = scene.turmoil.auditor, scene.journal
        if auditor.blind:
            continue  # the reload's failures are not told apart before its end
        failures = outside_gaps(scene.traffic.failures, journal)
        print(
            f"{time.monotonic() - began:6.0f} s  {scene.traffic.figures.requests} "
            f"requests, {len(failures)} failed, {len(journal.kills)} kills, "
            f"{len(auditor.leaks)} leaked, {len(auditor.removals)} wrongly removed, "
            f"{scene.turmoil.pods.created} pods",
            flush=True,
        )


@contextlib.asynccontextmanager
async def _scene(
    ground: Ground,
    cluster: Cluster,
    chance: random.Random,
    seconds: float,
    rate: float,
) -> AsyncIterator[Scene]:
    """Put everything up, and take it down."""
    web = f"127.0.0.1:{free_ports(1)[0]}"
    driver = f"127.0.0.1:{free_ports(1)[0]}"
    connection = await connect(str(cluster.kubeconfig))
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            connected(connection, SystemClock(), user_agent="soak")
        )
        namespace = f"soak-{time.monotonic_ns():x}"
        await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        proxy = await stack.enter_async_context(running_haproxy(ground, web))
        await _load_balancing(client, namespace, driver, proxy)
        journal = Journal()
        started = programs(ground, namespace, driver, proxy, "--no-leader-elect")
        await stack.enter_async_context(
            beside(*(program.run(journal.trouble) for program in started))
        )
        pods = Pods(client, namespace)
        killer = Killer(started, driver, journal, pause=KILL_PAUSE, chance=chance)
        auditor = Auditor(pods.records, proxy.socket)
        turmoil = Turmoil(pods, auditor, killer, proxy, journal, chance)
        stack.callback(turmoil.pods.stop_servers)
        await turmoil.begin()
        traffic = await Traffic.start(ground, web, rate, seconds + 3 * REST)
        stack.push_async_callback(traffic.kill)
        reading = asyncio.create_task(traffic.read())
        stack.callback(reading.cancel)
        yield Scene(turmoil, traffic, started)
        await _retire(client, namespace)


async def _load_balancing(
    client: KubeClient, namespace: str, driver: str, proxy: HAProxy
) -> None:
    """Create driver, load balancer and group."""
    operations = ("drainBackend", "listBackends", "ensureBackend", "deregisterBackend")
    webhooks = [{"name": name, "timeout": "3s"} for name in operations]
    body = objects.a_driver(f"http://{driver}", lateEffectSeconds=2, webhooks=webhooks)
    await client.create(objects.DRIVERS, namespace, body)
    balancer = objects.a_load_balancer()
    balancer["spec"]["lbSpec"] = {
        "sockets": str(proxy.socket),
        "backend": haproxy.BACKEND,
    }
    await client.create(objects.LOAD_BALANCERS, namespace, balancer)
    pods = {
        "ports": [{"port": PORT, "protocol": "TCP"}],
        "byLabel": {"selector": {"app": "web"}},
    }
    parameters = {"check": "false", "weight": "100"}
    drain = {"timeoutSeconds": 10}
    group = objects.a_group(pods=pods, parameters=parameters, drain=drain)
    await client.create(objects.GROUPS, namespace, group)


def programs(
    ground: Ground, namespace: str, driver: str, proxy: HAProxy, election: str
) -> list[Supervised]:
    """Driver, controller and deregistrar, started again whenever they end."""
    serve = (sys.executable, "-m", "webhooks.haproxy", "--bind-address", driver)
    allow = ("--allow-addresses", "127.0.0.0/8", "--allow-sockets")
    found = [Supervised(ground, DRIVER, [*serve, *allow, str(proxy.socket)])]
    for role, kubeconfig in ground.kubeconfigs.items():
        argv = [
            *(sys.executable, "-m", "lbcf", role, "--namespace", namespace),
            *("--kubeconfig", str(kubeconfig), election),
            *ALLOW_BESIDE_US,
            *("--metrics-bind-address", "0", "--health-probe-bind-address", "0"),
        ]
        if role == "controller":
            argv += ["--list-backends-period", "1"]
        found.append(Supervised(ground, role, argv))
    return found


async def _retire(client: KubeClient, namespace: str) -> None:
    """Delete the namespace; the control plane goes anyway."""
    await client.delete(NAMESPACES, ObjectKey("", namespace))


def _result(scene: Scene, rests: Sequence[str], seconds: float) -> Result:
    """Put everything together."""
    turmoil, journal = scene.turmoil, scene.journal
    auditor, pods, figures = turmoil.auditor, turmoil.pods, scene.traffic.figures
    dead = outside_gaps(scene.traffic.failures, journal)
    gaps = [gap.end - gap.begin for gap in journal.gaps]
    wrong = [
        *(f"leaked: {address} of {uid}" for uid, address in auditor.leaks.items()),
        *(f"removed: {address} of {uid}" for uid, address in auditor.removals.items()),
        *_told(dead, journal),
        *(f"not at rest: {rest}" for rest in rests if rest),
        *journal.troubles,
    ]
    return Result(
        wrong,
        {
            "seconds": round(seconds, 1),
            "requests": figures.requests,
            "sent_to_the_dead": len(dead),
            "failed_in_reloads": figures.failed - len(dead),
            "held_back": figures.held_back,
            "leaked": len(auditor.leaks),
            "wrongly_removed": len(auditor.removals),
            "looks": auditor.looks,
            "kills": {
                program.name: journal.counts[f"kill {program.name}"]
                for program in scene.programs
            },
            "pods": pods.created,
            "addresses_reused": pods.reused,
            "deeds": {
                kind: count
                for kind, count in sorted(journal.counts.items())
                if not kind.startswith("kill ")
            },
            "longest_reload_gap_s": round(max(gaps, default=0.0), 2),
            "slowest_registration_s": round(turmoil.slowest, 1),
            "troubles": len(journal.troubles),
        },
    )


def _told(dead: Sequence[FailedRequest], journal: Journal) -> list[str]:
    """Tell of the first requests that failed."""
    return [f"sent to the dead: {explain(one, journal)}" for one in dead[:EXAMPLES]]
