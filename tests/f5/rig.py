"""The F5 driver in the suite of all drivers: an emulated unit with the pool /Common/web."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import attrs

from tests.f5.drivers import a_driver
from tests.f5.requests import MEMBER, WEB, an_identity
from tests.f5.server import GROUP, PASSWORD, USER, Bigip, a_bigip, a_pair
from tests.webhooks.rig import Overlap, Rig, State
from webhooks.device.devices import AllowedDevices
from webhooks.f5.driver import F5Driver


def write_login(folder: Path, password: str = PASSWORD) -> None:
    """Write the files of a mounted Secret."""
    (folder / "username").write_text(USER)
    (folder / "password").write_text(password)


@attrs.define(eq=False)
class F5Rig(Rig):
    """The driver and a unit.

    Attributes:
        bigip: the unit, the active one where there are two.
    """

    bigip: Bigip = attrs.field(init=False)

    module = "webhooks.f5"
    has_sessions = True
    gone: ClassVar[Mapping[str, str]] = {"pool": "/Common/nowhere"}
    no_pool = "no pool /Common/nowhere: make it"
    taken = r"'theirs'.*take it out by hand"
    left_alone = "left alone"
    valid_parameters: ClassVar[Mapping[str, str]] = {"ratio": "2"}
    not_offered: ClassVar[set[str]] = {
        "both-spellings",
        "judged-pods-were-asked-for",
        "records-share-an-address",
        "deregister-by-name-alone",
    }
    faults: ClassVar[Mapping[str, str]] = {
        "busy": r"is busy \(HTTP 503\): There is an active asynchronous task executing",
        "page-503": r"is busy \(HTTP 503\): '503 Starting up'",
        "page-404": r"HTTP 404\): '503 Start",
        "page-200": r"HTTP 200\): '503 Start",
        "down": "cannot be reached",
        "password": "check username and password in the driver's Secret",
        "tokens": "maximum active login tokens; waiting for some to expire",
    }
    passing: ClassVar[Collection[str]] = (
        "busy",
        "page-503",
        "page-404",
        "page-200",
        "tokens",
    )
    bad_flags: ClassVar[Sequence[tuple[Sequence[str], str]]] = (
        ([], "--allow-devices"),
        (["--allow-devices=10.1.1.1", "--credentials=/nowhere"], "is not a folder"),
        (["--allow-devices=a/b", "--credentials=/tmp"], "write https://HOST"),
    )

    async def serve(self) -> None:
        """Serve a unit."""
        write_login(self.folder)
        self.bigip = await self.stack.enter_async_context(a_bigip())

    @property
    def lb_info(self) -> dict[str, str]:
        """The pool on the unit."""
        return an_identity(self.bigip)

    def make(self) -> F5Driver:
        """Return a driver."""
        return a_driver(self.folder)

    async def state(self) -> State:
        """Return what the member is."""
        if MEMBER not in self.bigip.unit.running.pool(WEB).members:
            return State.ABSENT
        session = self.bigip.unit.member(WEB, MEMBER)["session"]
        return State.IN if session == "user-enabled" else State.OUT

    async def trace(self) -> object:
        """Return the generation, which each change raises."""
        return self.bigip.unit.running.generation

    async def left(self) -> Sequence[str]:
        """Return members and nodes of the driver's."""
        return [one for one, said in self._there().items() if said.startswith("lbcf:")]

    def _there(self) -> dict[str, str]:
        """Return what is written on all members and nodes."""
        running = self.bigip.unit.running
        members = running.pool(WEB).members.values()
        found = {one.path: str(one.fields.get("description", "")) for one in members}
        return found | {one.path: one.description for one in running.nodes.values()}

    async def remove(self) -> None:
        """Take the member out; its node stays."""
        self.bigip.unit.remove_member(WEB, MEMBER)

    async def occupy(self, address: str) -> None:
        """Have a member that says whose it is."""
        body = {"name": address, "description": "theirs"}
        self.bigip.unit.running.add_member(WEB, body)

    async def strangers(self) -> object:
        """Return members and nodes of others."""
        running, ours = self.bigip.unit.running, await self.left()
        found = running.pool(WEB).members | running.nodes
        return {
            path: attrs.asdict(one) for path, one in found.items() if path not in ours
        }

    async def overlap(self) -> Overlap:
        """Return a pair, its active unit alone, and that with a device group."""
        pair = await self.stack.enter_async_context(a_pair())
        self.bigip = pair[0]
        return Overlap(
            an_identity(*pair),
            [an_identity(pair[0]), an_identity(pair[0], syncGroup=GROUP)],
            an_identity(*reversed(pair), syncGroup=GROUP),
        )

    def fenced(self) -> F5Driver:
        """Return a driver with a rule for the unit."""
        driver = self.make()
        rule = f"{self.bigip.url}=kube-system"
        driver.load_balancers.allowed = AllowedDevices((rule,))
        return driver

    def end_sessions(self) -> None:
        """Forget all tokens."""
        self.bigip.tokens.clear()

    def logins(self) -> int:
        """Return how many tokens were asked for."""
        return self.bigip.seen.count("POST /mgmt/shared/authn/login")

    async def begin(self, fault: str, _operation: str, /) -> None:
        """Have it go wrong, whatever the operation."""
        match fault:
            case "busy":
                self.bigip.faults.busy = 99
            case "down":
                await self.bigip.stop()
            case "password":
                self.bigip.password = "another"  # noqa: S105  (nobody's)
                self.bigip.tokens.clear()
            case "tokens":
                self.bigip.tokens = {f"T{number}": "lbcf" for number in range(100)}
            case page:
                self.bigip.faults.pages = 99
                self.bigip.faults.page_status = int(page.removeprefix("page-"))

    async def end(self, fault: str, /) -> None:
        """Have it end."""
        match fault:
            case "down":
                await self.bigip.start()
            case "password":
                write_login(self.folder, self.bigip.password)
            case "tokens":
                self.bigip.tokens.clear()
            case _:
                self.bigip.faults.busy = self.bigip.faults.pages = 0

    def connector(self) -> Callable[[str, str, int], Awaitable[None]]:
        """Return what sets the number of a member's connections."""

        async def connect(address: str, _record: str, number: int) -> None:
            self.bigip.unit.connections[WEB, f"/Common/{address}"] = number

        return connect
