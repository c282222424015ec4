"""How far an operation on a member is; drivers make answers of it."""

import attrs

from lbcf.sdk import Succ


DRY_RUN = Succ(msg="dry run: nothing was changed")
"""The answer to a request that is only to be looked at."""


@attrs.frozen
class Finished:
    """Nothing is left to be done; `note` is for people and mostly empty."""

    note: str = ""


@attrs.frozen
class Unfinished:
    """It goes on, and is to be asked again.

    Attributes:
        connections: what is left on the member, as its load balancer counts.
        note: what is waited for.
    """

    connections: int
    note: str


Outcome = Finished | Unfinished
