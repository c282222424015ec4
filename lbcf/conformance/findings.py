"""What a rule finds: exchanges with the driver, and the outcome that they cause.

LbcfError
`- Finding
   |- Broken          the driver does not keep to the rule
   |- Noted           worth knowing, but allowed
   `- NotApplicable   the rule is not about this driver
"""

# ruff: noqa: N818 - the names say how the rule ended

from enum import StrEnum
from typing import ClassVar

import attrs

from lbcf.core.errors import LbcfError


class Outcome(StrEnum):
    """How a rule ended; only FAILED speaks against the driver."""

    PASSED = "passed"
    FAILED = "failed"
    NOTED = "noted"
    NOT_APPLICABLE = "not applicable"


@attrs.frozen
class Exchange:
    """A request and what came back.

    Attributes:
        operation: the last part of the URL.
        request: the body that was sent.
        status: of HTTP; None: no whole answer came.
        answer: the body that came, cut after a little over 8 MiB.
        trouble: why there is no answer; empty where there is one.
        seconds: from sending to the last byte.
    """

    operation: str
    request: bytes
    status: int | None = None
    answer: bytes = b""
    trouble: str = ""
    seconds: float = 0.0

    @property
    def is_answered(self) -> bool:
        """Return whether there is a 200, whatever its body says."""
        return self.status == 200  # noqa: PLR2004  (the only good status)

    def described(self) -> str:
        """Return what came back in one line."""
        if self.status is None:
            return self.trouble
        return f"HTTP {self.status} {self.answer.decode(errors='replace')}"


class Finding(LbcfError):
    """The end of a rule that did not simply pass.

    Attributes:
        text: what was seen and what was expected.
        exchange: what showed it; None where nothing was sent.
    """

    outcome: ClassVar[Outcome]

    def __init__(self, text: str, exchange: Exchange | None = None) -> None:
        self.text = text
        self.exchange = exchange
        super().__init__(text)


class Broken(Finding):
    """The driver does not keep to the rule."""

    outcome = Outcome.FAILED


class Noted(Finding):
    """Allowed, but its author may want to know."""

    outcome = Outcome.NOTED


class NotApplicable(Finding):
    """The rule is about something that this driver does not offer."""

    outcome = Outcome.NOT_APPLICABLE
