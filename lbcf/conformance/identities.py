"""Who the kit says that it is calling for: records that nobody else has.

`lbcf.conformance.bench` and `load` draw from here; the same seed gives the same ids.
"""

import hashlib
import itertools

from collections.abc import Iterator
from uuid import UUID

import attrs


def seeded_ids(*parts: object) -> Iterator[str]:
    """Give UUIDs without end, the same ones for the same parts."""
    for number in itertools.count():
        text = ":".join(str(part) for part in (*parts, number))
        yield str(UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4))


@attrs.define
class Member:
    """A backend that the rule registers, or pretends to have registered.

    Attributes:
        record_id: of its record.
        address: where it is.
        injected_info: what the driver gave with its last Succ.
    """

    record_id: str
    address: str
    injected_info: dict[str, str] = attrs.Factory(dict)
