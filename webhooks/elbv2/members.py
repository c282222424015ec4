"""What a target group is asked about, and what it answers.

`driver` makes members of requests, `group` answers with outcomes and listings,
`balancer` joins those of several target groups.
"""

from collections.abc import Mapping

import attrs

from webhooks.elbv2.parameters import Options
from webhooks.elbv2.targets import Health, Target
from webhooks.shared.identity import Owner
from webhooks.shared.outcomes import Finished


@attrs.frozen
class Unfinished:
    """It goes on, and is to be asked again; `note` says what is waited for."""

    note: str


Outcome = Finished | Unfinished


@attrs.frozen
class Member:
    """A target as it should be.

    Attributes:
        target: id and port.
        owner: whose it is.
        options: what the record's parameters say.
        proven: the record brings back the proof that this driver put it there.
    """

    target: Target
    owner: Owner
    options: Options = attrs.field(factory=Options)
    proven: bool = False


@attrs.frozen
class Listing:
    """Our targets in one target group.

    Attributes:
        losses: how often somebody else took out what is ours.
        targets: how each is that is in or draining.
        records: the record of each.
    """

    losses: int
    targets: Mapping[Target, Health]
    records: Mapping[Target, str]
