"""The processes themselves: how they start, end, take over and survive."""

import asyncio
import contextlib
import signal
import sys

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.e2e import objects
from tests.e2e.stage import Stage
from tests.e2e.watched import metrics_of
from tests.lab.cluster import AuditEvent
from tests.lab.cluster.ports import free_ports
from tests.patience import PATIENCE


pytestmark = pytest.mark.cluster

NOBODY = "99999999-2222-3333-4444-555555555555"
"""A uid that no pod has."""


async def _lbcf(*argv: str) -> tuple[int, str]:
    """Run the command line to its end; status and standard error."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "lbcf", *argv, stderr=asyncio.subprocess.PIPE
    )
    _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode is not None
    return process.returncode, err.decode()


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["controller", "--kubeconfig", "/nowhere"], "--kubeconfig /nowhere"),
        (["controller", "--speed", "9"], "--speed"),
        (["pilot"], "pilot"),
        (["controller", "--grace-period", "-1"], "--grace-period"),
        (["controller", "--metrics-bind-address", "x"], "--metrics-bind-address"),
        (["deregistrar", "--log-level", "loud"], "loud"),
    ],
    ids=[
        "no kubeconfig",
        "no such flag",
        "no such process",
        "range",
        "address",
        "level",
    ],
)
async def test_wrong_flags_end_in_one_line(argv: list[str], told: str) -> None:
    """Status 2, and one line that names the flag."""
    status, err = await _lbcf(*argv)

    assert 2 == status
    assert told in err
    assert 1 == len(err.strip().splitlines()), err


async def test_broken_kubeconfig_ends_in_one_line(stage: Stage) -> None:
    """A kubeconfig that is none, and a context that it does not have."""
    broken = stage.folder / "broken"
    broken.write_text("clusters: 7")

    status, err = await _lbcf("controller", "--kubeconfig", str(broken))
    assert (2, 1) == (status, len(err.strip().splitlines())), err
    config = str(stage.cluster.kubeconfig)
    status, err = await _lbcf(
        "controller", "--kubeconfig", config, "--context", "elsewhere"
    )
    assert (2, 1) == (status, len(err.strip().splitlines())), err
    assert "elsewhere" in err


async def test_taken_address_ends_in_one_line(stage: Stage) -> None:
    """Two processes cannot serve probes on one port."""
    taken = stage.driver_url.removeprefix("http://")
    config = str(stage.cluster.kubeconfig)

    status, err = await _lbcf(
        *("controller", "--kubeconfig", config, "--log-level", "error"),
        *("--health-probe-bind-address", taken),
    )

    assert 2 == status
    assert taken in err
    assert 1 == len(err.strip().splitlines()), err


async def test_leases_are_renewed_on_connections_of_their_own(stage: Stage) -> None:
    """A renewal never waits behind the work's own requests."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")

    requests = stage.cluster.audit(stage.user("controller"))
    ways = {("lbcf-controller" == e.name, "election" in e.agent) for e in requests}

    assert {(True, True), (False, False)} == ways


@pytest.fixture(name="patient")
async def _patient(bare: Stage) -> Stage:
    """A pod is registered at a driver that is called about members alone, and waited for."""
    await bare.start_driver()
    await bare.start("controller")
    await bare.start("deregistrar")
    operations = ("ensureBackend", "deregisterBackend")
    longest = "1m"
    webhooks = [{"name": name, "timeout": longest} for name in operations]
    await bare.setting(webhooks=webhooks)
    await bare.add_pod("a", "10.0.0.1")
    await bare.until_registered("10.0.0.1:80")
    return bare


async def _until_calling(stage: Stage, process: str) -> None:
    """Wait until a call of a process is under way."""
    driver = f'driver="{stage.namespace}/memory"'
    told = f"lbcf_driver_calls_in_flight{{{driver}}} 1.0"

    async def is_calling() -> bool:
        return told in await metrics_of(stage, process)

    await stage.until("the driver is called", is_calling)


