"""When a self-made serving certificate, and the authority behind it, are made anew.

Before it: what the shared Secret holds. After it: `lbcf.admission.authority` makes what
is missing. An authority is replaced in two steps, a round apart: first its certificate
is published beside the old one's, then it signs. So nobody ever meets a certificate of
an authority that was not made known before.
"""

from collections.abc import Collection
from datetime import datetime
from enum import Enum, auto

import attrs


_USED = 2 / 3
"""The part of its life after which a certificate is replaced: there is a third left to
find out why that does not work."""


@attrs.frozen
class Validity:
    """From when until when a certificate is good."""

    begin: datetime
    end: datetime

    def is_due(self, now: datetime) -> bool:
        """Tell whether it is to be replaced, or is not good at all."""
        due = self.begin + (self.end - self.begin) * _USED
        return not self.begin <= now < due


@attrs.frozen
class Held:
    """What the Secret holds, as far as it can be used.

    Attributes:
        authority: of the one that signs; None where there is none.
        leaf: of the serving certificate; None where there is none.
        leaf_names: the names that it is for.
        is_signed: the present authority has signed the serving certificate.
    """

    authority: Validity | None = None
    leaf: Validity | None = None
    leaf_names: Collection[str] = ()
    is_signed: bool = False


class Renewal(Enum):
    """What is to be made."""

    NOTHING = auto()
    AUTHORITY = auto()
    LEAF = auto()
    BOTH = auto()


def renewal_of(held: Held, names: Collection[str], now: datetime) -> Renewal:
    """Say what is to be made; `names` is what the certificate must be good for."""
    if held.leaf is None or held.authority is None:
        return Renewal.BOTH if held.authority is None else Renewal.LEAF
    if held.authority.is_due(now):
        is_over = now >= held.authority.end
        return Renewal.BOTH if is_over else Renewal.AUTHORITY
    current = held.is_signed and set(names) <= set(held.leaf_names)
    return Renewal.NOTHING if current and not held.leaf.is_due(now) else Renewal.LEAF
