"""What can go wrong with an appliance, in one line each; drivers add their own.

    DeviceError
    |- InvalidInput     the request, or a flag, cannot be carried out; nothing was sent
    |- NoCredentials    a file of the Secret is missing or cannot be read
    |- Unreachable      nobody answers, or its certificate is not trusted
    |- NoAnswer         no whole answer in time
    |  `- Uncertain     the same, and a change was sent
    |- Busy             it cannot just now: come again
    |- Unreadable       it answered something that no manual describes
    `- Refused          it answered no

`webhooks.device.attempts` makes answers of the protocol of them: what comes again by
itself (`Busy`, `Uncertain`) is Running with the text as its message, all else is Fail.
"""

from datetime import timedelta


class DeviceError(Exception):
    """Something that is expected to go wrong, told in one line."""


class InvalidInput(DeviceError, ValueError):  # noqa: N818
    """A field of the request, or a flag, cannot be used; nothing was sent."""


class NoCredentials(DeviceError):  # noqa: N818
    """The driver was not given what it should show to the device."""


class Unreachable(DeviceError):  # noqa: N818  (adjectives say what is wrong)
    """No connection: nobody listens, or the certificate is not trusted."""


class NoAnswer(DeviceError):  # noqa: N818
    """No whole answer in time."""


class Uncertain(NoAnswer):
    """A change was sent and not answered: it may have, or still take, effect."""


class Busy(DeviceError):  # noqa: N818
    """The device, or what speaks for it, cannot just now.

    Attributes:
        retry_after: what the caller should wait at least; None: as drivers do.
    """

    def __init__(self, text: str, retry_after: timedelta | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class Unreadable(DeviceError):  # noqa: N818
    """The answer is not what the product's reference describes."""


class Refused(DeviceError):  # noqa: N818
    """The device answered no.

    Attributes:
        status: of HTTP.
        said: the device's own words; empty where it had none.
    """

    def __init__(self, text: str, status: int = 0, said: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.said = said
