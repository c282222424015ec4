"""The ELBv2 driver in the suite of all drivers: an emulator with a target group."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import ClassVar

import attrs

from tests.elbv2.clients import KEY, an_identity, write_credentials
from tests.elbv2.clocks import FastClock, QuickClock
from tests.elbv2.emulator import OURS, THEIRS, Emulator
from tests.elbv2.state import (
    ACCOUNT,
    DELAY,
    REGION,
    ApiError,
    Description,
    EmulatedGroup,
)
from tests.patience import PATIENT
from tests.webhooks.rig import Overlap, Rig, State
from webhooks.elbv2.balancer import LoadBalancers
from webhooks.elbv2.claims import IN_MEMORY, Claims
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.elbv2.load_balancers import AllowedGroups
from webhooks.elbv2.regions import Aws, Settings


ACTIONS = {
    "ensure": "RegisterTargets",
    "drain": "DeregisterTargets",
    "deregister": "DeregisterTargets",
    "list": "DescribeTargetHealth",
}
"""The call of AWS that each operation cannot do without."""

LONG = 99
"""Calls that a fault lasts for; the test ends it."""

ERRORS = {
    "throttled": ApiError("Throttling", "so says AWS"),
    "internal": ApiError("InternalFailure", "so says AWS", 500),
    "denied": ApiError("AccessDenied", "so says AWS", 403),
    "expired": ApiError("ExpiredToken", "so says AWS", 403),
}
PAGES = {
    "page-200": (200, "<html><p>Log in</p><br></html>"),
    "page-503": (503, "<html><p>Sorry</p><br></html>"),
    "garbage": (200, "\\x00\\x01{]"),
}


@attrs.define(eq=False)
class Elbv2Rig(Rig):
    """The driver and ELBv2, with a target group that drains at once.

    Attributes:
        clock: of both.
        emulator: ELBv2.
        group: the target group.
    """

    clock: QuickClock = attrs.field(factory=QuickClock, init=False)
    emulator: Emulator = attrs.field(init=False)
    group: EmulatedGroup = attrs.field(init=False)

    module = "webhooks.elbv2"
    at_last: ClassVar[Mapping[str, State]] = {
        "ensure": State.IN,
        "drain": State.ABSENT,
        "deregister": State.ABSENT,
        "list": State.IN,
    }
    gone: ClassVar[Mapping[str, str]] = {
        "targetGroups": f"arn:aws:elasticloadbalancing:{REGION}:{ACCOUNT}:targetgroup"
        "/gone/50dc6c495c0c9188"
    }
    no_pool = "was it deleted or replaced?"
    taken = "is in target group web already"
    not_offered: ClassVar[set[str]] = {
        "judged-pods-were-asked-for",
        "records-share-an-address",
        "deregister-by-name-alone",
        "drain-waits-for-connections",
    }
    is_shared = False
    replaces_records = False
    removal_is_loss = True
    faults: ClassVar[Mapping[str, str]] = {
        "throttled": "Throttling: .*nothing is wrong; it is sent",
        "internal": "InternalFailure: .*it is asked",
        "denied": "AccessDenied: .*allow the driver's role",
        "expired": "ExpiredToken: .*renew the driver's cred",
        "page-200": "is not that of ELBv2: is there a proxy",
        "page-503": "503",
        "garbage": "is not that of ELBv2: is there a proxy",
        "credentials": "ExpiredToken: .*renew the driver's credentials",
    }
    passing: ClassVar[Collection[str]] = (
        "throttled",
        "internal",
        "page-200",
        "page-503",
        "garbage",
    )
    bad_flags: ClassVar[Sequence[tuple[Sequence[str], str]]] = (
        (["--credentials-dir", "/nowhere"], "--credentials-dir /nowhere is no folder"),
        (["--endpoint-url", "ftp://x"], "--endpoint-url 'ftp://x' is no http"),
        (["--claims-file", "/nowhere/claims"], "--claims-file"),
        (["--bogus"], "--bogus"),
    )

    async def serve(self) -> None:
        """Serve ELBv2."""
        self.emulator = await self.stack.enter_async_context(
            Emulator.running(self.clock)
        )
        self.group = self._add("web")
        write_credentials(self.folder, OURS, self.emulator.keys[OURS].secret)

    def _add(self, name: str) -> EmulatedGroup:
        """Have another target group."""
        group = self.emulator.add(EmulatedGroup(self.clock, name))
        group.attributes[DELAY] = "0"
        return group

    @property
    def lb_info(self) -> dict[str, str]:
        """The target group."""
        return an_identity(self.group)

    @property
    def claims_file(self) -> str:
        """Where its drivers keep their claims."""
        return str(self.folder / "claims")

    def make(self) -> Elbv2Driver:
        """Return a driver."""
        settings = Settings(
            endpoint_url=self.emulator.url,
            credentials=self.folder,
            answering=PATIENT,
            attempts=1,
        )
        aws = Aws(settings, self.emulator.clock)
        claims = Claims(self.claims_file)
        fresh = timedelta(milliseconds=10)
        return Elbv2Driver(LoadBalancers(aws, claims, fresh=fresh), patience=PATIENT)

    async def state(self) -> State:
        """Return what the target is."""
        if KEY in self.group.owners:
            return State.IN
        return State.OUT if KEY in self.group.targets else State.ABSENT

    async def trace(self) -> object:
        """Return how often the driver has changed something."""
        changes = ("RegisterTargets", "DeregisterTargets")
        return [len(self.emulator.made(action)) for action in changes]

    async def left(self) -> Sequence[str]:
        """Return the driver's targets, in whatever group."""
        groups = self.emulator.groups.values()
        return [
            f"{one.name}: {key}"
            for one in groups
            for key, owner in one.owners.items()
            if owner != THEIRS
        ]

    async def remove(self) -> None:
        """Deregister the target."""
        self.group.deregister([Description(*KEY)])

    async def fresh(self) -> None:
        """Outlive the last reading."""
        self.clock.advance(timedelta(seconds=1))

    async def occupy(self, address: str) -> None:
        """Have a target of other people."""
        host, _, port = address.rpartition(":")
        self.emulator.register(self.group, (host, int(port)))

    async def strangers(self) -> object:
        """Return the targets of other people."""
        return {key for key, owner in self.group.owners.items() if owner == THEIRS}

    def subject(self, fault: str, operation: str, /) -> str:
        """Return the call of AWS, where the fault is that of one call."""
        return "" if fault == "credentials" else ACTIONS[operation]

    async def overlap(self) -> Overlap:
        """Return two target groups, one of them alone, and one with a third."""
        second, third = self._add("second"), self._add("third")
        return Overlap(
            an_identity(self.group, second),
            [an_identity(self.group), an_identity(self.group, third)],
            an_identity(second, self.group),
            {"adopt": "true"},
        )

    def fenced(self) -> Elbv2Driver:
        """Return a driver with a rule for the target group."""
        driver = self.make()
        driver.load_balancers.allowed = AllowedGroups(("*", "web=kube-system"))
        return driver

    async def begin(self, fault: str, operation: str, /) -> None:
        """Have it go wrong with the call that the operation cannot do without."""
        await self.fresh()
        action = ACTIONS[operation]
        if fault in ERRORS:
            self.emulator.fail(action, ERRORS[fault], LONG)
        elif fault in PAGES:
            self.emulator.babble(action, *PAGES[fault], LONG)
        else:
            key = self.emulator.keys[OURS]
            self.emulator.keys["ASIANEW"] = key
            self.emulator.keys[OURS] = attrs.evolve(key, expired=True)

    async def end(self, fault: str, /) -> None:
        """Have it end, and new credentials in the Secret."""
        self.emulator.faults.clear()
        self.clock.advance(timedelta(minutes=1))
        if fault == "credentials":
            secret = self.emulator.keys["ASIANEW"].secret
            write_credentials(self.folder, "ASIANEW", secret)

    def kit(self) -> dict[str, str]:
        """Have time pass quickly, and a drain that takes some."""
        self.group.clock = self.emulator.clock = FastClock()
        self.group.attributes[DELAY] = "5"
        return {"targetGroups": "web", "region": "eu-test-1"}


class ForgetfulRig(Elbv2Rig):
    """The same with claims in memory alone: what a driver has claimed ends with it."""

    claims_file = IN_MEMORY
