"""A driver that dies at its n-th line to HAProxy, before or after it was sent."""

from collections.abc import Iterator

import attrs

from tests.haproxy.conftest import HERE, patient
from webhooks.haproxy.connection import Limits
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.endpoints import Endpoint
from webhooks.haproxy.runtime_api import RuntimeApi


class Crashed(BaseException):
    """The end of the process, as far as one process can show it."""


@attrs.define
class Fuse:
    """Says when to die.

    Attributes:
        lines: how many lines are sent before that.
        sent: whether the fatal line still goes out.
        blown: whether it has happened.
    """

    lines: int
    sent: bool
    blown: bool = False


@attrs.define(eq=False)
class CrashingApi(RuntimeApi):
    """The real client of a real HAProxy, until the fuse blows."""

    fuse: Fuse = attrs.field(kw_only=True)

    async def ask(self, line: str) -> str:
        """Send the line, or die."""
        self.fuse.lines -= 1
        if self.fuse.lines >= 0:
            return await super().ask(line)
        self.fuse.blown = True
        if self.fuse.sent:
            await super().ask(line)
        raise Crashed


def a_crashing_driver(fuse: Fuse) -> HaproxyDriver:
    """Return a driver that dies when the fuse blows."""

    def connect(endpoint: Endpoint, limits: Limits) -> RuntimeApi:
        return CrashingApi(endpoint, limits, fuse=fuse)

    return patient(HaproxyDriver, connect=connect, addresses=HERE)


def fuses() -> Iterator[Fuse]:
    """Return a fuse for each line, before and after it; ends when asked to stop."""
    lines = 0
    while True:
        for sent in (False, True):
            yield Fuse(lines, sent)
        lines += 1