async def _end_in_the_call(stage: Stage, process: str) -> int:
    """End a process while its driver stands still, which answers then; the exit status."""

    async def answer() -> None:
        stage.processes["driver"].send(signal.SIGCONT)

    status, _ = await asyncio.gather(stage.processes[process].end(), answer())
    return status


async def test_sigterm_finishes_the_call_and_releases_the_lease_last(
    patient: Stage,
) -> None:
    """A registration under way at SIGTERM is written down before the Lease goes."""
    stage = patient
    stage.processes["driver"].send(signal.SIGSTOP)
    await stage.add_pod("b", "10.0.0.2")
    await _until_calling(stage, "controller")
    assert {"10.0.0.1:80"} == await stage.registered()
    assert 0 == await _end_in_the_call(stage, "controller")

    assert {"10.0.0.1:80", "10.0.0.2:80"} == await stage.registered()
    writes = _writes(stage, "controller")
    assert "leases" == writes[-1].resource
    lease = await stage.get(objects.LEASES, "lbcf-controller")
    assert lease is not None
    assert "" == lease.body["spec"].get("holderIdentity", "")


async def test_sigterm_of_the_deregistrar_finishes_the_call(patient: Stage) -> None:
    """A deregistration under way at SIGTERM is finished, finalizer and all."""
    stage = patient
    stage.processes["driver"].send(signal.SIGSTOP)
    await stage.delete(objects.PODS, "a")
    await _until_calling(stage, "deregistrar")
    assert 0 == await _end_in_the_call(stage, "deregistrar")

    assert () == await stage.listed(objects.RECORDS)
    assert "leases" == _writes(stage, "deregistrar")[-1].resource


def _writes(stage: Stage, process: str) -> list[AuditEvent]:
    """The writes of a process, in order."""
    return [e for e in stage.cluster.audit(stage.user(process)) if e.is_write]


async def test_standby_takes_over_at_once_from_a_leader_that_ends(stage: Stage) -> None:
    """Two controllers: one works; when it ends, the other goes on."""
    first = stage.processes.pop("controller")
    await stage.until_working(first)
    await stage.start("controller")
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")

    assert 0 == await first.end()
    await stage.add_pod("b", "10.0.0.2")

    await stage.until_registered("10.0.0.1:80", "10.0.0.2:80")


async def test_standby_ends_at_sigterm(stage: Stage) -> None:
    """A process that never led has nothing to release and ends."""
    first = stage.processes.pop("controller")
    await stage.until_working(first)
    standby = await stage.start("controller")
    await stage.until_logged(standby, "process.started")
    assert 0 == await standby.end()
    assert first.runs
    assert 0 == await first.end()


async def test_standby_answers_pods_that_wait(stage: Stage) -> None:
    """The gate is open at every replica, leading or not."""
    first = stage.processes.pop("deregistrar")
    await stage.until_working(first)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    flag = "--drain-gate-bind-address"
    standby = await stage.start("deregistrar", flag, address)
    await stage.until_logged(standby, "gate.serving")
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    pod = await stage.get(objects.PODS, "a")
    assert pod is not None

    async with aiohttp.ClientSession(f"http://{address}") as session:

        async def drained(uid: str) -> bool:
            """Ask as a pod of this uid."""
            path = f"/v1/pods/{uid}/drained?timeoutSeconds=1"
            async with session.get(path) as answer:
                said: dict[str, bool] = await answer.json(content_type=None)
                return said["drained"]

        assert not await drained(pod.meta.uid)
        await stage.until("who is not known may end", lambda: drained(NOBODY))

    assert first.runs
    assert not standby.events("work.started") or first.events("leader.lost")
    assert 0 == await first.end()


