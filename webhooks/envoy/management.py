"""The gRPC server that Envoys connect to: delta ADS for configuration, LRS for loads."""

import asyncio
import contextlib

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import grpc
import structlog

from envoy.service.discovery.v3 import ads_pb2_grpc
from envoy.service.load_stats.v3 import lrs_pb2_grpc

from lbcf.runtime.flags import BindAddress
from lbcf.runtime.tasks import end_tasks
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
class Files:
    """PEM files of the server; read again for each connection.

    Attributes:
        certificate, key: its own.
        clients: who signed the certificates of Envoys.
    """

    certificate: Path
    key: Path
    clients: Path

    def configuration(self) -> Any:
        """Read the files.

        Raises:
            OSError: one cannot be read.
        """
        pair = (self.key.read_bytes(), self.certificate.read_bytes())
        return grpc.ssl_server_certificate_configuration(
            [pair], root_certificates=self.clients.read_bytes()
        )

    def renewed(self) -> Any:
        """Read the files again; None: they cannot be read now, so the last ones stay."""
        try:
            return self.configuration()
        except (OSError, ValueError) as error:
            _log.warning("envoy.certificate_unreadable", error=str(error))
            return None

    def credentials(self) -> Any:
        """Return what serves Envoys with certificates of these alone.

        Raises:
            OSError: one cannot be read.
        """
        return grpc.dynamic_ssl_server_credentials(
            self.configuration(), self.renewed, require_client_authentication=True
        )


@attrs.define(eq=False)
class Management:
    """Serves all Envoys.

    Attributes:
        address: where.
        fleets: the Envoys, and what they shall have.
        epoch: of the state.
        files: for TLS in both directions; None: none, for loopback.
        step: is told of each response before it is sent, so that tests can end there.
        is_closing: whether streams are to end because the driver does.
    """

    address: BindAddress
    fleets: Fleets
    epoch: str
    files: Files | None
    step: Step
    is_closing: bool = attrs.field(default=False, init=False)
    _server: Any = attrs.field(default=None, init=False)
    _complained_at: dict[TurnedAwayFor, float] = attrs.field(factory=dict, init=False)

    async def open(self) -> int:
        """Listen; return the port.

        Raises:
            OSError: the address cannot be listened on, or a file cannot be read.
        """
        server = grpc.aio.server(options=_OPTIONS)
        ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(
            _Ads(self), server
        )
        lrs_pb2_grpc.add_LoadReportingServiceServicer_to_server(_Lrs(self), server)
        where = str(self.address) if self.address.host else f"[::]:{self.address.port}"
        try:
            if self.files is None:
                port = server.add_insecure_port(where)
            else:
                port = server.add_secure_port(where, self.files.credentials())
        except RuntimeError as error:
            raise OSError(f"Envoys cannot be served on {where}: {error}") from error
        await server.start()
        self._server = server
        _log.info("envoy.listening", address=where, port=port)
        return int(port)

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
