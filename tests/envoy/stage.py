"""A driver, its Envoys and requests about one load balancer, for the tests of this folder."""

import contextlib

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Self

import attrs

from lbcf.runtime.clock import SystemClock
from lbcf.runtime.flags import BindAddress
from lbcf.sdk import (
    CreateLoadBalancerRequest,
    DeleteLoadBalancerRequest,
    DeregisterBackendRequest,
    DrainBackendRequest,
    EnsureBackendRequest,
    EnsureLoadBalancerRequest,
    ListBackendsRequest,
)
from tests.envoy.proxy import FLEET, Envoy
from tests.envoy.relay import Relay
from tests.envoy.rig import HERE, QUICK, PatientKeeper
from tests.lab.cluster.ports import free_ports
from tests.patience import PATIENT
from tests.webhooks import requests
from webhooks.envoy.driver import EnvoyDriver
from webhooks.envoy.keeper import Keeper
from webhooks.envoy.management import Files
from webhooks.envoy.store import Store


LONG = timedelta(hours=1)
"""After which an Envoy that is not connected is taken for gone: when a test says so."""

UNAIDED = {"retries": "0"}
"""Attributes with which Envoy hides no failure of ours by trying again."""


class Ahead(SystemClock):
    """The machine's clock, which a test may put forward."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead = 0.0

    def monotonic(self) -> float:
        """Return the machine's seconds, and those that were skipped."""
        return super().monotonic() + self._ahead

    def skip(self, time: timedelta) -> None:
        """Have that much time be over."""
        self._ahead += time.total_seconds()


@attrs.define(eq=False)
class Stage:
    """What a test of this driver plays with.

    Attributes:
        folder: of the driver's state.
        stack: closed when the test is over.
        relay: what is between Envoys and driver.
        port: of the driver, for Envoys.
        listen: where the load balancer listens.
        drivers: those that were started.
        envoys: the same.
        clock: of the drivers.
    """

    folder: Path
    stack: contextlib.AsyncExitStack
    port: int = attrs.field(factory=lambda: free_ports(1)[0])
    listen: str = attrs.field(factory=lambda: f"127.0.0.1:{free_ports(1)[0]}")
    relay: Relay = attrs.field(init=False)
    drivers: list[EnvoyDriver] = attrs.field(factory=list, init=False)
    envoys: list[Envoy] = attrs.field(factory=list, init=False)
    clock: Ahead = attrs.field(factory=Ahead, init=False)

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, folder: Path) -> AsyncIterator[Self]:
        """Keep the relay for a block; stop whatever was started."""
        async with contextlib.AsyncExitStack() as stack:
            stage = cls(folder, stack)
            stage.relay = await stack.enter_async_context(Relay.running(stage.port))
            try:
                yield stage
            finally:
                for driver in stage.drivers:
                    await driver.stop()

    async def driver(
        self,
        folder: Path | None = None,
        patience: timedelta = PATIENT,
        files: Files | None = None,
        kind: type[Keeper] = PatientKeeper,
    ) -> EnvoyDriver:
        """Start a driver, which waits so long for what Envoys acknowledge."""
        keeper = kind(
            Store(folder or self.folder),
            BindAddress("127.0.0.1", self.port),
            files,
            forget_after=LONG,
            clock=self.clock,
        )
        driver = EnvoyDriver(keeper, ("*",), HERE, patience)
        self.drivers.append(driver)
        await driver.start()
        return driver

    async def envoy(
        self,
        node: str = "envoy-1",
        *,
        reports: bool = True,
        api_type: str = "DELTA_GRPC",
    ) -> Envoy:
        """Start an Envoy, which sends load reports or not, and asks for what changed or not."""
        envoy = await self.stack.enter_async_context(
            Envoy.running(self.relay.port, node, reports=reports, api_type=api_type)
        )
        self.envoys.append(envoy)
        return envoy

    async def until_workers_know(self) -> None:
        """Wait until requests are served as the Envoys have acknowledged."""
        for envoy in self.envoys:
            await envoy.until_workers_know()

    @property
    def lb_info(self) -> dict[str, str]:
        """The load balancer."""
        return {"fleet": FLEET, "listen": self.listen}

    @property
    def url(self) -> str:
        """Where clients reach it."""
        return f"http://{self.listen}/"

    def create(self, owner: str = "lb", **attributes: str) -> CreateLoadBalancerRequest:
        """Return a request to make it for a LoadBalancer."""
        return CreateLoadBalancerRequest(
            record_id=owner, lb_spec=self.lb_info, attributes={**QUICK, **attributes}
        )

    def remake(self, **attributes: str) -> EnsureLoadBalancerRequest:
        """Return a request to give it these attributes."""
        return EnsureLoadBalancerRequest(
            record_id="lb", lb_info=self.lb_info, attributes={**QUICK, **attributes}
        )

    def delete(self, owner: str = "lb") -> DeleteLoadBalancerRequest:
        """Return a request to delete it."""
        return DeleteLoadBalancerRequest(record_id=owner, lb_info=self.lb_info)

    def ensure(
        self, record: str, address: str, parameters: Mapping[str, str] | None = None
    ) -> EnsureBackendRequest:
        """Return a request to ensure a member."""
        return EnsureBackendRequest(
            record_id=record,
            lb_info=self.lb_info,
            backend_addr=address,
            parameters=dict(parameters or {}),
        )

    def drain(self, record: str, address: str) -> DrainBackendRequest:
        """Return a request to drain it."""
        return requests.a_drain(self.lb_info, address, record)

    def deregister(
        self, record: str, address: str, *, drained: bool = True
    ) -> DeregisterBackendRequest:
        """Return a request to take it out."""
        return requests.a_deregister(self.lb_info, address, record, drained=drained)

    def list(self) -> ListBackendsRequest:
        """Return a request to list the members."""
        return requests.a_list(self.lb_info)


async def are_connected(driver: EnvoyDriver, names: Sequence[str]) -> bool:
    """Tell whether these Envoys, and no others, are connected, as far as a driver knows."""
    return [*names] == driver.keeper.fleets.fleet(FLEET).connected()
