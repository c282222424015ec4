"""Two namespaces over one shared load balancer, which reuse an address at once."""

import asyncio
import time

from collections.abc import Iterable

import pytest

from lbcf.core.model.values import ObjectKey
from lbcf.kube.errors import NotFound
from lbcf.kube.list_watch import Selection
from tests.compat.endings import NAMESPACES
from tests.compat.plain import Call, PlainDriver, serving
from tests.compat.scene import Scene, a_driver
from tests.e2e import objects


pytestmark = pytest.mark.cluster

SYSTEM = "kube-system"
ADDRESS = "10.8.0.1"
MEMBER = f"{ADDRESS}:80"
ROUNDS = 3
SHORT = [
    {"name": name, "timeout": "1s"} for name in ("ensureBackend", "deregisterBackend")
]


class Sharing:
    """One load balancer of kube-system, two namespaces that use it.

    Attributes:
        tag: names the driver and the load balancer.
        homes: the two namespaces.
    """

    def __init__(self, scene: Scene, driver: PlainDriver, member_key: str) -> None:
        self.tag = f"lbcf-{member_key.lower()}-{time.monotonic_ns():x}"
        self.homes = tuple(f"{self.tag.removeprefix('lbcf-')}-{n}" for n in "ab")
        self.driver = driver
        self._scene = scene
        self._client = scene.stage.client
        self._member_key = member_key

    async def furnish(self) -> None:
        """Make all but pods."""
        driver = a_driver(self.driver.url, memberKey=self._member_key, webhooks=SHORT)
        driver["metadata"]["name"] = self.tag
        balancer = objects.a_load_balancer(self.tag, driver=self.tag)
        balancer["spec"]["scope"] = list(self.homes)
        await self._client.create(objects.DRIVERS, SYSTEM, driver)
        await self._client.create(objects.LOAD_BALANCERS, SYSTEM, balancer)
        for home in self.homes:
            await self._client.create(NAMESPACES, "", {"metadata": {"name": home}})
            group = objects.a_group(lbs=(self.tag,))
            await self._client.create(objects.GROUPS, home, group)

    async def add_pod(self, home: str) -> None:
        """Let a pod have the address."""
        await self._client.create(objects.PODS, home, objects.a_pod("web"))
        status = objects.pod_status(ADDRESS)
        key = ObjectKey(home, "web")
        await self._client.patch(objects.PODS, key, status, subresource="status")

    async def remove_pod(self, home: str) -> None:
        """Delete it."""
        await self._client.delete(objects.PODS, ObjectKey(home, "web"))

    async def until_registered(self, home: str) -> None:
        """Wait until the pod of one namespace is in, and no record is left elsewhere."""

        async def settled() -> bool:
            there = [
                record.condition("Registered").get("status")
                for record in await self._records(home)
            ]
            others = [other for other in self.homes if other != home]
            left = [r for other in others for r in await self._records(other)]
            return ["True"] == there and [] == left and self._has_member()

        await self._scene.until(f"{home} alone has the address", settled)

    async def until_empty(self) -> None:
        """Wait until there is neither a record nor a member."""

        async def empty() -> bool:
            left = [r for home in self.homes for r in await self._records(home)]
            return [] == left and not self.driver.members

        await self._scene.until("nothing is left", empty)

    async def end(self) -> None:
        """Take away what was made outside the stage's namespace."""
        for home in self.homes:
            await self._scene.release(objects.GROUPS, home, "web")
            try:
                await self._client.delete(NAMESPACES, ObjectKey("", home))
            except NotFound:
                continue
        await self._scene.release(objects.LOAD_BALANCERS, SYSTEM, self.tag)
        await self._scene.release(objects.DRIVERS, SYSTEM, self.tag)

    async def _records(self, home: str) -> list[objects.Whole]:
        """The records of a namespace."""
        page = await self._client.list(objects.RECORDS, Selection(namespace=home))
        return list(page.objects)

    def _has_member(self) -> bool:
        """Whether the load balancer has the address, and once."""
        return [MEMBER] == [member for _, member in self.driver.members]


def lost(calls: Iterable[Call]) -> list[str]:
    """Find deregistrations that took a member from under another record.

    Only where members are known by address.
    """
    owner = ""
    wrong = []
    for call in calls:
        record = call.body.get("recordID", "")
        if call.operation == "ensureBackend":
            owner = record
        elif call.operation == "deregisterBackend" and owner not in {"", record}:
            wrong.append(f"{record} took out the member of {owner}")
        elif call.operation == "deregisterBackend":
            owner = ""
    return wrong


def test_lost_members_are_noticed() -> None:
    """What the next test relies on."""
    first = Call("ensureBackend", {"recordID": "a"}, 0)
    second = Call("ensureBackend", {"recordID": "b"}, 0)
    late = Call("deregisterBackend", {"recordID": "a"}, 0)

    assert [] == lost([first, late, late, second])
    assert ["a took out the member of b"] == lost([first, second, late])


async def _play(sharing: Sharing) -> None:
    """Hand the address to and fro; both want it at once, and one is on its way out."""
    first, second = sharing.homes
    await sharing.furnish()
    await sharing.add_pod(first)
    await sharing.until_registered(first)
    for _ in range(ROUNDS):
        await asyncio.gather(sharing.add_pod(second), sharing.remove_pod(first))
        await sharing.until_registered(second)
        first, second = second, first
    await sharing.remove_pod(first)
    await sharing.until_empty()


async def test_address_goes_to_and_fro_between_namespaces(served: Scene) -> None:
    """By address or by record: no live member is lost, and none is left behind."""
    async with serving() as other:
        other.by_record = True
        by_address = Sharing(served, served.driver, "Address")
        by_record = Sharing(served, other, "Record")
        try:
            await asyncio.gather(_play(by_address), _play(by_record))
        finally:
            await by_address.end()
            await by_record.end()
        assert [] == lost(served.driver.calls)
        lives = {c.body["recordID"] for c in other.of("ensureBackend")}
        assert ROUNDS + 1 == len(lives)


async def test_load_balancer_of_others_is_left_alone(served: Scene) -> None:
    """Out of scope: the group says so and registers nothing until it is let in."""
    sharing = Sharing(served, served.driver, "Address")
    home, away = sharing.homes
    client = served.stage.client
    try:
        await sharing.furnish()
        key = ObjectKey(SYSTEM, sharing.tag)
        kind = objects.LOAD_BALANCERS
        await client.patch(kind, key, {"spec": {"scope": [home]}})
        await sharing.add_pod(away)

        async def told() -> bool:
            group = await client.get(objects.GROUPS, ObjectKey(away, "web"))
            ready = group.condition("Ready")
            named = f"LoadBalancer {key} is not in scope here" in ready.get(
                "message", ""
            )
            return named and ready["reason"] == "LoadBalancerOutOfScope"

        await served.until("the group says that it is not in scope", told)
        assert set() == served.driver.addresses
        await client.patch(kind, key, {"spec": {"scope": [home, away]}})
        await sharing.until_registered(away)
        await sharing.remove_pod(away)
        await sharing.until_empty()
    finally:
        await sharing.end()
