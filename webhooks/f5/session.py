"""Requests to one unit, with a token that is taken: all of iControl goes through here.

A token can end at any time: it expired, somebody deleted it, the unit was restarted.
So a request that is refused for it is made once more with a new one.
"""

import asyncio

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

import attrs

from lbcf.sdk import Clock
from webhooks.device.connection import Connection
from webhooks.device.devices import Device
from webhooks.device.errors import NoAnswer, Refused, Unreachable
from webhooks.device.replies import Document, Reply
from webhooks.device.retries import until_free
from webhooks.f5.errors import Denied, Starting, check
from webhooks.f5.tokens import HEADER, Token, Tokens


COORDINATED = "X-F5-REST-Coordination-Id"
"""The header that puts a request into a transaction."""

READS_AT_ONCE = 3
"""A unit has three or four workers for all who look in."""


@attrs.frozen
class Request:
    """What is asked of a unit.

    Attributes:
        method: of HTTP.
        path: with the query, encoded.
        body: what JSON is made of; None: none is sent.
        patience: None: the connection's.
        transaction: id of the one that it waits in for its commit; empty: in none.
    """

    method: str
    path: str
    body: Mapping[str, object] | None = None
    patience: timedelta | None = None
    transaction: str = ""


@attrs.define(eq=False)
class Session:
    """Speaks to one unit.

    Attributes:
        connection: to it.
        tokens: what is shown to it.
        clock: for pauses where it is busy.
        interruptions: how many times it was away, or did not know our token: it may
            have been restarted since.
    """

    connection: Connection
    tokens: Tokens
    clock: Clock
    interruptions: int = attrs.field(default=0, init=False)
    _reading: asyncio.Semaphore = attrs.field(init=False)
    _writing: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    _batches: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        """Bound the reads."""
        self._reading = asyncio.Semaphore(READS_AT_ONCE)

    @property
    def device(self) -> Device:
        """Which unit it is."""
        return self.connection.device

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Make changes alone: many at a time make a unit answer 503."""
        async with self._writing:
            yield

    @asynccontextmanager
    async def batch(self) -> AsyncIterator[None]:
        """Make the changes of a batch, between which others have their turns.

        Batches are made one after the other: taking turns, all would end with the last one.
        """
        async with self._batches:
            yield

    async def get(self, path: str) -> Document:
        """Read an object.

        Raises:
            Busy, Refused, Unreachable, NoAnswer, Unreadable: as they say.
        """
        async with self._reading:
            reply = await self._patiently(Request("GET", path))
        return reply.expect_document(self.device)

    async def change(self, request: Request) -> Reply:
        """Make a change, in a turn that the caller has; return the answer.

        What only waits in a transaction needs none.

        Raises:
            Uncertain: it was sent and not answered.
            Busy, Refused, Unreachable, Unreadable: as they say.
        """
        return await self._patiently(request)

    async def close(self) -> None:
        """Give the token back and close the connections."""
        await self.tokens.close()
        await self.connection.close()

    async def _patiently(self, request: Request) -> Reply:
        """Ask again while the unit is busy."""
        return await until_free(self.clock, lambda: self._authorized(request))

    async def _authorized(self, request: Request) -> Reply:
        """Ask with a token; once more where it is not taken any longer."""
        try:
            return await self._once(request)
        except Denied:
            return await self._once(request)

    async def _once(self, request: Request) -> Reply:
        """Ask with the current token."""
        try:
            token = await self.tokens.current()
            headers = {HEADER: token.text}
            if request.transaction:
                headers[COORDINATED] = request.transaction
            reply = await self.connection.exchange(
                request.method,
                request.path,
                request.body,
                headers,
                request.patience,
            )
            return await self._checked(reply, token)
        except (Unreachable, NoAnswer, Starting):
            self.interruptions += 1
            raise

    async def _checked(self, reply: Reply, token: Token) -> Reply:
        """Return a reply that says yes; use a token that is not taken no more."""
        try:
            checked = check(self.device, reply)
        except Denied as error:
            self.interruptions += 1
            await self.tokens.give_up(token, error.said)
            raise
        except Refused:
            self.tokens.note_taken(token)
            raise
        self.tokens.note_taken(token)
        return checked
