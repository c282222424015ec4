"""The seam between verbs and sockets: a request, and who brings it to the API server.

`client` and `watching` above it speak Kubernetes, `transport` below it speaks HTTP.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Literal, Protocol

import attrs


Method = Literal["GET", "POST", "PATCH", "DELETE"]


@attrs.frozen
class Request:
    """What is to be sent.

    Attributes:
        path: below the host, beginning with a slash, quoted.
        query: parameters by name.
        body: JSON, None for none.
        content_type: of the body.
        most: bytes of the answer that the asker takes, None for any number.
    """

    method: Method
    path: str
    query: Mapping[str, str] = attrs.Factory(dict)
    body: bytes | None = None
    content_type: str = "application/json"
    most: int | None = None

    def __str__(self) -> str:
        """Write it as it stands in messages."""
        return f"{self.method} {self.path}"


class Exchange(Protocol):
    """The way to an API server; `Transport` is the real one."""

    async def send(self, request: Request, within: timedelta | None = None) -> bytes:
        """Return the body of a successful answer, or raise a `KubeError`."""

    def stream(
        self, request: Request, silence: timedelta
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open an answer that comes in chunks, and ends when nothing comes."""


Between = Callable[[Exchange], Exchange]
"""Puts itself between whoever asks and the API server."""
