"""Members that belong to no record are told, and no others."""

from datetime import timedelta

import attrs

from lbcf.controller.member_conditions import ConditionWriter, OrphanedCondition
from lbcf.controller.other_shards import ElsewhereKnown
from lbcf.controller.view import View
from lbcf.core.lifecycle.listing import orphans_of
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.shards import WHOLE, Shard
from lbcf.core.model.values import Listed, MemberKey
from lbcf.core.reasons import Reason
from lbcf.executor.listings import Listing
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import LOAD_BALANCERS
from lbcf.runtime.metrics import Metrics
from lbcf.wire.driver_answers import BackendState, ListedBackend
from tests.builders import a_key, a_record, a_spec
from tests.controller.exchanges import idle_binds
from tests.controller.views import show
from tests.fakes.clock import VirtualClock
from tests.kube.tiny_api import TinyApi


RECORD = a_record(registered=True)
ENDING = a_record("ending", registered=True, deleting=True)
FRONT = {"lbDriver": "proxy", "lbSpec": {}}


def listed(*members: tuple[str, str]) -> Listing:
    """A list of members by address and record."""
    found = [
        ListedBackend(backend_addr=address, record_id=uid, state=BackendState.ACTIVE)
        for address, uid in members
    ]
    return Listing("e1", found, b"of the list")


def member_of(record: BackendRecord) -> tuple[str, str]:
    """How a driver lists a record's member."""
    return record.address, record.meta.uid


STRANGER = ("10.9.9.9:80", "")
ORPHAN = ("10.0.0.9:80", "uid-gone")


class Scene:
    """A load balancer in an API server and in a view, with two records."""

    def __init__(self, shard: Shard = WHOLE) -> None:
        self.clock = clock = VirtualClock()
        self.metrics = Metrics()
        self.api = TinyApi()
        self.client = KubeClient(self.api)
        self.view = show(View(shard), RECORD, ENDING)
        self.key = a_key(RECORD.spec.load_balancer)
        self.recorder = EventRecorder(
            self.client, clock, controller="test", instance="test"
        )
        binds = idle_binds(self.view, self.client, self.recorder)
        writer = ObjectWriter(self.client, LOAD_BALANCERS, self.view.load_balancers)
        self._writer = ConditionWriter(writer, binds, clock)
        self.known = ElsewhereKnown(self.client, clock)
        self.orphans = OrphanedCondition(
            self.view, self._writer, self.recorder, self.metrics, self.known
        )

    def begin_anew(self) -> None:
        """Have another process tell, which remembers nothing."""
        self.orphans = OrphanedCondition(
            self.view, self._writer, self.recorder, None, self.known
        )

    async def begin(self) -> None:
        """Let there be the load balancer."""
        body = {"metadata": {"name": self.key.name}, "spec": FRONT}
        made = await self.client.create(LOAD_BALANCERS, self.key.namespace, body)
        show(self.view, made)

    async def read(self, *members: tuple[str, str]) -> bool:
        """Let these be listed; False: the next list is to be read."""
        return await self.orphans.read(self.key, MemberKey.RECORD, listed(*members))

    def said(self) -> Condition | None:
        """What the load balancer says."""
        found = self.view.load_balancers.get(self.key)
        assert found is not None
        return conditions.find(found.conditions, conditions.ORPHANED)

    def named(self) -> tuple[Listed, ...]:
        """Whom the load balancer names for `remove-orphans`."""
        found = self.view.load_balancers.get(self.key)
        assert found is not None
        return found.orphans

    async def drop_names(self) -> None:
        """Take the names away, as an API server does whose CRD has no place for them."""
        body = {"status": {"orphans": None}}
        found = await self.client.patch(
            LOAD_BALANCERS, self.key, body, subresource="status"
        )
        show(self.view, found)
        assert () == self.named()

    def counted(self) -> float | None:
        """What is measured."""
        labels = {"namespace": self.key.namespace, "load_balancer": self.key.name}
        return self.metrics.registry.get_sample_value("lbcf_orphaned_members", labels)

    async def events(self) -> list[tuple[object, object]]:
        """Types and reasons of the Events that were written."""
        await self.recorder.flush()
        found = self.api.objects.values()
        return [(e["type"], e["reason"]) for e in found if "note" in e]


async def test_orphan_is_told_when_it_is_listed_twice() -> None:
    """And once more when it is gone; neither costs a write at rest."""
    scene = Scene()
    await scene.begin()
    members = (member_of(RECORD), member_of(ENDING), STRANGER, ORPHAN)

    assert not await scene.read(*members)
    assert scene.said() is None
    assert not await scene.read(*members)
    said = scene.said()
    assert said is not None
    assert (True, Reason.MEMBERS_ORPHANED) == (said.status, said.reason)
    assert "1 member belongs to no record" in said.message
    assert "10.0.0.9:80 of uid-gone" in said.message
    assert 1 == scene.counted()
    assert await scene.read(*members)

    assert not await scene.read(*members[:3])
    assert await scene.read(*members[:3])
    said = scene.said()
    assert said is not None
    assert (False, Reason.NO_ORPHANS) == (said.status, said.reason)
    assert scene.counted() is None
    assert [
        ("Warning", "MembersOrphaned"),
        ("Normal", "NoOrphans"),
    ] == await scene.events()


