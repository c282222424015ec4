"""What is to be taken out, and cannot be read: it was refused when it was to come in.

Taking it out is done, therefore. With `Fail` its record, with the group and the
namespace, could never be deleted.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from lbcf.sdk import BackendAnswer, BackendRequest, NotThere, Outcome


_Said = TypeVar("_Said")
_Read = TypeVar("_Read")


def leaving(read: Callable[[_Said], _Read], said: _Said) -> _Read:
    """Read what is to be taken out.

    Args:
        read: raises the driver's `InvalidInput`, a ValueError, where it cannot.
        said: what it reads.

    Raises:
        NotThere: it cannot be read.
    """
    try:
        return read(said)
    except ValueError as error:
        raise NotThere(str(error)) from error


def all_leaving(
    read: Callable[[str], _Read], requests: Sequence[BackendRequest[BackendAnswer]]
) -> tuple[dict[str, _Read], dict[str, Outcome]]:
    """Return the addresses of a batch by record, and the outcomes of those that have none.

    Args:
        read: as for `leaving`; reads an address.
        requests: the items.
    """
    places: dict[str, _Read] = {}
    gone: dict[str, Outcome] = {}
    for one in requests:
        try:
            places[one.record_id] = leaving(read, one.backend_addr)
        except NotThere as nowhere:
            gone[one.record_id] = nowhere
    return places, gone
