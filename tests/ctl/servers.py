"""API servers for commands: one in memory, which refuses what it is told to refuse."""

import argparse

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import attrs
import msgspec

from lbcf.ctl.command import Question, answer
from lbcf.ctl.flags import parser_for
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import KubeError, error_of
from lbcf.kube.kinds import Resource
from lbcf.kube.requests import ApiRequest
from lbcf.runtime.clock import SystemClock
from tests.builders import NAMESPACE
from tests.kube.tiny_api import TinyApi


@attrs.define
class Guarded:
    """An exchange with an API server that lets not everything pass.

    Attributes:
        rule: the HTTP status and the words of a refusal, None: it passes; a path ends
            with `?watch` where it is watched.
    """

    api: TinyApi
    rule: Callable[[str, str], tuple[int, str] | None]

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Carry a request out, or refuse it."""
        self._check(request, request.path)
        return await self.api.send(request, within)

    def stream(
        self, request: ApiRequest, silence: timedelta
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch, or refuse it."""
        self._check(request, f"{request.path}?watch")
        return self.api.stream(request, silence)

    def _check(self, request: ApiRequest, path: str) -> None:
        """Refuse what the rule does not let pass.

        Raises:
            KubeError: so it is.
        """
        found = self.rule(request.method, path)
        if found is not None:
            raise a_refusal(request, *found)


def a_refusal(request: ApiRequest, code: int, words: str) -> KubeError:
    """Make what the client makes of a refusal; without words it is no `Status`."""
    if not words:
        return error_of(str(request), code, b"404 page not found\n")
    status = {"kind": "Status", "message": words, "details": {"name": "x"}}
    return error_of(str(request), code, msgspec.json.encode(status))


def put(api: TinyApi, resource: Resource[Any], body: dict[str, Any]) -> None:
    """Store an object in the namespace that it names, else in that of the tests."""
    metadata = {"namespace": NAMESPACE, **body["metadata"]}
    path = f"{resource.collection(metadata['namespace'])}/{metadata['name']}"
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    api.put(path, {**kind, **body, "metadata": metadata})


async def run_command(client: KubeClient, *words: str) -> tuple[int, list[Any]]:
    """Answer a command; returns the exit status and what was written."""
    reports: list[Any] = []
    flags: argparse.Namespace = parser_for("x").parse_args(words)
    everywhere = flags.all_namespaces
    question = Question(client, SystemClock(), NAMESPACE, everywhere, flags)
    return await answer(question, reports.append), reports
