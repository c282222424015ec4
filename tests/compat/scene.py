"""What the tests of compatibility say again and again, on the stage of end-to-end tests."""

import contextlib

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import attrs

from lbcf.core.model.values import ObjectKey
from lbcf.kube.errors import NotFound
from lbcf.kube.kinds import Resource
from tests.compat.pair import Pair
from tests.compat.plain import PlainDriver
from tests.e2e import objects
from tests.e2e.objects import Whole
from tests.e2e.stage import Stage


T = TypeVar("T")


def a_driver(url: str, **spec: object) -> dict[str, Any]:
    """A LoadBalancerDriver as LBCF's documents write it; only late effects are short."""
    return {
        "metadata": {"name": "plain"},
        "spec": {
            "driverType": "Webhook",
            "url": url,
            "lateEffectSeconds": 0,
            "webhooks": [{"name": "ensureBackend", "timeout": "10s"}],
            **spec,
        },
    }


@attrs.frozen
class Scene:
    """A stage with a plain driver.

    Attributes:
        pair: the processes that serve it; None where a test starts its own.
    """

    stage: Stage
    driver: PlainDriver
    pair: Pair | None = None

    async def begin(self, *flags: str) -> None:
        """Start both processes."""
        await self.stage.start("controller", "--no-leader-elect", *flags)
        await self.stage.start("deregistrar", "--no-leader-elect", *flags)

    async def setting(self, **driver: object) -> None:
        """Create driver, load balancer and group of the pods labelled app=web."""
        stage = self.stage
        await stage.create(objects.DRIVERS, a_driver(self.driver.url, **driver))
        front = objects.a_load_balancer(driver="plain")
        await stage.create(objects.LOAD_BALANCERS, front)
        await stage.create(objects.GROUPS, objects.a_group())

    async def until(self, told: str, check: Callable[[], Awaitable[T]]) -> T:
        """Wait until a check says yes."""
        try:
            return await self.stage.until(told, check)
        except AssertionError as error:
            error.add_note("" if self.pair is None else self.pair.story())
            raise

    async def until_members(self, *addresses: str) -> None:
        """Wait until records and members are exactly these."""

        async def settled() -> bool:
            registered = await self.stage.registered()
            return registered == set(addresses) == self.driver.addresses

        await self.until(f"members are exactly {sorted(addresses)}", settled)

    async def until_gone(self, kind: Resource[Whole], name: str) -> None:
        """Wait until an object is gone."""

        async def gone() -> bool:
            return await self.stage.get(kind, name) is None

        await self.until(f"{kind.kind} {name} is gone", gone)

    async def until_says(
        self, kind: Resource[Whole], name: str, condition: str, reason: str
    ) -> Mapping[str, Any]:
        """Wait until an object's condition has a reason; return the condition."""

        async def said() -> Mapping[str, Any] | None:
            whole = await self.stage.get(kind, name)
            found = {} if whole is None else whole.condition(condition)
            return found if found.get("reason") == reason else None

        found = await self.until(f"{condition} of {name} says {reason}", said)
        assert found is not None
        return found

    async def release(self, kind: Resource[Whole], namespace: str, name: str) -> None:
        """Delete an object outside the stage's namespace, whoever holds it."""
        client, key = self.stage.client, ObjectKey(namespace, name)
        with contextlib.suppress(NotFound):
            draining = {"labels": {"lbcf.tkestack.io/driver-draining": "true"}}
            await client.patch(kind, key, {"metadata": draining})
            await client.delete(kind, key)
            await client.patch(kind, key, {"metadata": {"finalizers": None}})
