"""The HAProxy driver in the suite of all drivers, with members by name and in slots."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
import pytest

from lbcf.sdk import BackendState, MemberKey
from tests.haproxy.conftest import HERE, patient
from tests.haproxy.proxy import Haproxy
from tests.haproxy.relay import Relay, Spoil, cut, honest, nothing
from tests.haproxy.requests import NO_CHECK, an_identity
from tests.haproxy.waiting import until
from tests.webhooks.requests import RECORD
from tests.webhooks.rig import Overlap, Rig, State
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.endpoints import AllowedEndpoints
from webhooks.haproxy.members import SlotName
from webhooks.haproxy.slot_driver import SlotDriver
from webhooks.haproxy.slots import FREE


PAGE = b"HTTP/1.1 400 Bad request\r\n\r\n<html><body>Bad request</body></html>\n"
STRANGERS: Mapping[str, bytes] = {"page": PAGE, "garbage": b"\x00\xff{]\n"}
"""What is answered by somebody who is no HAProxy."""

SPOILT: Mapping[str, Spoil] = {"nothing": nothing, "cut": cut}
"""What becomes of HAProxy's answers."""

READABLE = "answered cannot be read .*: is it HAProxy 2.6 or newer that listens there"

CONFIGURED = 4
"""Admin state of a server that is `disabled` in the configuration, whatever came later."""


@attrs.define(eq=False)
class HaproxyRig(Rig):
    """The driver and a HAProxy, or several.

    Attributes:
        proxies: those that run; the first is the load balancer.
        relay: what is between the driver and that one.
    """

    proxies: list[Haproxy] = attrs.field(factory=list, init=False)
    relay: Relay = attrs.field(init=False)

    marks: ClassVar[Sequence[pytest.MarkDecorator]] = (pytest.mark.haproxy,)
    kind: ClassVar[type[HaproxyDriver]] = HaproxyDriver
    backend: ClassVar[str] = "web"
    module = "webhooks.haproxy"
    address = "127.0.1.1:80"
    parameters: ClassVar[Mapping[str, str]] = NO_CHECK
    valid_parameters: ClassVar[Mapping[str, str]] = NO_CHECK
    gone: ClassVar[Mapping[str, str]] = {"backend": "nowhere"}
    no_pool = "no backend of that name"
    taken = ""
    member_key = MemberKey.RECORD
    replaces_records = False
    not_offered: ClassVar[set[str]] = {
        "both-spellings",
        "judged-pods-were-asked-for",
        "drain-waits-for-connections",
    }
    faults: ClassVar[Mapping[str, str]] = {
        "refused": "cannot be reached .*: is it running",
        "page": READABLE,
        "garbage": READABLE,
        "nothing": "hung up without an answer",
        "cut": "hung up in the middle of an answer",
    }
    bad_flags: ClassVar[Sequence[tuple[Sequence[str], str]]] = (
        (["--name-prefix", "a-b"], "name prefix 'a-b'"),
        (["--name-prefix", ""], "name prefix ''"),
        (["--command-timeout", "0"], "--command-timeout 0 is not"),
        (["--command-timeout", "soon"], "--command-timeout"),
        (["--bogus"], "--bogus"),
    )

    async def serve(self) -> None:
        """Start a HAProxy, and what is in front of its socket."""
        self.relay = await self.stack.enter_async_context(
            Relay.running(await self._start())
        )

    async def _start(self) -> Haproxy:
        """Start a HAProxy."""
        self.proxies.append(await self.stack.enter_async_context(Haproxy.running()))
        return self.proxies[-1]

    @property
    def lb_info(self) -> dict[str, str]:
        """The backend, by way of what is in between."""
        return {"sockets": self.relay.path, "backend": self.backend}

    def make(self) -> HaproxyDriver:
        """Return a driver."""
        return patient(self.kind, addresses=HERE)

    def closed(self) -> HaproxyDriver:
        """Return a driver for members that are not on this machine."""
        return patient(self.kind)

    async def _row(self) -> Mapping[str, str] | None:
        """Return the member's row, where it is there."""
        return (await self.proxies[0].rows()).get(f"lbcf-{RECORD}")

    async def state(self) -> State:
        """Return what the member is."""
        row = await self._row()
        if row is None:
            return State.ABSENT
        is_in = int(row["srv_admin_state"]) in {0, CONFIGURED}
        return State.IN if is_in else State.OUT

    async def trace(self) -> object:
        """Return all servers."""
        return await self.proxies[0].rows(self.backend)

    async def left(self) -> Sequence[str]:
        """Return the servers of the driver's."""
        return [name for proxy in self.proxies for name in await proxy.ours()]

    async def remove(self) -> None:
        """Delete the server."""
        server = f"web/lbcf-{RECORD}"
        await self.proxies[0].ask(f"set server {server} state maint")

        async def is_gone() -> bool:
            return "Server deleted" in await self.proxies[0].ask(f"del server {server}")

        await until(is_gone)

    async def occupy(self, address: str) -> None:
        """Do nothing: the backend has servers of others, and addresses are free."""

    async def strangers(self) -> object:
        """Return the servers of other people."""
        return await self.proxies[0].foreign()

    def subject(self, _fault: str, _operation: str, /) -> str:
        """Return the socket."""
        return self.relay.path

    async def overlap(self) -> Overlap:
        """Return two HAProxys, one of them alone, and one with a third."""
        one, two, three = self.proxies[0], await self._start(), await self._start()
        return Overlap(
            an_identity(one, two, backend=self.backend),
            [
                an_identity(one, backend=self.backend),
                an_identity(three, one, backend=self.backend),
            ],
            an_identity(two, one, backend=self.backend) | {"dynamicCookies": "true"},
        )

    def fenced(self) -> HaproxyDriver:
        """Return a driver with a rule for the socket."""
        rule = f"{self.relay.path}=kube-system"
        allowed = AllowedEndpoints(("/tmp/*/*.sock", rule))
        return patient(self.kind, allowed, addresses=HERE)

    async def begin(self, fault: str, _operation: str, /) -> None:
        """Have it go wrong with each command."""
        self.relay.spoil = SPOILT.get(fault, honest)
        self.relay.stranger = STRANGERS.get(fault)
        if fault == "refused":
            await self.relay.refuse()

    async def end(self, _fault: str, /) -> None:
        """Have it end."""
        self.relay.spoil, self.relay.stranger = honest, None
        await self.relay.listen()


