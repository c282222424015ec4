"""The gRPC server that Envoys connect to: delta ADS for configuration, LRS for loads."""

import asyncio
import contextlib

from collections.abc import AsyncGenerator, AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import attrs
import grpc
import structlog

from envoy.service.discovery.v3 import ads_pb2_grpc
from envoy.service.load_stats.v3 import lrs_pb2_grpc

from lbcf.runtime.clock import Clock, SystemClock
from lbcf.runtime.flags import BindAddress
from lbcf.runtime.tasks import CutError, cut_is_error, end_tasks
from webhooks.envoy import messages
from webhooks.envoy.balancers import is_fleet
from webhooks.envoy.errors import TurnedAway, TurnedAwayFor
from webhooks.envoy.fleets import Fleet, Fleets
from webhooks.envoy.loads import Reporting
from webhooks.envoy.messages import Message, Node
from webhooks.envoy.sessions import Session, opened
from webhooks.envoy.store import Step


LARGEST_MESSAGE = 16 * 1024 * 1024
"""Bytes of a message; a load report of 10,000 members has about 1 MiB."""

LONGEST_ID = 255
"""Characters of a `node.id`."""

COMPLAIN_AGAIN = 60.0
"""Seconds between two words in the log about Envoys turned away for the same reason."""

LOOK = timedelta(seconds=5)
"""Between two looks at the files; the kubelet takes up to a minute to change them."""

_OPTIONS = (
    ("grpc.so_reuseport", 0),  # a second server on the port is an error, not a share
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # else 60 s, whatever is said above
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.max_send_message_length", LARGEST_MESSAGE),
)
"""An Envoy that hangs is noticed within 15 s."""

_GRACE = 0.2
"""Seconds for streams to end: they have none of their own."""

_log = structlog.get_logger(__name__)


@attrs.frozen
class Pem:
    """What the files hold; equal as long as nothing has changed."""

    certificate: bytes = attrs.field(repr=False)
    key: bytes = attrs.field(repr=False)
    clients: bytes = attrs.field(repr=False)

    def credentials(self) -> Any:
        """Return what serves Envoys with certificates of these alone."""
        pair = (self.key, self.certificate)
        return grpc.ssl_server_credentials(
            [pair], self.clients, require_client_auth=True
        )


@attrs.frozen
class Files:
    """PEM files of the server.

    Attributes:
        certificate, key: its own.
        clients: who signed the certificates of Envoys.
    """

    certificate: Path
    key: Path
    clients: Path

    def read(self) -> Pem:
        """Read all of them.

        Raises:
            OSError: one cannot be read.
        """
        files = (self.certificate, self.key, self.clients)
        return Pem(*(file.read_bytes() for file in files))

    async def check(self, pem: Pem) -> None:
        """Have gRPC take them at a port that nobody knows; it alone knows what it takes.

        OpenSSL takes keys of secp256k1 or RSA-PSS, which gRPC does not, and refuses RSA of
        1,024 bits, which it does (measured, 1.85).

        Raises:
            OSError: it does not take them.
        """
        server = grpc.aio.server()
        try:
            server.add_secure_port("127.0.0.1:0", pem.credentials())
        except RuntimeError as error:
            raise OSError(
                f"{self.certificate} and {self.key} are no pair that gRPC takes, or "
                f"{self.clients} is no certificate: the lines before are its reasons"
            ) from error
        await server.start()  # else its port would never be closed
        await server.stop(None)


