"""The driver for tests: it pauses less, and looks each time that it is asked."""

from datetime import timedelta
from pathlib import Path

from lbcf.sdk import Clock, SystemClock
from tests.patience import PATIENT
from webhooks.device.connection import Limits
from webhooks.device.devices import AllowedDevices
from webhooks.device.flags import Ground
from webhooks.device.secrets import Secrets
from webhooks.device.trust import read_trust
from webhooks.f5.driver import F5Driver
from webhooks.f5.load_balancers import LoadBalancers
from webhooks.f5.units import Units, connect


NEVER = timedelta(hours=1)
"""A save period: only the driver's end saves."""


class HastyClock(SystemClock):
    """Pauses a twentieth of what it is asked to."""

    async def sleep(self, delay: timedelta) -> None:
        """Suspend the calling task for less than the delay."""
        await super().sleep(delay / 20)


def a_driver(
    secret: Path,
    *,
    save_period: timedelta = NEVER,
    look_period: timedelta = timedelta(),
    patience: timedelta = PATIENT,
    answer: timedelta = PATIENT,
    clock: Clock | None = None,
) -> F5Driver:
    """Return a driver of units on the loopback interface."""
    clock = clock or HastyClock()
    ground = Ground(
        allowed=AllowedDevices(("http://127.0.0.1:*", "https://127.0.0.1:*")),
        secrets=Secrets(secret),
        tls=read_trust(insecure=True),
        limits=Limits(patience=answer),
        save_period=save_period,
    )
    units = Units(lambda device: connect(device, ground, clock))
    found = LoadBalancers(ground.allowed, units, clock, look_period=look_period)
    return F5Driver(found, clock, patience)
