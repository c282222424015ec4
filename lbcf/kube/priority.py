"""Which request goes first where more is to be asked of the API server than at a time.

`transport` holds a place of a `PrioritySemaphore` for each request but watches. The order
within a namespace follows what users feel: ends first, and what is read to allow them;
then what completes work under way, statuses before finalizers, which are in no hurry;
what begins new work comes last, so that nothing is begun faster than it is completed.
Namespaces take turns, so that no tenant's thousand creates keep another's waiting.
"""

from collections.abc import Mapping
from typing import Final

from lbcf.kube.exchange import Method, Request


_RANKS: Final[Mapping[Method, int]] = {"DELETE": 0, "GET": 0, "PATCH": 2, "POST": 3}
_STATUS: Final = 1
_NAMESPACES: Final = "/namespaces/"


def rank_of(request: Request) -> int:
    """Say how urgent a request is; the smaller, the more."""
    if request.path.endswith("/status"):
        return _STATUS
    return _RANKS[request.method]


def namespace_of(request: Request) -> str:
    """Say which namespace a request is about; empty where it is about all, or none."""
    return request.path.partition(_NAMESPACES)[2].partition("/")[0]
