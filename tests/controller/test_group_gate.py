"""A group tells of its pods that wait for their drain, with the rest of its status."""

import attrs

from lbcf.controller.group_status import GroupStatusReconciler
from lbcf.controller.view import View
from lbcf.core.model import conditions
from lbcf.core.model.names import ANNOTATION_DRAIN_GATE, ANNOTATION_OWN_PRE_STOP
from lbcf.core.model.resources import BackendGroup
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import BINDS, GROUPS
from lbcf.kube.list_watch import Put
from tests.builders import a_key, a_pod, a_record, a_spec, seconds
from tests.e2e import objects
from tests.fakes.clock import VirtualClock
from tests.kube.tiny_api import TinyApi


async def test_group_says_which_of_its_pods_do_not_wait_for_long_enough() -> None:
    """And says it no more once they do; containers that keep their own hooks are named."""
    client, clock, view = KubeClient(TinyApi()), VirtualClock(), View()
    group = await client.create(GROUPS, "shop", objects.a_group())
    view.groups.apply(Put(group))
    status = GroupStatusReconciler(
        view,
        ObjectWriter(client, GROUPS, view.groups),
        ObjectWriter(client, BINDS, view.binds),
        EventRecorder(client, clock, controller="test", instance="test"),
        clock,
    )

    async def said(wait: str, version: int) -> tuple[bool | None, str]:
        record = a_record(
            spec=a_spec(drain_timeout=seconds(30)),
            annotations={ANNOTATION_DRAIN_GATE: wait},
            version=version,
        )
        view.records.apply(Put(attrs.evolve(record, group=group.meta.key)))
        clock.advance(seconds(10))
        await status.reconcile(group.meta.key)
        found: BackendGroup = await client.get(GROUPS, a_key("web"))
        told = conditions.find(found.status.conditions, conditions.DRAIN_GATED)
        assert told is not None
        return told.status, told.reason

    assert (False, "GraceTooShort") == await said("10", 1)
    assert (True, "Gated") == await said("40", 2)

    annotations = {ANNOTATION_OWN_PRE_STOP: "web"}
    pod = a_pod()
    meta = attrs.evolve(pod.meta, annotations=annotations)
    view.pods.apply(Put(attrs.evolve(pod, meta=meta)))
    assert (False, "OwnPreStop") == await said("40", 3)
