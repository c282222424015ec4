"""What is remembered of drivers' answers about groups that are gone."""

import gc
import weakref

from collections.abc import Mapping
from datetime import timedelta

import attrs

from prometheus_client import CollectorRegistry

from lbcf.controller.driver_decisions import Validations
from lbcf.controller.view import View
from lbcf.core.lifecycle.steps import CallRefused
from lbcf.core.model.cluster import Attachment
from lbcf.core.model.resources import BackendGroup
from lbcf.core.model.values import ObjectKey
from lbcf.core.selection.validation import ParameterQuestion
from lbcf.drivers.pool import DriverPool
from lbcf.executor.load_balancers import LoadBalancerCalls
from lbcf.kube.list_watch import Removed
from lbcf.runtime.limiter import Shares
from lbcf.runtime.queue import WorkQueue
from lbcf.runtime.worker import Done, RequeueAfter
from lbcf.wire.metadata import identity_of
from tests.builders import a_driver, a_group, a_load_balancer
from tests.controller.views import show
from tests.fakes.clock import VirtualClock


class Parameters(dict[str, str]):
    """Parameters that tell when nobody remembers them."""


class Refusing(LoadBalancerCalls):
    """Refuses parameters; during its second answer the group goes."""

    def __init__(self, view: View, clock: VirtualClock) -> None:
        super().__init__(DriverPool(clock, CollectorRegistry()), clock)
        self._view = view
        self._answers = 0

    async def validate_backends(
        self, namespace: str, attachment: Attachment, question: ParameterQuestion
    ) -> CallRefused:
        """Refuse."""
        _ = namespace, attachment, question
        self._answers += 1
        if self._answers > 1:
            for group in list(self._view.groups.values()):
                end = attrs.evolve(identity_of(group.meta), version="99")
                self._view.groups.apply(Removed(end))
        return CallRefused("weight is no number")


def asked(view: View, parameters: Mapping[str, str]) -> BackendGroup:
    """Show a group with parameters that its driver is to be asked about."""
    group = a_group(parameters=parameters)
    show(view, a_driver(), a_load_balancer(), group)
    return group


async def test_answer_about_a_group_that_is_gone_is_not_kept() -> None:
    """The group went during the call, and the answer was the same as before."""
    view, clock = View(), VirtualClock()
    queue: WorkQueue[tuple[ObjectKey, str]] = WorkQueue("validations", clock)
    validations = Validations(
        view,
        queue,
        Refusing(view, clock),
        lambda _group: None,
        clock,
        shares=Shares(64),
    )
    parameters = Parameters(weight="x")
    seen = weakref.ref(parameters)
    place = (asked(view, parameters).meta.key, "front")
    del parameters

    for _ in range(2):
        result = await validations.reconcile(place)
        assert isinstance(result, RequeueAfter)
        clock.advance(result.delay + timedelta(seconds=1))
    assert Done() == await validations.reconcile(place)

    gc.collect()
    assert seen() is None