async def test_all_that_may_be_confirmed_are_named() -> None:
    """In order, beside the condition that folds them; none when they are gone."""
    scene = Scene()
    await scene.begin()
    many = [(f"10.0.0.{n}:80", f"uid-{n}") for n in range(5, 1, -1)]
    for _ in range(3):
        await scene.read(*many)
    assert await scene.read(*many)
    assert tuple(sorted(many)) == scene.named()

    await scene.read(*many[:2])
    assert tuple(sorted(many[:2])) == scene.named()

    await scene.read()
    assert () == scene.named()


async def test_orphans_that_an_earlier_version_told_are_named() -> None:
    """Its condition says the same; no Event tells it twice."""
    scene = Scene()
    await scene.begin()
    for _ in range(2):
        await scene.read(ORPHAN)
    await scene.drop_names()
    scene.begin_anew()

    for _ in range(2):
        await scene.read(ORPHAN)

    assert (ORPHAN,) == scene.named()
    assert [("Warning", "MembersOrphaned")] == await scene.events()


async def test_members_of_records_are_no_orphans() -> None:
    """Nor is one of a record that names another LoadBalancer of the same appliance."""
    scene = Scene()
    await scene.begin()
    elsewhere = a_record("elsewhere", spec=attrs.evolve(a_spec(), load_balancer="back"))
    show(scene.view, elsewhere)

    for _ in range(2):
        assert await scene.read(
            member_of(RECORD), member_of(ENDING), member_of(elsewhere), STRANGER
        )

    assert scene.said() is None
    assert [] == await scene.events()


async def test_nothing_is_kept_of_a_load_balancer_that_is_gone() -> None:
    """No series, and no suspicion."""
    scene = Scene()
    await scene.begin()
    await scene.read(ORPHAN)

    scene.orphans.forget(scene.key)

    assert scene.counted() is None
    await scene.read(ORPHAN)
    assert scene.said() is None


def test_address_is_its_record_s_where_members_are_known_by_it() -> None:
    """Its driver may still name the record that had it before."""
    before = (RECORD.address, "uid-before")

    assert (before,) == orphans_of((RECORD,), (before,), MemberKey.RECORD)
    assert () == orphans_of((RECORD,), (before,), MemberKey.ADDRESS)
    assert (ORPHAN,) == orphans_of((RECORD,), (before, ORPHAN), MemberKey.ADDRESS)


async def test_names_that_an_older_crd_drops_are_written_once() -> None:
    """The condition says it, too; nobody is helped by a write at each reading."""
    scene = Scene()
    await scene.begin()
    for _ in range(2):
        await scene.read(ORPHAN)
    await scene.drop_names()

    assert await scene.read(ORPHAN)

    assert () == scene.named()


OWN = next(
    shard
    for shard in (Shard(0, 2), Shard(1, 2))
    if shard.has_namespace(RECORD.meta.key.namespace)
)


async def test_list_is_read_again_until_of_each_member_it_is_known_whose_it_is() -> (
    None
):
    """With shards not all is known at once, and the same list is not sent twice."""
    scene = Scene(OWN)
    await scene.begin()
    for _ in range(2):
        await scene.read(ORPHAN)
    assert await scene.read(ORPHAN)

    later = ("10.0.0.8:80", "uid-later")
    assert not await scene.read(ORPHAN, later)
    assert (ORPHAN,) == scene.named()
    scene.clock.advance(timedelta(seconds=10))
    for _ in range(2):
        assert not await scene.read(ORPHAN, later)
    assert await scene.read(ORPHAN, later)
    assert (later, ORPHAN) == scene.named()


async def test_that_there_are_no_orphans_is_not_told_before_it_is_known() -> None:
    """Another load balancer's members were just asked about when this shard began."""
    scene = Scene(OWN)
    await scene.begin()
    for _ in range(2):
        await scene.read(ORPHAN)
    scene.known = ElsewhereKnown(scene.client, scene.clock)
    scene.begin_anew()
    await scene.known.judge(a_key("other"), (("10.0.0.7:80", "uid-other"),))

    for _ in range(2):
        assert not await scene.read(ORPHAN)

    assert (ORPHAN,) == scene.named()
    assert [("Warning", "MembersOrphaned")] == await scene.events()
    scene.clock.advance(timedelta(seconds=10))
    assert not await scene.read(ORPHAN)
    assert await scene.read(ORPHAN)