@pytest.mark.parametrize("victim", ["controller", "deregistrar"])
async def test_killed_process_loses_nothing(stage: Stage, victim: str) -> None:
    """Kill -9 in the middle of registrations and removals: all is as it should be."""
    names = [f"p{number}" for number in range(20)]
    for number, name in enumerate(names[:10]):
        await stage.add_pod(name, f"10.0.0.{number}")
    await stage.until_registered(*(f"10.0.0.{n}:80" for n in range(10)))
    operation = "ensureBackend" if victim == "controller" else "deregisterBackend"
    await stage.behave(operation, "slow", times=10, seconds=0.4)
    for number, name in enumerate(names[10:], 10):
        await stage.add_pod(name, f"10.0.0.{number}")
    for name in names[:10]:
        await stage.delete(objects.PODS, name)
    await asyncio.sleep(0.2)

    await stage.processes[victim].end(signal.SIGKILL)
    await stage.start(victim, "--no-leader-elect")

    await stage.until_registered(*(f"10.0.0.{n}:80" for n in range(10, 20)))
    records = await stage.listed(objects.RECORDS)
    assert 10 == len([r for r in records if r.meta.deleting_since is None])


async def _page(url: str) -> str:
    """Read a page that must be there."""
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        text = await answer.text()
        assert 200 == answer.status, text
        return text


@pytest.mark.parametrize("process", ["controller", "deregistrar"])
async def test_probes_and_metrics(stage: Stage, process: str) -> None:
    """Ready once everything has been read; metrics under the names people know."""
    running = stage.processes[process]
    await stage.until_working(running)
    flags = dict(zip(running.argv[4::2], running.argv[5::2], strict=False))
    probes = flags["--health-probe-bind-address"]

    assert "ok" == await _page(f"http://{probes}/healthz")
    assert "[+]synced-backendrecords ok" in await _page(
        f"http://{probes}/readyz?verbose"
    )
    page = await _page(f"http://{flags['--metrics-bind-address']}/metrics")
    assert f'leader_election_master_status{{name="lbcf-{process}"}} 1.0' in page
    assert "workqueue_depth" in page
    assert "lbcf_driver_calls_total" in page


ASKERS = 400
"""Of one pod at the drain gate; of one address it lets 512 in."""


@contextlib.asynccontextmanager
async def _asked_again_and_again(port: int, uid: str) -> AsyncIterator[list[bytes]]:
    """Have many ask whether a pod is drained, as its waiters do; gives their answers."""
    answers: list[bytes] = []

    async def ask() -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                with contextlib.closing(writer):
                    writer.write(
                        f"GET /v1/pods/{uid}/drained HTTP/1.0\r\n\r\n".encode()
                    )
                    answers.append(await reader.readuntil(b"\r\n"))
                    await reader.read()
            await asyncio.sleep(0.05)

    asking = [asyncio.create_task(ask()) for _ in range(ASKERS)]
    try:
        yield answers
    finally:
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


@pytest.mark.parametrize(("limit", "refuses"), [("256:4096", False), ("256:256", True)])
async def test_askers_at_the_gate_leave_files_for_work(
    bare: Stage, limit: str, refuses: bool
) -> None:
    """The soft limit, of which containers have little, is raised; a hard one is shared out."""
    await bare.start_driver()
    await bare.start("controller")
    (port,) = free_ports(1)
    gate = f"--drain-gate-bind-address=127.0.0.1:{port}"
    deregistrar = await bare.start_with_files("deregistrar", limit, gate)
    await bare.until_working(deregistrar)
    await bare.setting()
    pod = await bare.add_pod("a", "10.0.0.1")
    await bare.until_registered("10.0.0.1:80")
    async with _asked_again_and_again(port, pod.meta.uid) as answers:

        async def all_have_asked() -> bool:
            return len(answers) >= ASKERS

        await bare.until("all have been answered at least once", all_have_asked)
        await bare.terminate_pod("a")
        await bare.until_registered()
    assert refuses == any(b" 503 " in answer for answer in answers)
    await bare.let_pod_go("a")
