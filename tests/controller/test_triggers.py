"""Which change brings which keys into which queue, and which change brings none."""

import attrs
import pytest

from prometheus_client import CollectorRegistry

from lbcf.controller.first_checks import FirstChecks
from lbcf.controller.group_status import GroupStatusReconciler
from lbcf.controller.noted_ensures import NotedEnsures
from lbcf.controller.registrar import Registrar
from lbcf.controller.triggers import ChangedBackends, Queues, Triggers
from lbcf.controller.view import View
from lbcf.core.model.cluster import Pod
from lbcf.core.model.conditions import REACHABLE, Condition
from lbcf.core.model.names import ANNOTATION_DRAIN
from lbcf.core.model.resources import BackendRecord, StaticRef
from lbcf.core.model.selectors import Selector
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.drivers.pool import DriverPool
from lbcf.executor import Executor
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import BINDS, GROUPS
from lbcf.kube.list_watch import Removed
from lbcf.runtime.journal import NoJournal
from lbcf.runtime.limiter import Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.wire.metadata import identity_of
from tests.builders import (
    BY_LABEL,
    a_backend,
    a_driver,
    a_group,
    a_key,
    a_load_balancer,
    a_pod,
    a_record,
    a_spec,
)
from tests.controller.exchanges import Nobody
from tests.controller.views import Thing, everyday, obscure, show
from tests.fakes.clock import VirtualClock


WEB, FRONT, PROXY, RECORD = (a_key(n) for n in ("web", "front", "proxy", "web-1"))

API = attrs.evolve(BY_LABEL, selector=Selector({"app": "api"}))

Keys = dict[str, list[ObjectKey]]


@attrs.frozen
class Bench:
    """Real triggers between real stores and real queues."""

    view: View
    queues: Queues
    scopes: ChangedBackends
    registrar: Registrar
    triggers: Triggers

    async def tell(self, *things: Thing) -> Keys:
        """Let the watches tell of objects; return what that put into the queues."""
        show(self.view, *things)
        return await self.filled()

    async def end(self, record: BackendRecord | Pod) -> Keys:
        """Let the watch tell that something is gone."""
        identity = attrs.evolve(identity_of(record.meta), version="99")
        if isinstance(record, Pod):
            self.view.pods.apply(Removed(identity))
        else:
            self.view.records.apply(Removed(identity))
        return await self.filled()

    async def filled(self) -> Keys:
        """Take all keys that are due, by queue; those for later are only counted."""
        found: Keys = {}
        for field in attrs.fields(Queues):
            queue: WorkQueue[ObjectKey] = getattr(self.queues, field.name)
            while len(queue):
                key = await queue.get()
                queue.done(key)
                found.setdefault(field.name, []).append(key)
        return found


def set_up(*things: Thing) -> Bench:
    """Make a bench with objects that are old news."""
    clock = VirtualClock()
    view, scopes = show(everyday(), *things), ChangedBackends()
    client = KubeClient(Nobody())
    names = [field.name for field in attrs.fields(Queues)]
    queues = Queues(**{name: WorkQueue(name, clock) for name in names})
    executor = Executor(client, DriverPool(clock, CollectorRegistry()), clock)
    checks = FirstChecks(view, clock)
    registrar = Registrar(
        view,
        queues.records,
        executor,
        "me",
        Shares(64),
        checks=checks,
        noted=NotedEnsures(NoJournal()),
    )
    recorder = EventRecorder(client, clock, controller="c", instance="i")
    statuses = GroupStatusReconciler(
        view,
        ObjectWriter(client, GROUPS, view.groups),
        ObjectWriter(client, BINDS, view.binds),
        recorder,
        clock,
    )
    triggers = Triggers(view, scopes, queues, registrar, statuses)
    triggers.listen()
    return Bench(view, queues, scopes, registrar, triggers)


def newer(pod: Pod, **changes: object) -> Pod:
    """Make the pod's next version."""
    meta = attrs.evolve(pod.meta, resource_version="2")
    return attrs.evolve(pod, meta=meta, **changes)  # type: ignore[arg-type]


# --- all ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "going",
    [
        pytest.param(
            a_pod("api-1", deleting=True, labels={"app": "api"}), id="pod that goes"
        ),
        pytest.param(
            attrs.evolve(
                a_record(spec=a_spec(backend=a_backend("api-1"))), group=a_key("api")
            ),
            id="pod that is gone",
        ),
    ],
)
async def test_all_groups_are_looked_at_whole_those_of_pods_that_go_first(
    going: Thing,
) -> None:
    """So does whoever begins to lead: of what has changed before nothing was noted."""
    api = a_key("api")
    bench = set_up(a_group("api", selection=API), a_pod(), going)
    bench.triggers.look_at_all()
    keys = await bench.filled()

    assert [api, WEB] == keys["groups"]
    assert [None, None] == [bench.scopes.take(group) for group in (api, WEB)]


