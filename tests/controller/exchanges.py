"""Ways to an API server for what never asks one."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from lbcf.kube.requests import ApiRequest


class Nobody:
    """No API server: being asked fails the test."""

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Fail the test."""
        raise AssertionError(f"{request} {within}")

    def stream(
        self, request: ApiRequest, silence: timedelta
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Fail the test."""
        raise AssertionError(f"{request} {silence}")
