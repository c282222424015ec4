"""Ways to an API server for what never asks one, and Binds that nobody has."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from prometheus_client import CollectorRegistry

from lbcf.controller.binds import Binds
from lbcf.controller.legacy import LegacyLocks
from lbcf.controller.record_lister import RecordLister
from lbcf.controller.view import View
from lbcf.drivers.pool import DriverPool
from lbcf.executor import LoadBalancerCalls
from lbcf.executor.binds import BindWriter
from lbcf.executor.locks import AddressLocker
from lbcf.executor.object_events import AbandonmentReporter
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.address_locks import AddressLocks
from lbcf.kube.client import KubeClient
from lbcf.kube.events import EventRecorder
from lbcf.kube.kinds import BINDS
from lbcf.kube.requests import ApiRequest
from lbcf.runtime.limiter import Shares
from lbcf.runtime.queue import WorkQueue
from tests.fakes.clock import VirtualClock


class Nobody:
    """No API server: being asked fails the test."""

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Fail the test."""
        raise AssertionError(f"{request} {within}")

    def stream(
        self, request: ApiRequest, silence: timedelta
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Fail the test."""
        raise AssertionError(f"{request} {silence}")


def idle_binds(view: View, client: KubeClient, recorder: EventRecorder) -> Binds:
    """Make what writes the statuses of the Binds of a view."""
    clock = VirtualClock()
    locks = AddressLocks(client, "kube-system", clock)
    return Binds(
        view,
        BindWriter(ObjectWriter(client, BINDS, view.binds)),
        LoadBalancerCalls(DriverPool(clock, CollectorRegistry()), clock),
        clock,
        AbandonmentReporter(recorder, None),
        queue=WorkQueue("binds", clock),
        shares=Shares(8),
        inheritance=LegacyLocks(view, AddressLocker(client, locks, clock), clock),
        lists=RecordLister(client, view.observe_record),
    )