# --- pods -----------------------------------------------------------------------------


async def test_new_pod_brings_the_groups_that_select_it() -> None:
    """And only the pod itself is to be looked at."""
    bench = set_up(a_group("api", load_balancers=("front",)))

    keys = await bench.tell(a_pod())

    assert {"groups": [WEB, a_key("api")]} == keys
    assert {"web-1"} == bench.scopes.take(WEB)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod("api-1", labels={"app": "api"}), id="other labels"),
        pytest.param(a_pod(namespace="other"), id="other namespace"),
    ],
)
async def test_pod_that_matters_to_nobody_fills_no_queue(pod: Pod) -> None:
    """Most pods of a cluster are nobody's backends."""
    bench = set_up()

    assert {} == await bench.tell(pod)
    assert 0 == bench.queues.statuses.delayed


async def test_change_that_decides_nothing_fills_no_queue() -> None:
    """Kubelets write a pod's status all the time."""
    bench = set_up(a_pod())

    assert {} == await bench.tell(newer(a_pod()))
    assert 0 == bench.queues.statuses.delayed


@pytest.mark.parametrize(
    "change",
    [{"address": "10.0.0.9"}, {"is_ready": False}, {"phase": "Failed"}],
)
async def test_change_that_decides_something_brings_the_group(
    change: dict[str, object],
) -> None:
    """Address, readiness and phase are what pods are judged by."""
    bench = set_up(a_pod())

    assert {"groups": [WEB]} == await bench.tell(newer(a_pod(), **change))


@pytest.mark.parametrize(
    ("change", "is_seen_to"),
    [
        ({"is_ready": False}, True),
        ({"phase": "Failed"}, False),
        ({"address": "10.0.0.9"}, False),
    ],
)
async def test_pod_that_goes_while_its_group_is_in_work_is_seen_to(
    change: dict[str, object], is_seen_to: bool
) -> None:
    """The turn under way may take long; what has an address only stays in its scope."""
    bench = set_up(a_pod())
    bench.queues.groups.add(WEB)
    await bench.queues.groups.get()

    show(bench.view, newer(a_pod(), **change))

    assert is_seen_to is (len(bench.queues.departures) == 1)
    assert ({"web-1"} if is_seen_to else set()) == bench.scopes.take_leaving(WEB)
    assert {"web-1"} == bench.scopes.take(WEB), "for the next turn"


async def test_record_of_a_pod_that_is_gone_is_seen_to() -> None:
    """It was made while its pod went, by a turn that is still under way."""
    bench = set_up(a_pod("web-2"))
    bench.queues.groups.add(WEB)
    await bench.queues.groups.get()

    second = a_spec(backend=a_backend("web-2"))
    show(bench.view, a_record("web-1"), a_record("web-2", spec=second))

    assert {"web-1"} == bench.scopes.take_leaving(WEB)


async def test_pod_that_was_selected_brings_the_group() -> None:
    """It loses the label: the group must let go of it."""
    bench = set_up(a_pod())

    assert {"groups": [WEB]} == await bench.tell(a_pod(labels={}, version=2))


@pytest.mark.parametrize("how", ["terminating", "gone"])
async def test_pod_that_leaves_goes_first(how: str) -> None:
    """Its traffic must stop before new traffic starts elsewhere."""
    bench = set_up(a_pod())
    first = a_group("first", load_balancers=())
    bench.queues.groups.add(first.meta.key)

    if how == "gone":
        keys = await bench.end(a_pod())
    else:
        keys = await bench.tell(a_pod(deleting=True, version=2))

    assert [WEB, first.meta.key] == keys["groups"]


async def test_status_is_looked_at_a_little_later() -> None:
    """What happens together is told together."""
    bench = set_up()

    await bench.tell(a_pod(), a_pod("web-2"))

    assert (0, 1) == (len(bench.queues.statuses), bench.queues.statuses.delayed)


# --- what cannot be read --------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pods", "records"])
async def test_unreadable_neighbour_brings_all_groups_of_its_namespace(
    kind: str,
) -> None:
    """Each is to be held; and looked at whole when it can be read again."""
    bench = set_up(a_pod())
    obscure(getattr(bench.view, kind), a_key("strange"))

    assert {"groups": [WEB]} == await bench.filled()
    assert None is bench.scopes.take(WEB)

    again = a_pod("strange", labels={}, version=10)
    if kind == "pods":
        assert {"groups": [WEB]} == await bench.tell(again)
        assert None is bench.scopes.take(WEB)


