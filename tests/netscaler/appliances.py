"""Appliances on real sockets, and drivers that know the way to them.

Tests serve a unit or a pair for a block. All speak https with a certificate of the
run's own authority, as the driver wants it.
"""

import contextlib
import ssl

from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from pathlib import Path

import attrs
import trustme

from aiohttp import web

from lbcf.sdk import Clock, SystemClock
from tests.fakes.clock import EPOCH
from tests.netscaler.nitro import Nitro
from tests.netscaler.pair import HaPair
from tests.netscaler.unit import Unit
from tests.patience import PATIENT
from webhooks.device.connection import Limits
from webhooks.device.devices import AllowedDevices
from webhooks.device.flags import Ground
from webhooks.device.secrets import Secrets
from webhooks.device.trust import Trust
from webhooks.netscaler.driver import NetscalerDriver


GROUP = "web"

SOON = timedelta(milliseconds=50)
"""Between two saves of an appliance in tests."""


@attrs.define(eq=False)
class Served:
    """An appliance and where it is.

    Attributes:
        nitro: its management interface.
        url: of it.
    """

    nitro: Nitro
    url: str

    @property
    def unit(self) -> Unit:
        """The appliance behind it."""
        return self.nitro.unit


@attrs.define(eq=False)
class Site:
    """One or two appliances with a service group, and the way to them.

    Attributes:
        served: the appliances.
        secrets: folder with the driver's credentials.
        authority: of their certificates.
        pair: of two appliances.
        clock: of the drivers.
    """

    served: list[Served]
    secrets: Path
    authority: trustme.CA
    pair: HaPair | None = None
    clock: Clock = attrs.field(factory=SystemClock)

    @property
    def unit(self) -> Unit:
        """The primary."""
        return self.pair.primary if self.pair else self.served[0].unit

    @property
    def nitro(self) -> Nitro:
        """The management interface of the first appliance."""
        return self.served[0].nitro

    @property
    def lb_info(self) -> dict[str, str]:
        """The identity of the load balancer that these are."""
        devices = ",".join(one.url for one in self.served)
        return {"devices": devices, "serviceGroup": GROUP}

    def driver(
        self,
        save_period: timedelta = SOON,
        answer: timedelta = PATIENT,
        look_period: timedelta = timedelta(),
    ) -> NetscalerDriver:
        """Return a driver that has never done anything; it looks each time it is asked."""
        tls = ssl.create_default_context()
        self.authority.configure_trust(tls)
        ground = Ground(
            allowed=AllowedDevices(tuple(one.url for one in self.served)),
            secrets=Secrets(self.secrets),
            tls=Trust(tls),
            limits=Limits(connect=PATIENT, patience=answer),
            save_period=save_period,
        )
        return NetscalerDriver(
            ground, clock=self.clock, patience=PATIENT, look_period=look_period
        )


class SteppedClock(SystemClock):
    """A clock that stands still until it is advanced; who sleeps does so in real time.

    Attributes:
        seconds: since its beginning.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        """Return the moment."""
        return EPOCH + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        """Return the seconds."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds


def a_unit(clock: Callable[[], float]) -> Unit:
    """Return an appliance with a service group, saved."""
    unit = Unit(clock)
    unit.running.groups += [GROUP, "other"]
    unit.save()
    unit.saves = 0
    return unit


def write_login(folder: Path, username: str = "lbcf", password: str = "secret") -> None:  # noqa: S107
    """Write the files of the Secret."""
    (folder / "username").write_text(f"{username}\n")
    (folder / "password").write_text(f"{password}\n")


@contextlib.asynccontextmanager
async def serving(
    unit: Unit, authority: trustme.CA | None = None
) -> AsyncIterator[Served]:
    """Serve an appliance for a block; without an authority by http."""
    context = None
    if authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
    nitro = Nitro(unit)
    runner = web.AppRunner(
        nitro.application(), shutdown_timeout=0, handler_cancellation=True
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        scheme = "https" if context else "http"
        yield Served(nitro, f"{scheme}://127.0.0.1:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def a_site(
    folder: Path, authority: trustme.CA, units: int = 1, clock: Clock | None = None
) -> AsyncIterator[Site]:
    """Serve one appliance, or a pair, for a block."""
    write_login(folder)
    clock = clock or SystemClock()
    made = [a_unit(clock.monotonic) for _ in range(units)]
    pair = HaPair(made[0], made[1]) if units > 1 else None
    async with contextlib.AsyncExitStack() as stack:
        served = [
            await stack.enter_async_context(serving(unit, authority)) for unit in made
        ]
        yield Site(served, folder, authority, pair, clock)