@attrs.define(eq=False)
class Management:
    """Serves all Envoys.

    Attributes:
        address: where.
        fleets: the Envoys, and what they shall have.
        epoch: of the state.
        files: for TLS in both directions; None: none, for loopback.
        step: is told of each response before it is sent, so that tests can end there.
        clock: for the pauses between looks at the files.
        is_closing: whether streams are to end: the driver does, or certificates change.
    """

    address: BindAddress
    fleets: Fleets
    epoch: str
    files: Files | None
    step: Step
    clock: Clock = attrs.field(factory=SystemClock)
    is_closing: bool = attrs.field(default=False, init=False)
    _server: Any = attrs.field(default=None, init=False)
    _pem: Pem | None = attrs.field(default=None, init=False)
    _refused: Pem | None = attrs.field(default=None, init=False)
    _said: str = attrs.field(default="", init=False)
    _complained_at: dict[TurnedAwayFor, float] = attrs.field(factory=dict, init=False)

    async def open(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be listened on, or a file cannot be used.
        """
        pem = None
        if self.files is not None:
            pem = self.files.read()
            await self.files.check(pem)
        await self._listen(pem)

    async def _listen(self, pem: Pem | None) -> None:
        """Serve Envoys, with TLS if there is something for it.

        Raises:
            OSError: the address cannot be listened on.
        """
        server = grpc.aio.server(options=_OPTIONS)
        ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(
            _Ads(self), server
        )
        lrs_pb2_grpc.add_LoadReportingServiceServicer_to_server(_Lrs(self), server)
        where = str(self.address) if self.address.host else f"[::]:{self.address.port}"
        try:
            if pem is None:
                port = server.add_insecure_port(where)
            else:
                port = server.add_secure_port(where, pem.credentials())
        except RuntimeError as error:
            raise OSError(f"Envoys cannot be served on {where}: {error}") from error
        self.is_closing = False
        self._server, self._pem = server, pem
        await server.start()
        _log.info("envoy.listening", address=where, port=port)

    async def follow(self) -> NoReturn:
        """Look at the files periodically, until cancelled."""
        while True:
            await self.clock.sleep(LOOK)
            try:
                with cut_is_error("a look at certificates"):
                    await self.look()
            except (OSError, CutError) as error:
                self._warn(str(error))
            except Exception:  # noqa: BLE001  (else nobody would look again, or tell)
                _log.exception("envoy.certificates_not_renewed")

    async def look(self) -> None:
        """Serve with new certificates if there are any: all Envoys connect anew then.

        gRPC would change them in a server that goes on (`dynamic_ssl_server_credentials`), but
        a handshake at that moment uses what another one has just freed, and the process dies
        (grpc/grpc#36693, open with 1.85).

        Raises:
            OSError: what is there cannot be used, or not yet: it is served as before.
        """
        if self.files is None:
            return
        pem = self.files.read()
        if pem == self._refused:
            return  # gRPC would tell its reasons once more, every 5 s
        if pem != self._pem or self._server is None:
            try:
                await self.files.check(pem)
            except OSError:
                self._refused = pem
                raise
            await self.close()
            await self._listen(pem)
            _log.info("envoy.certificates_renewed")
        self._refused, self._said = None, ""

    def _warn(self, why: str) -> None:
        """Log why there are no new certificates, once."""
        if why != self._said:
            _log.warning("envoy.certificates_not_renewed", error=why)
        self._said = why

    async def close(self) -> None:
        """End all streams; Envoys keep what they have."""
        self.is_closing = True
        for fleet in self.fleets:
            fleet.tell()
        if self._server is not None:
            await self._server.stop(_GRACE)
            self._server = None

    async def first(self, requests: AsyncIterator[Message], context: Any) -> Message:
        """Return the first request of a stream, which says who sends it.

        A stream that is refused ends with the reason, which Envoy logs.
        """
        request = await self._read_first(requests, context)
        wrong = _wrong(request)
        if wrong:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, wrong)
        full = self.fleets.refusal(messages.node_of(request))
        if full:
            self.complain(full)
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(full))
        return request

    async def _read_first(
        self, requests: AsyncIterator[Message], context: Any
    ) -> Message:
        """Return the first request of a stream; None: it ended before."""
        try:
            return await anext(requests, None)
        except messages.Unreadable as error:
            why = f"what is no request of xDS came from {context.peer():.80}: {error}"
            self.complain(TurnedAway(TurnedAwayFor.UNREADABLE, why))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, why)

    def complain(self, error: TurnedAway) -> None:
        """Log that Envoys are turned away, each reason not more often than is read."""
        now = self.fleets.now()
        last = self._complained_at.get(error.reason)
        if last is None or now - last > COMPLAIN_AGAIN:
            self._complained_at[error.reason] = now
            _log.warning("envoy.turned_away", error=str(error))

    async def refuse_whole_states(
        self, requests: AsyncIterator[Message], context: Any
    ) -> None:
        """End a stream of an Envoy that asks for all resources at each change."""
        request = await self._read_first(requests, context)
        node = messages.node_of(request) if request is not None else Node("", "")
        why = (
            f"Envoy {node.envoy!r:.80} of fleet {node.fleet!r:.80} asks for the state of the "
            "world, which this driver does not serve: use api_type: DELTA_GRPC in its ads_config"
        )
        self.complain(TurnedAway(TurnedAwayFor.WHOLE_STATES, why))
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, why)

    async def configure(
        self, node: Node, first: Message, requests: AsyncIterator[Message]
    ) -> AsyncGenerator[Message, None]:
        """Answer one stream of an Envoy as long as it lasts.

        Raises:
            TurnedAway: it asks for too much.
        """
        session = opened(node.envoy, self.epoch)
        self._take(self.fleets.peek(node.fleet), session, first)
        fleet = self.fleets.fleet(node.fleet)
        self.fleets.enter(fleet, session)
        _log.info("envoy.connected", fleet=node.fleet, envoy=node.envoy)
        with fleet.streaming() as due:
            reader = asyncio.create_task(self._read(fleet, session, requests, due))
            reader.add_done_callback(lambda _: due.set())
            try:
                while not reader.done() and not self.is_closing:
                    due.clear()
                    for kind, offer, nonce in session.owed(fleet.snapshot):
                        self.step("send")
                        yield messages.response(kind, offer, nonce)
                    await due.wait()
                if reader.done() and not reader.cancelled():
                    refused = reader.exception()
                    if isinstance(refused, TurnedAway):
                        raise refused
            finally:
                await end_tasks([reader])
                self.fleets.leave(fleet, session)
                _log.info("envoy.disconnected", fleet=node.fleet, envoy=node.envoy)

    async def _read(
        self,
        fleet: Fleet,
        session: Session,
        requests: AsyncIterator[Message],
        due: asyncio.Event,
    ) -> None:
        """Take the requests of a stream until it ends; each may make something due.

        Raises:
            TurnedAway: as `_take` says.
        """
        async for request in requests:
            self._take(fleet, session, request)
            due.set()

    def _take(self, fleet: Fleet, session: Session, request: Message) -> None:
        """Take one request.

        Raises:
            TurnedAway: it asks for too much.
        """
        kind = messages.kind_of(request)
        if kind is None:
            return
        asked = messages.read_request(request)
        if excess := session.subscriptions[kind].excess(asked):
            raise TurnedAway(excess.reason, f"Envoy {session.envoy}: {excess}")
        if asked.error:
            _log.warning("envoy.refused", envoy=session.envoy, error=asked.error)
        session.take(kind, asked, fleet.snapshot, self.fleets.now())
        fleet.heard()


class _Ads(ads_pb2_grpc.AggregatedDiscoveryServiceServicer):  # type: ignore[misc]
    """Serves configuration, of all kinds in one stream."""

    def __init__(self, management: Management) -> None:
        self._management = management

    async def DeltaAggregatedResources(  # noqa: N802  (gRPC's name)
        self,
        requests: AsyncIterator[Message],
        context: Any,
    ) -> AsyncIterator[Message]:
        """Serve one Envoy."""
        first = await self._management.first(requests, context)
        node = messages.node_of(first)
        stream = self._management.configure(node, first, requests)
        try:
            async with contextlib.aclosing(stream):
                async for response in stream:
                    yield response
        except TurnedAway as error:
            self._management.complain(error)
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))

    async def StreamAggregatedResources(  # noqa: N802  (gRPC's name)
        self,
        requests: AsyncIterator[Message],
        context: Any,
    ) -> None:
        """Tell an Envoy what to use in its place."""
        await self._management.refuse_whole_states(requests, context)


class _Lrs(lrs_pb2_grpc.LoadReportingServiceServicer):  # type: ignore[misc]
    """Takes load reports."""

    def __init__(self, management: Management) -> None:
        self._management = management
        self._fleets = management.fleets

    async def StreamLoadStats(  # noqa: N802  (gRPC's name)
        self,
        requests: AsyncIterator[Message],
        context: Any,
    ) -> AsyncIterator[Message]:
        """Serve one Envoy."""
        node = messages.node_of(await self._management.first(requests, context))
        reporting = self._fleets.report(node)
        fleet = self._fleets.fleet(node.fleet)
        reader = asyncio.create_task(self._read(fleet, reporting, requests))
        wished: float | None = None
        try:
            with fleet.streaming() as due:
                reader.add_done_callback(lambda _: due.set())
                while not reader.done() and not self._management.is_closing:
                    due.clear()
                    if wished != fleet.report_every:
                        # It begins the Envoy's period anew: sent again and again, it would
                        # have no report ever come.
                        wished = fleet.report_every
                        yield messages.wish_for_reports(wished)
                    await due.wait()
        finally:
            await end_tasks([reader])
            self._fleets.end_report(node, reporting)

    async def _read(
        self, fleet: Fleet, reporting: Reporting, requests: AsyncIterator[Message]
    ) -> None:
        """Take reports until the stream ends. Who asks about a drain looks at the latest."""
        async for request in requests:
            report = messages.read_report(request, fleet.draining)
            reporting.take(report, self._fleets.now())


def _wrong(first: Message) -> str:
    """Return what is wrong with who sends a stream's first request; empty: nothing."""
    if first is None or not first.node.id or not first.node.cluster:
        return "say node.id and node.cluster (Envoy: --service-node, --service-cluster)"
    if len(first.node.id) > LONGEST_ID:
        return f"node.id has more than {LONGEST_ID} characters"
    if not is_fleet(first.node.cluster):
        return (
            "node.cluster can be the fleet of no load balancer: write letters, digits, "
            "`.`, `_` and `-`, at most 63"
        )
    return ""