async def test_unreadable_load_balancer_brings_its_groups() -> None:
    """They tell people about it."""
    bench = set_up()
    obscure(bench.view.load_balancers, FRONT)

    assert {"groups": [WEB]} == await bench.filled()


async def test_unreadable_group_is_looked_at() -> None:
    """It is held."""
    bench = set_up()
    obscure(bench.view.groups, WEB)

    assert {"groups": [WEB]} == await bench.filled()


# --- groups ---------------------------------------------------------------------------


async def test_changed_group_is_looked_at_whole() -> None:
    """Its spec may concern each of its pods."""
    bench = set_up()
    bench.scopes.note(WEB, "web-1")

    assert {"groups": [WEB]} == await bench.tell(a_group(version=2, generation=2))
    assert None is bench.scopes.take(WEB)


async def test_own_write_of_a_group_s_status_fills_no_queue() -> None:
    """Else each write would bring another look."""
    bench = set_up()

    assert {} == await bench.tell(a_group(version=2))


# --- records --------------------------------------------------------------------------


async def test_unregistered_record_is_to_be_registered() -> None:
    """And its group looks at the pod again."""
    bench = set_up()

    keys = await bench.tell(a_record())

    assert {"groups": [WEB], "records": [RECORD]} == keys
    assert {"web-1"} == bench.scopes.take(WEB)


async def test_registered_record_is_no_work() -> None:
    """A start of the controller finds thousands of them."""
    bench = set_up()

    assert "records" not in await bench.tell(a_record(registered=True))


@pytest.mark.parametrize("ensuring", ["", "me", "*"])
@pytest.mark.parametrize("registered", [True, False])
async def test_own_write_of_a_record_s_status_fills_no_queue(
    ensuring: str, registered: bool
) -> None:
    """Neither the registration nor the report of a failure brings a look."""
    bench = set_up(a_record())

    told = a_record(version=2, ensuring=ensuring, registered=registered)

    assert {} == await bench.tell(told)


@pytest.mark.parametrize("is_holding", [True, False])
async def test_record_that_is_in_lets_those_go_that_wait_for_it(
    *, is_holding: bool
) -> None:
    """Of a group whose old pods wait; nobody else has work by it."""
    bench = set_up(a_record())
    bench.scopes.hold(WEB, frozenset({"old-1"} if is_holding else ()))

    await bench.tell(a_record(version=2, ensuring="me"))
    assert 0 == bench.queues.departures.delayed
    await bench.tell(a_record(version=3, registered=True))
    assert int(is_holding) == bench.queues.departures.delayed


async def test_record_that_was_said_to_be_lost_is_put_back() -> None:
    """Even if another incarnation said so."""
    bench = set_up(a_record(registered=True))

    assert {"records": [RECORD]} == await bench.tell(a_record(version=2))


async def test_changed_record_is_ensured_again() -> None:
    """Its generation is newer than its registration."""
    bench = set_up(a_record(registered=True))

    keys = await bench.tell(a_record(generation=2, version=2))

    assert [RECORD] == keys["records"]


async def test_record_that_begins_to_end_brings_its_group() -> None:
    """A pod that came back meanwhile gets another one; the registrar leaves it alone."""
    bench = set_up(a_record(registered=True))

    keys = await bench.tell(a_record(registered=True, deleting=True, version=2))

    assert {"groups": [WEB]} == keys


async def test_record_that_is_gone_brings_a_load_balancer_that_waits_for_it() -> None:
    """The last one lets it go."""
    leaving = a_load_balancer(deleting=True, version=2)
    bench = set_up(leaving, a_record(deleting=True))

    keys = await bench.end(a_record(deleting=True))

    assert {"groups": [WEB], "load_balancers": [FRONT]} == keys


async def test_load_balancer_that_waits_for_others_still_is_looked_at_later() -> None:
    """It tells how many there are; each of thousands that end would have it say so."""
    leaving = a_load_balancer(deleting=True, version=2)
    bench = set_up(leaving, a_record(deleting=True), a_record("web-2", deleting=True))

    keys = await bench.end(a_record(deleting=True))
    assert "load_balancers" not in keys
    assert 1 == bench.queues.load_balancers.delayed

    keys = await bench.end(a_record("web-2", deleting=True))
    assert [FRONT] == keys["load_balancers"]


async def test_record_that_is_not_about_a_pod_widens_the_look() -> None:
    """There is no pod by which to narrow it."""
    bench = set_up()

    await bench.tell(a_record(spec=a_spec(backend=StaticRef("a:1"))))

    assert None is bench.scopes.take(WEB)


async def test_record_of_nobody_is_registered_and_no_more() -> None:
    """It has no group to look at."""
    bench = set_up()

    keys = await bench.tell(attrs.evolve(a_record(), group=None))

    assert {"records": [RECORD]} == keys


