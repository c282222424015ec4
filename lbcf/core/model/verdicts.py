"""Whether a backend may be registered, and what a driver says of pods that are not ready."""

from collections.abc import Mapping

import attrs

from lbcf.core.model.values import Uid
from lbcf.core.reasons import Explanation


@attrs.frozen
class Eligible:
    """It may be registered, and stays so."""


@attrs.frozen
class Ineligible(Explanation):
    """It must not be registered.

    Attributes:
        by_readiness: nothing but readiness asks for it; guards may hold it.
    """

    by_readiness: bool = False


@attrs.frozen
class Undecided(Explanation):
    """Neither registered if it is out, nor deregistered if it is in."""


Verdict = Eligible | Ineligible | Undecided


@attrs.frozen
class WebhookDecision:
    """What the driver of deregisterWebhook decides about pods that are not ready.

    Attributes:
        verdicts: by the uid of the pod.
        trouble: why the driver gave no answer; None: it gave one, or was not asked yet.
    """

    verdicts: Mapping[Uid, Ineligible | Undecided] = attrs.Factory(dict)
    trouble: Explanation | None = None
