"""One run: a few pods' lives with a fault in them, on the real API server.

    namespace, driver, gateways, processes -> script beside fault -> at rest? -> judged

The script registers three pods, changes parameters, deletes a pod whose drain has to
wait, gives the address of another deleted one to a new pod, and lets one flap. Then all
has to become right by itself, and everything is deleted in the end.
"""

import asyncio
import signal
import time

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from lbcf.kube.client import KubeClient
from tests.e2e import objects
from tests.lab.cluster import Cluster
from tests.lab.faults.gateway import Gateway
from tests.lab.faults.oracle import Violation, judge
from tests.lab.faults.plans import Kind, Plan
from tests.lab.faults.replicas import Replica
from tests.lab.faults.stage import Stage, staged
from tests.lab.faults.taping import follow, taken
from tests.lab.faults.troubles import Trouble
from tests.patience import PATIENCE


A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


@attrs.frozen
class Report:
    """What came of a run.

    Attributes:
        hit: the fault met something; a failpoint may lie behind the last effect.
        converged: seconds from the last fault, or the script's end, to rest.
        seconds: of the whole run.
        steps: that were held against the model.
    """

    plan: Plan
    violations: Sequence[Violation]
    hit: bool
    converged: float
    seconds: float
    steps: int = 0


async def run(plan: Plan, cluster: Cluster, client: KubeClient, folder: Path) -> Report:
    """Live through one plan."""
    began = time.monotonic()
    async with staged(plan, cluster, client, folder) as stage:
        fault = asyncio.create_task(_befall(stage))
        wanted = await script(stage)
        await fault
        stage.driver.late = 0.0
        calm = time.monotonic()
        wrong = await stage.until_rest(wanted, PATIENCE)
        converged = time.monotonic() - calm
        for name in ("c", "d"):
            await stage.delete_pod(name)
        wrong += await stage.until_rest({}, PATIENCE)
        hit = _was_hit(stage)
        history = stage.journal.history(by_record=plan.by_record)
        tape = await taken(stage)
    verdict = await asyncio.to_thread(follow, tape, folder)
    wrong = [*judge(history), *wrong, *verdict.violations]
    return Report(plan, wrong, hit, converged, time.monotonic() - began, verdict.steps)


async def script(
    stage: Stage, patience: float = 1.5
) -> Mapping[str, Mapping[str, str]]:
    """Let pods come and go; returns the parameters that are wanted, by address.

    Args:
        stage: where.
        patience: seconds after which it goes on although not all is registered: with a
            fault, more may not come of it.
    """
    group = stage.key("web")
    for name, address in (("a", A), ("b", B), ("c", C)):
        await stage.add_pod(name, address)
    await stage.until_rest({f"{host}:80": {} for host in (A, B, C)}, patience)
    weight = {"weight": "7"}
    await stage.client.patch(objects.GROUPS, group, {"spec": {"parameters": weight}})
    await asyncio.sleep(0.3)
    stage.driver.set_sessions(f"{A}:80", 1)
    await stage.terminate_pod("a")
    await stage.delete_pod("b")
    await stage.add_pod("d", B)
    await asyncio.sleep(0.5)
    await stage.set_ready("c", C, ready=False)
    await asyncio.sleep(0.3)
    await stage.set_ready("c", C, ready=True)
    await asyncio.sleep(0.4)
    stage.driver.set_sessions(f"{A}:80", 0)
    await stage.let_pod_go("a")
    return {f"{B}:80": weight, f"{C}:80": weight}


async def _befall(stage: Stage) -> None:
    """Bring the fault about, and wait until it is over."""
    plan = stage.plan
    await asyncio.sleep(plan.at)
    pairs = stage.of_role()
    replica, gateway = pairs[0]
    match plan.kind:
        case Kind.FAILPOINT:
            return
        case Kind.KILL:
            for _ in range(plan.times):
                replica.send(signal.SIGKILL)
                await asyncio.sleep(plan.seconds)
        case Kind.TWINS:
            await _pause(replica, plan.seconds)
        case Kind.PAUSED_LEADER:
            leader = next((r for r, _ in pairs if r.leads), replica)
            await _pause(leader, plan.seconds)
        case Kind.TROUBLE:
            await _trouble(stage, replica, gateway)


async def _pause(replica: Replica, seconds: float) -> None:
    """Stop a process, and let it go on where it was."""
    replica.send(signal.SIGSTOP)
    await asyncio.sleep(seconds)
    replica.send(signal.SIGCONT)


async def _trouble(stage: Stage, replica: Replica, gateway: Gateway) -> None:
    """Let something go wrong on the way to the API server."""
    plan = stage.plan
    if plan.trouble is Trouble.OLD_LIST:
        await gateway.age()
        await asyncio.sleep(plan.seconds)
        replica.send(signal.SIGKILL)
    elif plan.trouble is not None:
        await gateway.troubles.befall(plan.trouble, plan.seconds, plan.times)


def _was_hit(stage: Stage) -> bool:
    """Say whether the fault met something."""
    plan = stage.plan
    if plan.kind is Kind.FAILPOINT:
        return any(r.events("failpoint.hit") for r, _ in stage.of_role())
    if plan.trouble is not None:
        return any(gateway.troubles.met[plan.trouble] for _, gateway in stage.of_role())
    return True
