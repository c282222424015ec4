"""One operation on several load balancers at once: one failure stops no other."""

import asyncio

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar


_T = TypeVar("_T")
_A = TypeVar("_A")
_E = TypeVar("_E", bound=Exception)


async def gathered(
    operation: Callable[[_A], Awaitable[_T]], on: Sequence[_A], expected: type[_E]
) -> tuple[list[_T], list[_E]]:
    """Perform an operation on each; return its results, and the expected failures.

    Raises:
        BaseException: one that was not expected.
    """
    results = await asyncio.gather(
        *(operation(one) for one in on), return_exceptions=True
    )
    values: list[_T] = []
    failures: list[_E] = []
    for result in results:
        if isinstance(result, expected):
            failures.append(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            values.append(result)
    return values, failures
