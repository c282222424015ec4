"""The Envoy driver in the suite of all drivers, on a real Envoy."""

import ipaddress
import json

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import ClassVar

import attrs
import pytest

from lbcf.runtime.flags import BindAddress
from lbcf.sdk import CreateLoadBalancerRequest, Driver, MemberKey, RetryAfter
from tests.envoy.proxy import FLEET, Envoy
from tests.envoy.relay import Relay
from tests.lab.cluster.ports import free_ports
from tests.patience import PATIENT
from tests.webhooks.requests import RECORD
from tests.webhooks.rig import Overlap, Rig, State
from webhooks.envoy.balancers import Identity
from webhooks.envoy.driver import EnvoyDriver
from webhooks.envoy.keeper import Edit, Keeper
from webhooks.envoy.store import Store
from webhooks.shared.reach import AllowedAddresses


HERE = AllowedAddresses((ipaddress.ip_network("127.0.0.0/8"),))
"""Where the members of tests are."""

BRIEF = timedelta(seconds=0.5)
"""How long a driver waits that is to say what Envoys lack."""

QUICK = {"connectTimeout": "250ms"}
"""Attributes with which a drain is soon over."""


@attrs.define(eq=False)
class PatientKeeper(Keeper):
    """One whose disk has as long as a test, however brief its driver is with Envoys."""

    async def change(self, known: Identity, edit: Edit, _: timedelta) -> None:
        """Change a load balancer."""
        await super().change(known, edit, PATIENT)


@attrs.define(eq=False)
class EnvoyRig(Rig):
    """The driver, an Envoy, and what is between them.

    Attributes:
        envoy: the load balancer.
        relay: where it connects to.
        port: of the driver.
        listen: where the load balancer listens.
        spare: the same for that of the conformance kit.
    """

    envoy: Envoy = attrs.field(init=False)
    relay: Relay = attrs.field(init=False)
    port: int = attrs.field(factory=lambda: free_ports(1)[0], init=False)
    listen: str = attrs.field(init=False)
    spare: str = attrs.field(init=False)

    marks: ClassVar[Sequence[pytest.MarkDecorator]] = (pytest.mark.envoy,)
    module = "webhooks.envoy"
    valid_parameters: ClassVar[Mapping[str, str]] = {"weight": "3", "zone": "a"}
    gone: ClassVar[Mapping[str, str]] = {"listen": "127.0.0.1:9"}
    no_pool = "there is no load balancer"
    taken = ""
    member_key = MemberKey.RECORD
    replaces_records = False
    is_shared = False
    has_hands = False
    not_offered: ClassVar[set[str]] = {
        "both-spellings",
        "judged-pods-were-asked-for",
        "drain-waits-for-connections",
    }
    faults: ClassVar[Mapping[str, str]] = {
        "cut": "no Envoy of fleet 'edge' is connected|is not connected, and may be serving",
    }
    passing: ClassVar[Collection[str]] = ("cut",)
    bad_flags: ClassVar[Sequence[tuple[Sequence[str], str]]] = (
        (["--forget-envoys-after", "0"], "--forget-envoys-after 0 is not"),
        (["--xds-address", "0"], "Envoys must connect somewhere"),
        (["--xds-address", ":18000"], "is reached from other machines"),
        (["--xds-cert-file", "/tmp/a.pem"], "belong together"),
        (["--bogus"], "--bogus"),
    )

    async def serve(self) -> None:
        """Start an Envoy, and have a load balancer in the driver's state."""
        self.listen, self.spare = (f"127.0.0.1:{port}" for port in free_ports(2))
        self.relay = await self.stack.enter_async_context(Relay.running(self.port))
        self.envoy = await self.stack.enter_async_context(
            Envoy.running(self.relay.port)
        )
        request = CreateLoadBalancerRequest(
            record_id=RECORD,
            lb_spec=self.lb_info,
            attributes=QUICK,
            namespace="kube-system",
        )
        driver = self.make()
        await driver.start()
        try:
            while not await self._is_created(driver, request):
                pass  # a busy machine's Envoy takes longer than the driver waits
        finally:
            # One that is left to the garbage collector ends in the middle of other tests.
            await driver.stop()

    async def _is_created(
        self, driver: EnvoyDriver, request: CreateLoadBalancerRequest
    ) -> bool:
        """Ask for the load balancer; tell whether Envoy has it."""
        try:
            await driver.create_load_balancer(request)
        except RetryAfter:
            return False
        return True

    @property
    def lb_info(self) -> dict[str, str]:
        """The listener."""
        return {"fleet": FLEET, "listen": self.listen}

    def kit(self) -> dict[str, str]:
        """Return a listener that the kit makes itself."""
        return {"fleet": FLEET, "listen": self.spare}

    def make(
        self,
        listeners: Sequence[str] = ("*",),
        addresses: AllowedAddresses = HERE,
    ) -> EnvoyDriver:
        """Return a driver."""
        keeper = PatientKeeper(
            Store(self.folder / "state"), BindAddress("127.0.0.1", self.port)
        )
        return EnvoyDriver(keeper, listeners, addresses, timedelta(seconds=1.5))

    def closed(self) -> EnvoyDriver:
        """Return a driver for members that are not on this machine."""
        return self.make(addresses=AllowedAddresses())

    def fenced(self) -> EnvoyDriver:
        """Return a driver with a rule for the listener."""
        return self.make(("*", f"*/{self.listen}=kube-system"))

    async def state(self) -> State:
        """Return what the member is."""
        found = (await self.envoy.members(self.listen)).get(self.address)
        if found is None:
            return State.ABSENT
        return State.OUT if found == "DRAINING" else State.IN

    async def trace(self) -> object:
        """Return all that Envoy has, with the moments since when."""
        return json.loads(await self.envoy.ask("/config_dump?include_eds"))

    async def left(self) -> Sequence[str]:
        """Return the members of all load balancers."""
        clusters = await self.envoy.clusters()
        return [
            address
            for name, hosts in clusters.items()
            if name.startswith("lbcf/")
            for address in hosts
        ]

    async def remove(self) -> None:
        """Envoy has no such command."""
        raise NotImplementedError

    async def occupy(self, address: str) -> None:
        """Do nothing: addresses in clusters of others are free."""

    async def strangers(self) -> object:
        """Return the clusters of Envoy's own configuration."""
        found = await self.envoy.clusters()
        return {
            name: sorted(hosts)
            for name, hosts in found.items()
            if not name.startswith("lbcf/")
        }

    async def overlap(self) -> Overlap:
        """Envoy's members are known by record."""
        raise NotImplementedError

    def start(self, make: Callable[[], Driver] | None = None) -> Driver:
        """Return another driver, which waits until Envoy has what the test asks for."""
        driver = super().start(make)
        assert isinstance(driver, EnvoyDriver)
        driver.patience = PATIENT
        return driver

    async def begin(self, _fault: str, _operation: str, /) -> None:
        """Cut the driver off, and have it notice; it waits for nobody any more."""
        self.driver.patience = BRIEF
        await self.relay.cut()
        fleet = self.driver.keeper.fleets.fleet(FLEET)
        while fleet.sessions:
            await fleet.change()

    async def end(self, _fault: str, /) -> None:
        """Let Envoys through again."""
        self.driver.patience = PATIENT
        await self.relay.open()

    @property
    def driver(self) -> EnvoyDriver:
        """The driver that was started last."""
        driver = self.drivers[-1]
        assert isinstance(driver, EnvoyDriver)
        return driver
