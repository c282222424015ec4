"""The Secrets that secure the calls of a driver.

`lbcf.kube.secrets` follows those that a LoadBalancerDriver names; `lbcf.drivers.access`
makes connections with them.
"""

from collections.abc import Mapping
from enum import Enum, auto

import attrs

from lbcf.core.model.resources import Meta


@attrs.frozen
class Secret:
    """The fields of a Secret that calls of drivers need.

    Attributes:
        kind: its `type`, such as `kubernetes.io/tls`.
        values: by key; never shown.
    """

    meta: Meta
    kind: str
    values: Mapping[str, bytes] = attrs.field(repr=False)


class Lack(Enum):
    """Why a Secret cannot be used."""

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
