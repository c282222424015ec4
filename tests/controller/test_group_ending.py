"""A group that is being deleted, and that somebody's finalizer holds."""

from typing import Any, cast

import attrs
import pytest

from lbcf.controller.apply import Applier
from lbcf.controller.decision import Decision
from lbcf.controller.driver_decisions import Judgements, Validations
from lbcf.controller.groups import GroupReconciler, ServiceGrace
from lbcf.controller.record_quota import RecordQuota
from lbcf.controller.removals import Removals
from lbcf.controller.triggers import ChangedBackends
from lbcf.core.reasons import Reason
from lbcf.core.selection.plan import plan_group
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import RECORDS
from lbcf.runtime.limiter import Shares
from lbcf.runtime.queue import WorkQueue
from tests.builders import START, a_group, a_key, a_pod, a_record, a_snapshot
from tests.controller.test_apply import Nobody
from tests.controller.views import everyday, show
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import TinyApi


WEB = a_key("web")


@pytest.mark.parametrize("is_there", [True, False], ids=["ready pod", "pod is gone"])
def test_all_its_records_leave(*, is_there: bool) -> None:
    """Nobody else ends them: the garbage collector does so once the group is gone."""
    view, clock, told = everyday(), VirtualClock(), list[Decision]()
    spec = plan_group(a_snapshot(a_pod())).creates[0].desired.spec
    show(view, a_record(spec=spec, registered=True))
    if is_there:
        show(view, a_pod())
    group = a_group(max_unready_percent=0, version=2)
    meta = attrs.evolve(group.meta, deleting_since=START, finalizers=("a.b/hold",))
    show(view, attrs.evolve(group, meta=meta))
    removed: WorkQueue[Any] = WorkQueue("removals", clock)
    writer = ObjectWriter(KubeClient(TinyApi()), RECORDS, view.records)
    asked, nobody = WorkQueue[Any]("asked", clock), cast("Any", None)
    shares = Shares(8)
    reconciler = GroupReconciler(
        view,
        ChangedBackends(),
        Judgements(view, asked, nobody, nobody, clock, shares=shares),
        Validations(view, asked, nobody, nobody, clock, shares=shares),
        RecordQuota(view.records, 0, lambda *_: None, None),
        grace=ServiceGrace(view, clock),
        applier=Applier(writer, clock, Nobody()),
        removals=Removals(writer, removed, nobody, lambda _: None, lambda _: None),
        clock=clock,
        decided=lambda _, decision: told.append(decision),
        depart_after=lambda *_: None,
    )
    run_virtual(reconciler.reconcile(WEB))

    assert 1 == len(removed)
    assert 0 == len(asked)
    assert [Reason.GROUP_DELETING] == [why.reason for why in told[0].doubts]
