"""A login that a device refused: it is not tried again at once, as some lock users out."""

from datetime import timedelta

import attrs

from lbcf.sdk import Clock
from webhooks.device.errors import DeviceError
from webhooks.device.secrets import Login


PAUSE = timedelta(seconds=60)
"""Between two logins that were refused; another Secret counts at once."""


@attrs.define(eq=False)
class RefusedLogin:
    """The last login that one device refused.

    Attributes:
        clock: for the pause.
    """

    clock: Clock
    _last: tuple[Login, float, DeviceError] | None = attrs.field(
        default=None, init=False
    )

    def note(self, login: Login, error: DeviceError) -> None:
        """Note that the device refuses a login."""
        until = self.clock.monotonic() + PAUSE.total_seconds()
        self._last = (login, until, error)

    def check(self, login: Login) -> None:
        """Refuse what the device refused a moment ago.

        Raises:
            DeviceError: the same as then.
        """
        if self._last is None:
            return
        refused, until, error = self._last
        if refused == login and self.clock.monotonic() < until:
            # It is raised by many: a trace of all of them would only grow.
            raise error.with_traceback(None)
