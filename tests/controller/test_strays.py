"""Backends that a group means no more, and that stay while a driver refuses its parameters."""

from typing import Any, cast

import attrs
import pytest

from prometheus_client import CollectorRegistry

from lbcf.controller.apply import Applier
from lbcf.controller.driver_decisions import AttachmentKey, Validations
from lbcf.controller.groups import GroupReconciler, ServiceGrace
from lbcf.controller.record_quota import RecordQuota
from lbcf.controller.removals import Removals
from lbcf.controller.triggers import NodeTriggers
from lbcf.core.lifecycle.steps import CallRefused
from lbcf.core.model.cluster import Attachment, Snapshot
from lbcf.core.model.node_backends import NodeRef
from lbcf.core.model.nodes import Node
from lbcf.core.model.selectors import Selector
from lbcf.core.model.values import NO_DRAIN, ObjectKey
from lbcf.core.selection.validation import ParameterQuestion
from lbcf.drivers.pool import DriverPool
from lbcf.executor.load_balancers import LoadBalancerCalls
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import RECORDS
from lbcf.kube.list_watch import Removed
from lbcf.runtime.limiter import Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.wire.metadata import identity_of
from tests.builders import (
    BY_LABEL,
    a_backend,
    a_group,
    a_key,
    a_meta,
    a_pod,
    a_record,
    a_spec,
)
from tests.builders import WEB as PORT
from tests.controller.exchanges import Nobody
from tests.controller.test_apply import Nobody as NoSuccessor
from tests.controller.test_triggers import Bench, set_up
from tests.controller.views import show
from tests.fakes.clock import VirtualClock


WEB = a_key("web")
API = attrs.evolve(BY_LABEL, selector=Selector({"app": "api"}))


MEANT = (
    a_pod("api-1", address="10.0.0.2", labels={"app": "api"}),
    a_record(
        "api-1",
        spec=a_spec(backend=a_backend("api-1"), address="10.0.0.2:8080"),
        registered=True,
    ),
)
"""A pod that the changed group means, and is registered as the group was before."""

CHANGED = a_group(
    selection=API,
    parameters={"weight": "x"},
    drain=NO_DRAIN,
    version=2,
    generation=2,
)


class Refusing(LoadBalancerCalls):
    """Refuses parameters, always in the same words."""

    async def validate_backends(
        self, namespace: str, attachment: Attachment, question: ParameterQuestion
    ) -> CallRefused:
        """Refuse."""
        _ = namespace, attachment, question
        return CallRefused("weight is no number")


class NoJudgements:
    """Has nobody judged."""

    def consider(self, snapshot: Snapshot) -> Snapshot:
        """Add nothing."""
        return snapshot


@attrs.frozen
class Case:
    """A bench, who reconciles its groups, and what is to be removed."""

    bench: Bench
    groups: GroupReconciler
    validations: Validations
    removing: WorkQueue[ObjectKey]

    async def refuse(self) -> None:
        """Have the parameters of the group refused, and its backends kept for that."""
        show(self.bench.view, *MEANT, CHANGED)
        await self.groups.reconcile(WEB)
        await self.validations.reconcile((WEB, "front"))
        await self.groups.reconcile(WEB)
        await self.bench.filled()
        assert not len(self.removing)


def a_case(bench: Bench) -> Case:
    """Put those together who decide about groups."""
    view, clock = bench.view, VirtualClock()
    writer = ObjectWriter(KubeClient(Nobody()), RECORDS, view.records)
    removing: WorkQueue[ObjectKey] = WorkQueue("removals", clock)
    validating: WorkQueue[AttachmentKey] = WorkQueue("validations", clock)
    validations = Validations(
        view,
        validating,
        Refusing(DriverPool(clock, CollectorRegistry()), clock),
        bench.triggers.look_at_group,
        clock,
        shares=Shares(64),
    )
    groups = GroupReconciler(
        view,
        bench.scopes,
        cast("Any", NoJudgements()),
        validations,
        RecordQuota(view.records, 0, lambda *_: None, None),
        grace=ServiceGrace(view, clock),
        applier=Applier(writer, clock, NoSuccessor()),
        removals=Removals(
            writer,
            removing,
            cast("Any", None),
            bench.triggers.look_at_group,
            lambda _: None,
        ),
        clock=clock,
        decided=lambda *_: None,
        depart_after=lambda *_: None,
    )
    return Case(bench, groups, validations, removing)


@pytest.mark.parametrize("is_between", [False, True])
async def test_pod_that_is_selected_no_more_leaves_when_it_goes(
    is_between: bool,
) -> None:
    """It stayed, since its group's new parameters are refused; its end brings the group."""
    pod = a_pod()
    case = a_case(set_up(pod, a_record(registered=True)))
    await case.refuse()
    if is_between:
        # Of this look, which is about another pod, nothing is concluded.
        await case.bench.tell(
            attrs.evolve(
                MEANT[0],
                phase="Unknown",
                meta=a_meta("api-1", version=3, labels={"app": "api"}),
            )
        )
        await case.groups.reconcile(WEB)

    going = a_pod(deleting=True, version=2)
    found = await case.bench.tell(going)
    assert [WEB] == found["groups"]
    await case.groups.reconcile(WEB)

    assert a_record().meta.key == await case.removing.get()


async def test_pod_that_stays_brings_its_former_group_no_more_once_it_has_left() -> (
    None
):
    """Nothing of it is remembered."""
    case = a_case(set_up(a_pod(), a_record(registered=True)))
    await case.refuse()
    agreed = a_group(selection=API, drain=NO_DRAIN, version=3, generation=3)
    await case.bench.tell(agreed)
    await case.groups.reconcile(WEB)
    assert a_record().meta.key == await case.removing.get()

    assert "groups" not in await case.bench.tell(a_pod(ready=False, version=2))


async def test_node_that_is_selected_no_more_leaves_when_it_goes() -> None:
    """As a pod does."""
    node = Node(a_meta("n1"))
    node = attrs.evolve(node, meta=attrs.evolve(node.meta, key=ObjectKey("", "n1")))
    spec = a_spec(backend=NodeRef("n1", PORT))
    bench = set_up(node, a_record(spec=spec, registered=True))
    NodeTriggers(
        bench.view, bench.scopes, bench.triggers.look_at_part, lambda _: None
    ).listen()
    case = a_case(bench)
    await case.refuse()

    bench.view.nodes.apply(Removed(attrs.evolve(identity_of(node.meta), version="99")))
    assert [WEB] == (await bench.filled())["groups"]
    await case.groups.reconcile(WEB)

    assert a_record().meta.key == await case.removing.get()
