"""Reading from the API server: lists and watches, through `kubectl proxy`.

The proxy listens on a unix socket in the run's folder: so this program reads from a
cluster in another network namespace, with whatever way of authenticating the kubeconfig
asks for. What changes anything in the cluster goes through kubectl itself.
"""

import asyncio
import json

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Self

import aiohttp

from tests.lab.demo.errors import DemoError


LINE_SIZE = 1 << 22
WATCH_SECONDS = 600
START_ATTEMPTS = 200
START_PAUSE = 0.1


class Api:
    """The API server, for reading."""

    def __init__(self, socket: Path) -> None:
        connector = aiohttp.UnixConnector(str(socket))
        self._session = aiohttp.ClientSession(
            "http://localhost", connector=connector, read_bufsize=LINE_SIZE
        )

    async def __aenter__(self) -> Self:
        """Use it in `async with`."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self._session.close()

    async def wait(self) -> None:
        """Wait until the proxy answers.

        Raises:
            DemoError: it does not within some seconds.
        """
        for _ in range(START_ATTEMPTS):
            try:
                await self.get("/version")
            except DemoError:
                await asyncio.sleep(START_PAUSE)
            else:
                return
        raise DemoError("kubectl proxy does not answer: see proxy.log")

    async def get(self, path: str) -> dict[str, Any]:
        """Read an object or a list.

        Raises:
            DemoError: the API server refuses, or cannot be reached.
        """
        try:
            async with self._session.get(path) as answer:
                body: dict[str, Any] = await answer.json()
        except (aiohttp.ClientError, ValueError) as error:
            raise DemoError(f"GET {path}: {error}") from error
        if answer.status != 200:
            raise DemoError(f"GET {path}: {answer.status} {body.get('message', '')}")
        return body

    async def follow(self, path: str) -> AsyncIterator[tuple[str, Mapping[str, Any]]]:
        """List, then watch, for ever: pairs of an event's type and its object.

        A broken watch is begun anew with a list, whose first pair is `("LISTED", list)`
        with the list itself as the object.
        """
        while True:
            try:
                listed = await self.get(path)
                yield "LISTED", listed
                version = listed["metadata"]["resourceVersion"]
                async for event in self._watch(path, version):
                    yield event
            except (DemoError, aiohttp.ClientError, TimeoutError, ValueError):
                # A watch that is cut off may end in the middle of a line.
                await asyncio.sleep(0.5)

    async def _watch(
        self, path: str, version: str
    ) -> AsyncIterator[tuple[str, Mapping[str, Any]]]:
        """Yield events until the server ends the watch or answers with an error."""
        query = f"watch=1&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        limit = aiohttp.ClientTimeout(total=None)
        async with self._session.get(f"{path}?{query}", timeout=limit) as answer:
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]
