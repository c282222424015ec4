"""Starts the real processes, feeds the real API server, and looks at both."""

import asyncio
import contextlib
import json
import signal
import ssl
import sys
import time

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from lbcf.core.model import names
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import connect
from lbcf.kube.errors import KubeError, NotFound, Unavailable
from lbcf.kube.list_watch import Selection
from lbcf.runtime.clock import SystemClock
from tests.drivers.servers import ALLOW_BESIDE_US
from tests.e2e import objects
from tests.e2e.objects import Whole
from tests.lab.cluster import Cluster
from tests.lab.cluster.ports import free_ports
from tests.lab.traced.runs import Runs
from tests.lab.traced.tape import Run
from tests.patience import PATIENCE


T = TypeVar("T")
_AT_ONCE = 16
"""Seconds; the garbage collector learns of new kinds every half minute."""


class Process:
    """One process of ours, with its output in a file."""

    def __init__(self, name: str, argv: list[str], log: Path) -> None:
        self.name = name
        self.argv = argv
        self.log = log
        self.incarnations = Runs(log)
        self._running: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it; its output is appended.

        In a session of its own: the kernel shares the cores out between these, as it
        does between the containers of a node.
        """
        self.incarnations.begin()
        with self.log.open("ab") as out:
            self._running = await asyncio.create_subprocess_exec(
                *self.argv, stdout=out, stderr=out, start_new_session=True
            )

    def send(self, how: signal.Signals) -> None:
        """Send a signal; none if it has ended."""
        assert self._running is not None, f"{self.name} was not started"
        if how is signal.SIGKILL:
            self.incarnations.end()
        with contextlib.suppress(ProcessLookupError):
            self._running.send_signal(how)

    async def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; returns the exit status."""
        self.send(how)
        return await self.wait()

    async def wait(self) -> int:
        """Wait for the end; returns the exit status."""
        assert self._running is not None, f"{self.name} was not started"
        status = await asyncio.wait_for(self._running.wait(), PATIENCE)
        self.incarnations.end()
        return status

    @property
    def runs(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._running is not None and self._running.returncode is None

    def named(self) -> Iterator[Run]:
        """Tell of its runs, if it is one of ours: who they said they were."""
        if "lbcf" in self.argv:
            role = self.argv[self.argv.index("lbcf") + 1]
            yield from self.incarnations.named(role)

    @property
    def pid(self) -> int:
        """The process id of its last start."""
        assert self._running is not None, f"{self.name} was not started"
        return self._running.pid

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log events of a name, in order; a half line is left out."""
        text = self.log.read_text() if self.log.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [event for event in found if event.get("event") == name]


class Stage:
    """A namespace on a control plane, and the processes that work in the cluster."""

    def __init__(
        self, cluster: Cluster, namespace: str, client: KubeClient, folder: Path
    ) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.client = client
        self.folder = folder
        self.namespaces = {namespace, names.SYSTEM_NAMESPACE}
        """All whose records and drivers the processes work with."""
        self.processes: dict[str, Process] = {}
        self.started: list[Process] = []
        """All of them, also those that have left `processes`."""
        self.called = folder / "calls.jsonl"
        """What drivers were called for, by all of their runs."""
        self.log_began = cluster.audit_log.stat().st_size
        """How long the audit log was at the beginning, in bytes."""
        self.logins: dict[str, Path] = {}
        """Kubeconfigs of processes that are not to be administrators."""
        self.driver_url = ""
        self.tls: ssl.SSLContext | bool = True
        self.headers: dict[str, str] = {}
        self._tag = namespace

    def user(self, process: str) -> str:
        """Under whose name a process of this stage is in the audit log."""
        return f"{process}.{self._tag}"

    async def start(self, process: str, *flags: str) -> Process:
        """Start the controller, the deregistrar or the admission webhook."""
        return await self._run(process, self._argv(process, "127.0.0.1", *flags))

    async def start_elsewhere(self, process: str) -> Process:
        """Start one as in a pod of its own: other processes know its address alone."""
        apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        pod = ["env", "POD_IP=127.0.0.1"]
        return await self._run(process, [*apart, *pod, *self._argv(process, "")])

    async def start_with_files(self, process: str, limit: str, *flags: str) -> Process:
        """Start one with another limit of open files: soft and hard as prlimit(1) has them."""
        argv = self._argv(process, "127.0.0.1", *flags)
        return await self._run(process, ["prlimit", f"--nofile={limit}", *argv])

    def _argv(self, process: str, probed_at: str, *flags: str) -> list[str]:
        """Spell the command line of a process; it listens where nobody else does."""
        login = self.logins.get(process)
        login = login or self.cluster.kubeconfig_for(self.user(process))
        probes, metrics = free_ports(2)
        allow = () if "--driver-url-allow" in flags else ALLOW_BESIDE_US
        return [
            *(sys.executable, "-m", "lbcf", process),
            *("--kubeconfig", str(login)),
            *("--namespace", self.namespace),
            *("--health-probe-bind-address", f"{probed_at}:{probes}"),
            *("--metrics-bind-address", f"127.0.0.1:{metrics}"),
            *allow,
            *flags,
        ]

    async def start_driver(self, member_key: str = "Record", *flags: str) -> Process:
        """Start the in-memory driver; its address stays the same over restarts."""
        if not self.driver_url:
            scheme = "https" if "--tls-cert-file" in flags else "http"
            self.driver_url = f"{scheme}://127.0.0.1:{free_ports(1)[0]}"
        address = self.driver_url.partition("://")[2]
        argv = [
            *self.recorded("webhooks.memory"),
            *("--bind-address", address, "--member-key", member_key, *flags),
        ]
        process = await self._run("driver", argv)
        await eventually(self._driver_answers, "the driver answers")
        return process

    def recorded(self, module: str) -> list[str]:
        """Spell how a driver is started; its flags follow, its calls are noted."""
        recording = (sys.executable, "-m", "tests.lab.traced.recording")
        return [*recording, str(self.called), module]

    async def _run(self, name: str, argv: list[str]) -> Process:
        """Start a process, or start it again."""
        known = self.processes.get(name)
        if known is None or known.argv != argv:
            earlier = len(list(self.folder.glob(f"{name}-*.log")))
            known = Process(name, argv, self.folder / f"{name}-{earlier}.log")
            self.processes[name] = known
            self.started.append(known)
        await known.start()
        return known

    async def _driver_answers(self) -> bool:
        """Whether the driver's port answers."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{self.driver_url}/healthz", ssl=self.tls) as answer,
            ):
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def control(self, path: str, **body: object) -> Any:
        """Ask the in-memory driver to do something, or what it has."""
        method = "POST" if body else "GET"
        url = f"{self.driver_url}/control/{path}"
        async with (
            aiohttp.ClientSession(headers=self.headers) as session,
            session.request(method, url, json=body or None, ssl=self.tls) as answer,
        ):
            assert answer.status == 200, await answer.text()
            return await answer.json(content_type=None)

    async def behave(self, operation: str, mode: str, **how: object) -> None:
        """Let the driver's next calls of an operation go wrong."""
        await self.control("behave", operation=operation, mode=mode, **how)

    async def behave_well(self, operation: str) -> None:
        """Let the driver's next calls of an operation go as they should."""
        await self.behave(operation, "slow", seconds=0)

    async def calls(self, operation: str) -> list[dict[str, Any]]:
        """The calls of an operation that have ended."""
        history = (await self.control("history"))["calls"]
        return [call for call in history if call["operation"] == operation]

    async def create(self, resource: Any, body: Mapping[str, Any]) -> Whole:
        """Create an object in the stage's namespace."""
        whole: Whole = await self.client.create(resource, self.namespace, body)
        return whole

    async def patch(
        self,
        resource: Any,
        name: str,
        body: Mapping[str, Any],
        sub: str = "",
    ) -> Whole:
        """Patch an object in the stage's namespace."""
        whole: Whole = await self.client.patch(
            resource, self.key(name), body, subresource=sub
        )
        return whole

    async def delete(self, resource: Any, name: str) -> None:
        """Delete an object in the stage's namespace."""
        await self.client.delete(resource, self.key(name))

    def key(self, name: str) -> ObjectKey:
        """Name an object of the stage's namespace."""
        return ObjectKey(self.namespace, name)

    async def get(self, resource: Any, name: str) -> Whole | None:
        """Read an object, None if there is none."""
        try:
            whole: Whole = await self.client.get(resource, self.key(name))
        except NotFound:
            return None
        return whole

    async def listed(self, resource: Any) -> tuple[Whole, ...]:
        """List objects of the stage's namespace."""
        page = await self.client.list(resource, Selection(namespace=self.namespace))
        return tuple(page.objects)

    async def add_pod(
        self, name: str, address: str, *, ready: bool = True, **labels: str
    ) -> Whole:
        """Create a pod and write its status, as a kubelet would."""
        await self.create(objects.PODS, objects.a_pod(name, **labels))
        return await self.set_pod(name, address, ready=ready)

    async def set_pod(self, name: str, address: str, *, ready: bool) -> Whole:
        """Write a pod's status."""
        body = objects.pod_status(address, ready=ready)
        return await self.patch(objects.PODS, name, body, "status")

    async def terminate_pod(self, name: str) -> None:
        """Delete a pod that takes its time: it exists until it is let go.

        Without a kubelet a deleted pod is gone at once, and nobody is drained who does
        not exist.
        """
        held = {"metadata": {"finalizers": [objects.HELD_BY_KUBELET]}}
        await self.patch(objects.PODS, name, held)
        await self.delete(objects.PODS, name)

    async def let_pod_go(self, name: str) -> None:
        """End a pod that terminates."""
        await self.patch(objects.PODS, name, {"metadata": {"finalizers": None}})

    async def setting(self, **spec: object) -> None:
        """Create driver, load balancer and group."""
        await self.create(objects.DRIVERS, objects.a_driver(self.driver_url, **spec))
        await self.create(objects.LOAD_BALANCERS, objects.a_load_balancer())
        await self.create(objects.GROUPS, objects.a_group())

    async def records(self) -> dict[str, Whole]:
        """All records of the namespace, by address."""
        listed = await self.listed(objects.RECORDS)
        return {
            r.body["spec"].get("backendAddr")
            or r.status.get("backendAddr", r.meta.key.name): r
            for r in listed
        }

    async def registered(self) -> set[str]:
        """Addresses of the records that say they are registered."""
        return {
            address
            for address, record in (await self.records()).items()
            if record.condition("Registered").get("status") == "True"
        }

    async def members(self) -> set[str]:
        """Addresses that the load balancer has."""
        listed = (await self.control("members"))["members"]
        return {m["backendAddr"] for m in listed}

    async def until_registered(self, *addresses: str) -> None:
        """Wait until records and members are exactly these."""

        async def settled() -> bool:
            return await self.registered() == set(addresses) == await self.members()

        await eventually(settled, f"registered are exactly {sorted(addresses)}", self)

    async def until_epoch(self) -> None:
        """Wait until all load balancers, and those of Binds, have the driver's epoch.

        Whoever is on the way in when the first epoch is read may count as lost: the
        member is ensured twice, and its record written more often.
        """

        async def known() -> bool:
            balancers = await self.listed(objects.LOAD_BALANCERS)
            found = [b.status.get("epoch") for b in balancers]
            for bind in await self.listed(objects.BINDS):
                found += objects.epochs_of(bind)
            return {(await self.control("members"))["epoch"]} == set(found)

        await eventually(known, "the epoch is known", self)

    async def until(
        self, told: str, check: Callable[[], Awaitable[T]], more: float = 0.0
    ) -> T:
        """Wait until a check says yes, so many seconds more than usual; returns its answer."""
        return await eventually(check, told, self, more)

    async def until_events(self, *expected: tuple[str, str]) -> None:
        """Wait until there are Events of these types and reasons, each once."""

        async def told() -> bool:
            found = [
                (event.body["type"], event.body["reason"])
                for event in await self.listed(objects.EVENTS)
            ]
            return sorted(expected) == sorted(e for e in found if e in expected)

        await self.until(f"Events tell {expected}", told)

    async def until_working(self, process: Process) -> None:
        """Wait until a process leads and has read everything."""
        await self.until_logged(process, "work.started")

    async def until_logged(
        self, process: Process, event: str, times: int = 1
    ) -> list[dict[str, Any]]:
        """Wait until a process has logged an event so often; return all of these.

        What is done shows before it is logged: the answer of the write comes between.
        """

        async def told() -> list[dict[str, Any]]:
            found = process.events(event)
            return found if len(found) >= times else []

        return await self.until(f"{process.name} says {event}", told)

    async def until_reason(self, kind: str, reason: str) -> Whole:
        """Wait until some record's condition has a reason."""

        async def found() -> Whole | None:
            for record in await self.listed(objects.RECORDS):
                if record.condition(kind).get("reason") == reason:
                    return record
            return None

        record = await self.until(f"{kind} says {reason}", found)
        assert record is not None
        return record

    async def halt(self) -> None:
        """End all processes that still run."""
        for process in [*self.processes.values(), *self.started]:
            if process.runs:
                await process.end(signal.SIGKILL)

    async def end(self) -> None:
        """End all processes that still run, and let go of what they held."""
        await self.halt()
        for kind in (
            # What they are derived into would come back.
            objects.SERVICES,
            objects.GROUPS,
            objects.BINDS,
            objects.RECORDS,
            objects.LOAD_BALANCERS,
            # The next stage's controller watches this namespace too.
            objects.DRIVERS,
            # Those that terminate keep the namespace.
            objects.PODS,
        ):
            # A test may have taken the kind itself away: its path is nobody's then.
            with contextlib.suppress(NotFound, Unavailable):
                slots = asyncio.Semaphore(_AT_ONCE)
                held = [one.meta.key.name for one in await self.listed(kind)]
                await asyncio.gather(*(self._let_go(kind, n, slots) for n in held))

    async def _let_go(self, kind: Any, name: str, slots: asyncio.Semaphore) -> None:
        """Delete an object, whatever holds it, when there is a slot."""
        # Tests of the policies leave them in place, and one guards drivers by a label.
        label = {"metadata": {"labels": {names.LABEL_DRAINING: "true"}}}
        async with slots:
            with contextlib.suppress(NotFound):
                if kind is objects.DRIVERS:
                    await self.patch(kind, name, label)
                await self.delete(kind, name)
                await self.patch(kind, name, {"metadata": {"finalizers": None}})

    def story(self) -> str:
        """What the processes said last, for a test that failed."""
        parts = []
        for process in self.processes.values():
            lines = process.log.read_text().splitlines()[-25:]
            parts.append("\n".join([f"--- {process.name}", *lines]))
        return "\n".join(parts)


async def eventually(
    check: Callable[[], Awaitable[T]],
    told: str,
    stage: Stage | None = None,
    more: float = 0.0,
) -> T:
    """Ask again and again until the answer is yes; fail when patience is over."""
    patience = PATIENCE + more
    end = time.monotonic() + patience
    last: object = None
    while time.monotonic() < end:
        try:
            last = answer = await check()
        except (KubeError, aiohttp.ClientConnectionError) as error:
            last = error
        else:
            if answer:
                return answer
        await asyncio.sleep(0.05)
    story = stage.story() if stage else ""
    records = await stage.listed(objects.RECORDS) if stage else ()
    states = json.dumps([r.body.get("status") for r in records], indent=1)
    raise AssertionError(
        f"not within {patience:g} s: {told} ({last!r})\n{states}\n{story}"
    )


@contextlib.asynccontextmanager
async def staged(
    cluster: Cluster, namespace: str, folder: Path
) -> AsyncIterator[Stage]:
    """Give a stage, and end its processes afterwards."""
    connection = await connect(str(cluster.kubeconfig))
    async with connected(connection, SystemClock(), user_agent="test") as client:
        stage = Stage(cluster, namespace, client, folder)
        try:
            yield stage
        finally:
            await stage.end()