# --- load balancers and drivers -----------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(a_load_balancer(version=2, generation=2), id="spec"),
        pytest.param(a_load_balancer(version=2, info={"id": "other"}), id="identity"),
        pytest.param(a_load_balancer(version=2, deleting=True), id="deletion"),
        # Those of a Bind's are what its driver was last given: its status says so.
        pytest.param(
            attrs.evolve(a_load_balancer(version=2), attributes={"mode": "fast"}),
            id="attributes in a Bind's status",
        ),
    ],
)
async def test_changed_load_balancer_brings_itself_and_its_groups(
    changed: Thing,
) -> None:
    """Its records copy its attributes and its identity."""
    bench = set_up()

    keys = await bench.tell(changed)

    assert {"groups": [WEB], "load_balancers": [FRONT]} == keys
    assert None is bench.scopes.take(WEB)


async def test_load_balancer_that_is_made_again_brings_what_waits_for_it() -> None:
    """Their reads of it have shown that it was gone."""
    waiting = a_record()
    backend = a_backend("web-2")
    settled = a_record("web-2", spec=a_spec(backend=backend), registered=True)
    bench = set_up(waiting, settled)
    identity = attrs.evolve(identity_of(a_load_balancer().meta), version="2")
    bench.view.load_balancers.apply(Removed(identity))
    assert "records" not in await bench.filled()

    keys = await bench.tell(a_load_balancer(version=3))

    assert [RECORD] == keys["records"]


async def test_load_balancer_that_is_understood_again_brings_what_waits_for_it() -> (
    None
):
    """Their reads of it have failed; it changed nothing that concerns a record."""
    bench = set_up(a_record())
    obscure(bench.view.load_balancers, FRONT)
    assert "records" not in await bench.filled()

    keys = await bench.tell(a_load_balancer(version=10))

    assert [RECORD] == keys["records"]


async def test_load_balancer_that_is_back_brings_what_failed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those alone: its registrar knows which."""
    away, back = (
        attrs.evolve(
            a_load_balancer(version=version),
            conditions=(Condition(REACHABLE, status, Reason.REACHABLE),),
        )
        for version, status in ((2, False), (3, True))
    )
    bench = set_up(away)
    told: list[ObjectKey] = []
    monkeypatch.setattr(bench.registrar, "load_balancer_is_back", told.append)

    await bench.tell(back)
    await bench.tell(attrs.evolve(back, meta=a_load_balancer(version=4).meta))

    assert [FRONT] == told


async def test_own_write_of_a_load_balancer_s_status_brings_no_group() -> None:
    """Only what records copy concerns them."""
    bench = set_up()

    assert {"load_balancers": [FRONT]} == await bench.tell(a_load_balancer(version=2))


async def test_changed_driver_brings_all_that_it_operates() -> None:
    """Load balancers, their groups, and the records that wait for it."""
    waiting = a_record()
    settled = a_record(
        "web-2", spec=a_spec(backend=a_backend("web-2")), registered=True
    )
    bench = set_up(waiting, settled, a_record("web-3", deleting=True))

    keys = await bench.tell(a_driver(version=2, generation=2))

    assert keys == {
        "groups": [WEB],
        "load_balancers": [FRONT],
        "records": [RECORD],
        "drivers": [PROXY],
    }


async def test_own_write_of_a_driver_s_status_fills_no_queue() -> None:
    """Its health is asked for every few seconds."""
    bench = set_up()

    assert {} == await bench.tell(a_driver(version=2))


# --- drained by hand ------------------------------------------------------------------

DRAINED = {ANNOTATION_DRAIN: "a new disk"}


async def test_annotation_that_drains_a_group_is_looked_at() -> None:
    """It changes no generation; other annotations of ours are no matter."""
    bench = set_up()
    group = a_group(version=2)
    other = attrs.evolve(group, meta=attrs.evolve(group.meta, annotations={"a": "b"}))
    assert {} == await bench.tell(other)

    group = a_group(version=3)
    drained = attrs.evolve(group, meta=attrs.evolve(group.meta, annotations=DRAINED))

    assert {"groups": [WEB]} == await bench.tell(drained)
    assert {"groups": [WEB]} == await bench.tell(a_group(version=4))


async def test_annotation_that_drains_a_pod_is_urgent() -> None:
    """It leaves beside a turn that waits for others to come."""
    bench = set_up(a_pod())
    bench.queues.groups.add(WEB)
    await bench.queues.groups.get()
    pod = newer(a_pod())
    drained = attrs.evolve(pod, meta=attrs.evolve(pod.meta, annotations=DRAINED))

    keys = await bench.tell(drained)

    assert [WEB] == keys["departures"]
    assert {"web-1"} == bench.scopes.take_leaving(WEB)
