"""A namespace with everything in it, and its deletion in a drawn order."""

import asyncio
import contextlib
import random
import time

from collections.abc import Awaitable, Callable

import attrs

from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import (
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    UnreadableAnswer,
)
from lbcf.kube.kinds import Resource
from lbcf.kube.list_watch import Selection
from tests.compat.plain import PlainDriver
from tests.compat.scene import a_driver
from tests.e2e import objects
from tests.e2e.objects import Whole, parse_whole


NAMESPACES = Resource(
    "", "v1", "namespaces", "Namespace", parse_whole, namespaced=False
)
KINDS = (
    objects.DRIVERS,
    objects.LOAD_BALANCERS,
    objects.GROUPS,
    objects.RECORDS,
    objects.PODS,
)
PATIENCE = 240.0
"""Seconds; the namespace controller comes back to what holds it up ever more rarely."""
PODS = 3
DRAINING = {"metadata": {"labels": {"lbcf.tkestack.io/driver-draining": "true"}}}


@attrs.frozen
class Ending:
    """One namespace, made and deleted.

    Attributes:
        seed: what the order is drawn from.
        name: of the namespace.
        shared: a load balancer of kube-system that its group uses as well.
    """

    client: KubeClient
    driver: PlainDriver
    seed: int
    name: str
    shared: str

    @property
    def members(self) -> set[str]:
        """What the load balancers have of this namespace."""
        own = f"home={self.name}"
        net = f"10.{self.seed}.0."
        return {
            f"{balancer}/{address}"
            for balancer, address in self.driver.members
            if own in balancer or address.startswith(net)
        }

    async def furnish(self) -> None:
        """Make the namespace with everything in it."""
        await self.client.create(NAMESPACES, "", {"metadata": {"name": self.name}})
        keyed = random.Random(self.seed).choice(["Address", "Record"])  # noqa: S311
        driver = a_driver(self.driver.url, memberKey=keyed)
        await self._create(objects.DRIVERS, driver)
        for name in ("front", "back"):
            balancer = objects.a_load_balancer(name, driver="plain")
            balancer["spec"]["lbSpec"]["home"] = self.name
            await self._create(objects.LOAD_BALANCERS, balancer)
        group = objects.a_group(lbs=("front", "back", self.shared))
        group["spec"] |= {
            "deregisterPolicy": "Webhook",
            "deregisterWebhook": {"driverName": "plain"},
        }
        await self._create(objects.GROUPS, group)
        fixed = {
            "loadBalancers": ["front"],
            "static": [f"10.{self.seed}.0.{n}:443" for n in (200, 201)],
        }
        fixed_group = {"metadata": {"name": "fixed"}, "spec": fixed}
        await self._create(objects.GROUPS, fixed_group)
        for number in range(PODS):
            await self._create(objects.PODS, objects.a_pod(f"p{number}"))
            key = ObjectKey(self.name, f"p{number}")
            status = objects.pod_status(f"10.{self.seed}.0.{number}")
            await self.client.patch(objects.PODS, key, status, subresource="status")

    async def _create(self, kind: Resource[Whole], body: dict[str, object]) -> None:
        """Create an object here."""
        await self.client.create(kind, self.name, body)

    async def is_furnished(self) -> bool:
        """Whether every member is in."""
        return len(self.members) == 3 * PODS + 2

    async def end(self) -> None:
        """Delete all objects, and the namespace among them, in a drawn order."""
        chance = random.Random(self.seed)  # noqa: S311 - repeatable on purpose
        things = [
            (kind, whole.meta.key) for kind in KINDS for whole in await self._all(kind)
        ]
        things.append((NAMESPACES, ObjectKey("", self.name)))
        chance.shuffle(things)
        for kind, key in things:
            await asyncio.sleep(chance.choice([0, 0, 0.05, 0.3]))
            # Of what the namespace's end takes meanwhile an answer may come that has no
            # resourceVersion any more.
            with contextlib.suppress(NotFound, UnreadableAnswer):
                if kind is objects.DRIVERS:
                    await self._label(kind, key)
                await self.client.delete(kind, key)

    async def _label(self, kind: Resource[Whole], key: ObjectKey) -> None:
        """Label a driver as draining; without that it may only go with its namespace."""
        with contextlib.suppress(Conflict, Forbidden):
            await self.client.patch(kind, key, DRAINING)

    async def _all(self, kind: Resource[Whole]) -> tuple[Whole, ...]:
        """List what there is of a kind."""
        page = await self.client.list(kind, Selection(namespace=self.name))
        return tuple(page.objects)

    async def is_gone(self) -> bool:
        """Whether the namespace exists no more."""
        try:
            await self.client.get(NAMESPACES, ObjectKey("", self.name))
        except NotFound:
            return True
        return False

    async def left(self) -> str:
        """What is left, for a test that failed."""
        held = [f"seed {self.seed}, members {sorted(self.members)}"]
        for kind in KINDS:
            for whole in await self._all(kind):
                status = whole.status.get("conditions")
                held.append(
                    f"{kind.kind} {whole.meta.key} {whole.meta.finalizers} {status}"
                )
        return "\n".join(held)


async def until_all(
    endings: list[Ending], told: str, check: Callable[[Ending], Awaitable[bool]]
) -> None:
    """Wait until a check holds for all; fail with what is left where it does not."""
    waiting = list(endings)
    end = time.monotonic() + PATIENCE
    while waiting and time.monotonic() < end:
        await asyncio.sleep(0.2)
        with contextlib.suppress(KubeError):
            waiting = [one for one in waiting if not await check(one)]
    stories = [await one.left() for one in waiting]
    assert [] == stories, f"{told}:\n" + "\n\n".join(stories)