@attrs.define(eq=False)
class SlotsRig(HaproxyRig):
    """The driver for backends that take no servers at run time."""

    kind: ClassVar[type[HaproxyDriver]] = SlotDriver
    backend: ClassVar[str] = "slots"
    parameters: ClassVar[Mapping[str, str]] = {}
    valid_parameters: ClassVar[Mapping[str, str]] = {}
    member_key = MemberKey.ADDRESS
    names_records = False
    unchecked = BackendState.DOWN
    is_shared = False
    replaces_records = True
    faults: ClassVar[Mapping[str, str]] = {}
    bad_flags: ClassVar[Sequence[tuple[Sequence[str], str]]] = ()
    not_offered: ClassVar[set[str]] = {
        "both-spellings",
        "judged-pods-were-asked-for",
        "records-share-an-address",
        "deregister-by-name-alone",
        "drain-waits-for-connections",
    }

    async def _slots(self, proxy: Haproxy, backend: str) -> dict[str, str]:
        """Return where the slots are that somebody has."""
        places = {
            name: f"{row['srv_addr']}:{row['srv_port']}"
            for name, row in (await proxy.rows(backend)).items()
            if SlotName.of_server("lbcf", name)
        }
        return {name: one for name, one in places.items() if one != str(FREE)}

    async def _row(self) -> Mapping[str, str] | None:
        """Return the row of the slot at the member's address, if there is one."""
        rows = await self.proxies[0].rows("slots")
        places = await self._slots(self.proxies[0], "slots")
        return next((rows[n] for n, at in places.items() if at == self.address), None)

    async def left(self) -> Sequence[str]:
        """Return where slots are."""
        found = [
            await self._slots(proxy, backend)
            for proxy in self.proxies
            for backend in ("slots", "many")
        ]
        return [place for places in found for place in places.values()]

    async def remove(self) -> None:
        """Free the slot."""
        for name in await self._slots(self.proxies[0], "slots"):
            for word in ("state maint", f"addr {FREE.ip} port {FREE.port}"):
                await self.proxies[0].ask(f"set server slots/{name} {word}")

    async def strangers(self) -> object:
        """Return the servers of other people in the backend with slots."""
        rows = await self.proxies[0].rows("slots")
        return {name: rows[name] for name in ("foreign-1", "lbcf.x")}

    def kit(self) -> dict[str, str]:
        """Return the backend with many slots."""
        return self.lb_info | {"backend": "many"}
