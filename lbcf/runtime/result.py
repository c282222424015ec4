"""What a reconcile function answers to the worker that called it.

To come again is an answer, not an error: so a count of failures means something.
"""

from datetime import timedelta

import attrs


@attrs.frozen
class Done:
    """All is as it should be; look again when something changes."""


@attrs.frozen
class RequeueAfter:
    """All went well, and there will be something to do later.

    Attributes:
        delay: how long to wait; a change of the key ends the wait early.
    """

    delay: timedelta


@attrs.frozen
class Failed:
    """It did not work; try again with backoff.

    Attributes:
        error: what happened, to what; goes into the log.
        at_least: the wait that the other side asked for, if it did.
    """

    error: Exception
    at_least: timedelta | None = None


Result = Done | RequeueAfter | Failed
