"""Pods as API objects, with real servers behind them, and no kubelet.

A deleted pod stays in the API for its grace period, held by a finalizer in the kubelet's
place, with its server running; then the server dies and the object goes. Its address
goes to the next pod, at once where `turmoil` wants that.
"""

import asyncio
import contextlib

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import NotFound
from lbcf.kube.kinds import Resource
from lbcf.kube.list_watch import Selection
from tests.e2e import objects
from tests.e2e.objects import Whole
from tests.lab.faults.history import Sight
from tests.lab.soak.web import WebServer


PORT = 8080
FINALIZER = "soak.lbcf.tkestack.io/kubelet"
ADDRESSES = tuple(f"127.0.77.{number}" for number in range(2, 22))


@attrs.define(eq=False)
class Pod:
    """A pod that lives.

    Attributes:
        server: runs at its address; shared with the pod before, if that one's address
            was taken over at once.
    """

    name: str
    host: str
    server: WebServer

    @property
    def address(self) -> str:
        """As records have it."""
        return f"{self.host}:{PORT}"


class Pods:
    """All pods of the soak.

    Attributes:
        living: those that are not being deleted.
        reused: how many addresses were given out again.
    """

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.living: list[Pod] = []
        self.created = 0
        self.reused = 0
        self._client = client
        self._namespace = namespace
        self._free: asyncio.LifoQueue[str] = asyncio.LifoQueue()
        for host in ADDRESSES:
            self._free.put_nowait(host)
        self._used: set[str] = set()
        self._ending: set[asyncio.Task[None]] = set()

    def key(self, name: str) -> ObjectKey:
        """Name an object."""
        return ObjectKey(self._namespace, name)

    async def add(self) -> Pod:
        """Start a pod, on the address that became free last, or becomes free next."""
        host = await self._free.get()
        name = self._next_name()
        server = await WebServer.start(name, host, PORT)
        return await self._add(Pod(name, host, server))

    async def replace_in_place(self, old: Pod, grace: float) -> Pod:
        """Delete a pod, and give its address to a new one at once."""
        name = self._next_name()
        old.server.name = name
        await self.delete(old, grace, keep=True)
        return await self._add(Pod(name, old.host, old.server))

    def _next_name(self) -> str:
        """Name a new pod."""
        self.created += 1
        return f"web-{self.created}"

    async def _add(self, pod: Pod) -> Pod:
        """Create its object, ready."""
        self.reused += pod.host in self._used
        self._used.add(pod.host)
        body: dict[str, Any] = objects.a_pod(pod.name)
        body["metadata"]["finalizers"] = [FINALIZER]
        await self._client.create(objects.PODS, self._namespace, body)
        await self.set_ready(pod, ready=True)
        self.living.append(pod)
        return pod

    async def set_ready(self, pod: Pod, *, ready: bool) -> None:
        """Write its status."""
        status = objects.pod_status(pod.host, ready=ready)
        await self._client.patch(
            objects.PODS, self.key(pod.name), status, subresource="status"
        )

    async def set_parameters(self, group: str, parameters: Mapping[str, str]) -> None:
        """Change the parameters of a group's backends."""
        body = {"spec": {"parameters": parameters}}
        await self._client.patch(objects.GROUPS, self.key(group), body)

    async def delete(self, pod: Pod, grace: float, *, keep: bool = False) -> None:
        """Delete a pod; it ends after its grace period.

        Args:
            pod: one that lives.
            grace: seconds for which its server runs on.
            keep: the server is another pod's by now.
        """
        self.living.remove(pod)
        await self._client.delete(objects.PODS, self.key(pod.name))
        task = asyncio.create_task(self._end(pod, grace, keep=keep))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, pod: Pod, grace: float, *, keep: bool) -> None:
        """Let the grace period pass, then end it."""
        await asyncio.sleep(grace)
        if not keep:
            pod.server.stop()
        off = {"metadata": {"finalizers": None}}
        with contextlib.suppress(NotFound):
            await self._client.patch(objects.PODS, self.key(pod.name), off)
        if not keep:
            self._free.put_nowait(pod.host)

    async def end_all(self, grace: float) -> None:
        """Delete all pods, and wait for their ends."""
        for pod in list(self.living):
            await self.delete(pod, grace)
        await asyncio.gather(*self._ending)

    def stop_servers(self) -> None:
        """Stop everything, whatever state it is in."""
        for task in self._ending:
            task.cancel()
        for pod in self.living:
            pod.server.stop()

    async def records(self) -> Mapping[str, Sight]:
        """All records as they are now, by uid."""
        listed = await self._listed(objects.RECORDS)
        sights = (Sight.of(0.0, record.body) for record in listed)
        return {sight.uid: sight for sight in sights}

    async def _listed(self, resource: Resource[Whole]) -> Sequence[Whole]:
        """List objects."""
        page = await self._client.list(resource, Selection(namespace=self._namespace))
        return page.objects
