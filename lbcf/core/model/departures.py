"""What is remembered of a registration that has ended, for a day."""

from datetime import datetime
from enum import StrEnum

import attrs

from lbcf.core.reasons import ConditionReason


class Outcome(StrEnum):
    """How the registration of a backend ended.

    Attributes:
        DRAINED: its drain was over before its deadline: nothing was left.
        CUT: its drain came to its deadline; connections that were open were cut.
        BACKEND_GONE: the backend did not exist any more before its drain was over.
        NOT_DRAINED: no drain was asked for, or its driver has none.
        NEVER_REGISTERED: its record had no address yet: no driver was ever called.
        ABANDONED: its record was released by a person's order, without a proof.
        UNKNOWN: what was seen of its record does not say.
    """

    DRAINED = "Drained"
    CUT = "Cut"
    BACKEND_GONE = "BackendGone"
    NOT_DRAINED = "NotDrained"
    NEVER_REGISTERED = "NeverRegistered"
    ABANDONED = "Abandoned"
    UNKNOWN = "Unknown"


@attrs.frozen
class Departure:
    """One registration that has ended.

    Attributes:
        backend: with its port: `web-1:80`.
        load_balancer: that it was registered at.
        record: the name that its BackendRecord had.
        time: when the record was seen to be gone, in whole seconds.
        outcome: how it ended.
        reason: why the controller deleted the record; None: not known, as where
            somebody else deleted it.
        connections: of a drain that was cut, or whose backend was gone: as the driver
            last counted them; None: not known.
    """

    backend: str
    load_balancer: str
    record: str
    time: datetime
    outcome: Outcome
    reason: ConditionReason | None = None
    connections: int | None = None
