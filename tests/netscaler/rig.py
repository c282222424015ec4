"""The Citrix driver in the suite of all drivers: an emulated appliance with a group."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import ClassVar

import attrs
import trustme

from aiohttp import web

from tests.f5.drivers import HastyClock
from tests.netscaler.appliances import GROUP, Site, a_site, write_login
from tests.netscaler.configuration import Configuration, Member
from tests.netscaler.errors import NOT_AUTHORIZED, SESSION_EXPIRED, NitroRefusal
from tests.netscaler.nitro import Heard, Trouble, busy, html, refused
from tests.netscaler.test_life import KEY
from tests.webhooks.rig import Overlap, Rig, State
from webhooks.device.devices import AllowedDevices
from webhooks.netscaler.driver import NetscalerDriver


AUTHORITY = trustme.CA()

LONG = 10**6
"""Requests that a fault lasts for; the test ends it."""


def _refusing(code: int, text: str) -> Callable[[], web.Response]:
    """Return what answers with an error of NITRO."""
    return lambda: refused(NitroRefusal(code, text))


ANSWERS: Mapping[str, Callable[[], web.Response] | None] = {
    "busy": busy,
    "page-503": html,
    "page-404": lambda: html(404),
    "page-200": lambda: html(200),
    "hangs-up": None,
    "session": _refusing(SESSION_EXPIRED, "Session expired or killed. Log in again"),
    "policy": _refusing(NOT_AUTHORIZED, "Not authorized to execute this command"),
}
"""What is answered to each request but logins."""


def _but_logins(heard: Heard) -> bool:
    """Tell whether a request is more than a login."""
    return heard.resource not in {"login", "logout"}


@attrs.define(eq=False)
class NetscalerRig(Rig):
    """The driver and an appliance, or a pair.

    Attributes:
        site: the appliances, and the way to them.
    """

    site: Site = attrs.field(init=False)

    module = "webhooks.netscaler"
    has_sessions = True
    gone: ClassVar[Mapping[str, str]] = {"serviceGroup": "nowhere"}
    no_pool = "there is no service group nowhere on https://127"
    taken = "is in service group web already, bound by somebody else: unbind it"
    superseded = "left alone: .* is that of lbcf-new"
    valid_parameters: ClassVar[Mapping[str, str]] = {"weight": "3"}
    not_offered: ClassVar[set[str]] = {
        "both-spellings",
        "judged-pods-were-asked-for",
        "records-share-an-address",
        "deregister-by-name-alone",
    }
    faults: ClassVar[Mapping[str, str]] = {
        "busy": "is busy: error 293, 'Operation already in progress'",
        "page-503": "HTTP 503 without NITRO .'Error Not now'.: is its management",
        "page-404": "HTTP 404 without NITRO",
        "page-200": "HTTP 200 without NITRO",
        "hangs-up": "hung up .*: is it overloaded, or restarting",
        "session": "error 444, .*: the session does not last: is somebody ending it",
        "policy": "error 2138, .*: give the driver's user a command policy",
        "password": "error 354, .*: put the right username and password",
    }
    passing: ClassVar[Collection[str]] = ("busy", "page-503")
    bad_flags: ClassVar[Sequence[tuple[Sequence[str], str]]] = tuple(
        (["--allow-devices=https://adc", "--credentials=/tmp", *flags], text)
        for flags, text in (
            (["--name-prefix", "a-b"], "name prefix 'a-b'"),
            (["--bogus"], "--bogus"),
        )
    )

    async def serve(self) -> None:
        """Serve an appliance, whose drivers do not pause for long."""
        self.site = await self.stack.enter_async_context(
            a_site(self.folder, AUTHORITY, clock=HastyClock())
        )

    @property
    def lb_info(self) -> dict[str, str]:
        """The service group on the appliances."""
        return self.site.lb_info

    def make(self) -> NetscalerDriver:
        """Return a driver."""
        return self.site.driver()

    async def state(self) -> State:
        """Return what the member is."""
        member = self.site.unit.running.members.get(KEY)
        if member is None:
            return State.ABSENT
        return State.IN if member.state == "ENABLED" else State.OUT

    async def trace(self) -> object:
        """Return how many changes the appliances were asked for."""
        return [len(one.nitro.changes()) for one in self.site.served]

    async def left(self) -> Sequence[str]:
        """Return members and server objects of the driver's."""
        running = self.site.unit.running
        members = running.members.values()
        return [
            *(
                str(one.key)
                for one in members
                if one.customserverid.startswith("lbcf-")
            ),
            *(name for name, one in running.servers.items() if "lbcf" in one.comment),
        ]

    async def remove(self) -> None:
        """Unbind the member; its server object stays."""
        self.site.unit.change(lambda config: config.members.clear())

    async def occupy(self, address: str) -> None:
        """Have a member at a server object of theirs."""
        host, _, port = address.rpartition(":")

        def bind(configuration: Configuration) -> None:
            configuration.add_server(f"theirs-{host}", host, "do not touch")
            member = Member(GROUP, f"theirs-{host}", "", int(port), 3, "None")
            configuration.bind(member)

        self.site.unit.change(bind)

    async def strangers(self) -> object:
        """Return members and server objects of others."""
        running = self.site.unit.running.copy()
        ours = await self.left()
        members = {str(key): one for key, one in running.members.items()}
        return {k: v for k, v in (members | running.servers).items() if k not in ours}

    async def overlap(self) -> Overlap:
        """Return a pair, and its primary alone."""
        self.site = await self.stack.enter_async_context(
            a_site(self.folder, AUTHORITY, units=2)
        )
        devices = [one.url for one in self.site.served]
        return Overlap(
            self.lb_info,
            [self.lb_info | {"devices": devices[0]}],
            self.lb_info | {"devices": ",".join(reversed(devices))},
        )

    def fenced(self) -> NetscalerDriver:
        """Return a driver with a rule for the appliance."""
        ground = self.make().ground
        allowed = AllowedDevices((f"{self.site.served[0].url}=kube-system",))
        return NetscalerDriver(attrs.evolve(ground, allowed=allowed))

    def end_sessions(self) -> None:
        """Forget all sessions."""
        self.site.unit.sessions.clear()

    def logins(self) -> int:
        """Return how many sessions were asked for."""
        return [one.resource for one in self.site.nitro.heard].count("login")

    async def begin(self, fault: str, _operation: str, /) -> None:
        """Have it go wrong, whatever the operation."""
        if fault == "password":
            self.site.unit.password = "another"  # noqa: S105  (nobody's)
            self.site.unit.sessions.clear()
        else:
            trouble = Trouble(ANSWERS[fault], LONG, _but_logins)
            self.site.nitro.troubles.append(trouble)

    async def end(self, _fault: str, /) -> None:
        """Have it end."""
        self.site.nitro.troubles.clear()
        write_login(self.folder, password=self.site.unit.password)

    def connector(self) -> Callable[[str, str, int], Awaitable[None]]:
        """Return what gives a member connections that do not end."""

        async def connect(address: str, _record: str, number: int) -> None:
            host, _, port = address.rpartition(":")
            unit = self.site.unit
            for member in unit.running.members.values():
                if (member.ip, str(member.port)) == (host, port):
                    unit.traffic.finish(member.key)
                    for _ in range(number):
                        unit.traffic.open(member.key, 3600)

        return connect
