"""Lists of members: to know one again costs a tenth of reading it.

`load_balancers` asks for them by a short period, and almost always gets the bytes of the
last time. `lbcf.controller.member_conditions` says which list it has compared last: the same
one is not parsed again.
"""

import hashlib

from collections.abc import Sequence

import attrs

from lbcf.core.model.operations import Operation
from lbcf.wire.driver import Answer, parse_answer
from lbcf.wire.driver_answers import ListBackendsAnswer, ListedBackend


@attrs.frozen
class Listing:
    """What a driver has on a load balancer.

    Attributes:
        epoch: changes when members that were added at run time were lost.
        backends: the members.
        digest: of the bytes that told them; the same bytes have the same one.
    """

    epoch: str
    backends: Sequence[ListedBackend]
    digest: bytes


class ListingReader:
    """Reads one answer to listBackends, unless its bytes are known.

    Args:
        known: digest of a list that need not be read again, empty for none.

    Attributes:
        digest: of the bytes, once they are there.
    """

    def __init__(self, known: bytes) -> None:
        self._known = known
        self.digest = b""

    @property
    def is_known(self) -> bool:
        """Tell whether the list was the known one, and was not read."""
        return bool(self.digest) and self.digest == self._known

    def __call__(self, operation: Operation, body: bytes) -> Answer:
        """Read the answer; in place of a known one stands a list without members.

        Raises:
            Malformed: it is none.
        """
        self.digest = hashlib.blake2b(body, digest_size=16).digest()
        return ListBackendsAnswer() if self.is_known else parse_answer(operation, body)
