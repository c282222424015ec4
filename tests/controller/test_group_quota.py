"""What a group that cannot be decided about leaves to the others of its namespace."""

from datetime import timedelta
from typing import Any, cast

from lbcf.controller.apply import Applier
from lbcf.controller.groups import GroupReconciler, ServiceGrace
from lbcf.controller.record_quota import RecordQuota
from lbcf.controller.removals import Removals
from lbcf.controller.triggers import ChangedBackends
from lbcf.core.model.values import ObjectKey
from lbcf.core.selection.plan import plan_group
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import RECORDS
from lbcf.runtime.queue import WorkQueue
from tests.builders import a_key, a_pod, a_record, a_snapshot
from tests.controller.test_apply import Nobody
from tests.controller.views import everyday, obscure, show
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import TinyApi


WEB, API = a_key("web"), a_key("api")


def test_group_that_is_undecided_holds_no_room() -> None:
    """The next one has it at once; what the first wants is decided when it can be."""
    view, clock, looked = everyday(), VirtualClock(), list[ObjectKey]()

    def look_after(group: ObjectKey, after: timedelta) -> None:
        assert not after
        looked.append(group)

    quota = RecordQuota(view.records, 1, look_after, None)
    show(view, a_record("only"))
    for group in (WEB, API):
        quota.consider(group, plan_group(a_snapshot(a_pod())))
    writer = ObjectWriter(KubeClient(TinyApi()), RECORDS, view.records)
    scopes = ChangedBackends()
    unused = cast("Any", None)
    reconciler = GroupReconciler(
        view,
        scopes,
        unused,
        unused,
        quota,
        grace=ServiceGrace(view, clock),
        applier=Applier(writer, clock, Nobody()),
        removals=Removals(
            writer,
            WorkQueue("removals", clock),
            unused,
            looked.append,
            lambda _: None,
        ),
        clock=clock,
        decided=lambda *_: None,
        depart_after=lambda *_: None,
    )
    obscure(view.groups, WEB)
    run_virtual(reconciler.reconcile(WEB))
    view.records.displace(a_key("only"))

    assert [API] == looked
    assert None is scopes.pending(WEB)
