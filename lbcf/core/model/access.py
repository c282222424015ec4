"""How the calls of a driver are secured: whom we trust, and what shows who we are.

`lbcf.wire.resources` reads it from a LoadBalancerDriver, `lbcf.kube.secrets` follows
the Secrets that it names, `lbcf.drivers.access` makes connections of both.
"""

from collections.abc import Mapping
from enum import Enum, auto

import attrs

from lbcf.core.model.resources import Meta


@attrs.frozen
class Secret:
    """A Secret, as far as drivers need it.

    Attributes:
        kind: its `type`, such as `kubernetes.io/tls`.
        values: by key; never shown.
    """

    meta: Meta
    kind: str
    values: Mapping[str, bytes] = attrs.field(repr=False)


class Lack(Enum):
    """Why there is no Secret to be had."""

    MISSING = auto()
    """There is none of that name."""
    UNREAD = auto()
    """It has not been read yet, or cannot be."""


@attrs.frozen
class NoSecret:
    """A Secret that cannot be used now.

    Attributes:
        lack: why.
        text: what the API server said; empty where it has not answered yet.
    """

    lack: Lack
    text: str = ""
