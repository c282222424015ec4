"""One request to a device, its whole answer back: HTTP as all drivers want it.

The lowest part of a driver. Certificates are verified, redirects are not followed (a
password must not go where a device points), no proxy of the environment is used, and
no answer is longer or later than its limits.
"""

from collections.abc import Mapping
from datetime import timedelta

import aiohttp
import attrs
import msgspec
import yarl

from webhooks.device.devices import Device
from webhooks.device.errors import (
    DeviceError,
    NoAnswer,
    Uncertain,
    Unreachable,
    Unreadable,
)
from webhooks.device.replies import Reply
from webhooks.device.trust import Trust


_READING = frozenset({"GET", "HEAD"})


@attrs.frozen
class Limits:
    """How long and how much one answer may be.

    Attributes:
        connect: until the connection stands and its certificate is verified.
        patience: from the start of connecting to the end of the answer.
        most: bytes of a body.
        at_once: connections to one device.
    """

    connect: timedelta = timedelta(seconds=3)
    patience: timedelta = timedelta(seconds=6)
    most: int = 16 * 1024 * 1024
    at_once: int = 4


@attrs.define(eq=False)
class Connection:
    """Connections to one device, opened as they are needed and kept.

    Attributes:
        device: which one.
        tls: how its certificate is verified.
        limits: of each answer.
    """

    device: Device
    tls: Trust
    limits: Limits = attrs.field(factory=Limits)
    _session: aiohttp.ClientSession | None = attrs.field(default=None, init=False)

    async def exchange(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        patience: timedelta | None = None,
    ) -> Reply:
        """Send one request and return all that comes back, whatever it says.

        Args:
            method: of HTTP; GET and HEAD change nothing.
            path: with the query, encoded as it is to travel.
            body: what JSON is made of; None: none is sent.
            headers: beside those that every request has.
            patience: for what takes longer than all else, as saving does; None: that
                of the limits.

        Raises:
            Unreachable: no connection.
            NoAnswer: the answer is not whole in time.
            Uncertain: as `NoAnswer`, and the request was no reading one.
            Unreadable: the answer is too long.
        """
        said = {"Accept": "application/json"} | dict(headers or {})
        sent = None
        if body is not None:
            sent = msgspec.json.encode(body)
            said["Content-Type"] = "application/json"
        url = yarl.URL(f"{self.device}{path}", encoded=True)
        longest = patience or self.limits.patience
        try:
            async with self._opened().request(
                method,
                url,
                data=sent,
                headers=said,
                ssl=self.tls.current(),
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    total=longest.total_seconds(),
                    sock_connect=self.limits.connect.total_seconds(),
                ),
            ) as response:
                return await self._read(response)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise _unreachable(self.device, error) from error
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise self._no_answer(method, longest, error) from error

    async def close(self) -> None:
        """Close what is open; nothing is sent after it."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> aiohttp.ClientSession:
        """Return the session, made in the event loop that first needs it."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self.limits.at_once, keepalive_timeout=5
                ),
                # A client of a product sends the cookies that it means to send.
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session

    async def _read(self, response: aiohttp.ClientResponse) -> Reply:
        """Read the answer to its end.

        Raises:
            Unreadable: too long.
        """
        pieces: list[bytes] = []
        length = 0
        async for piece in response.content.iter_chunked(65536):
            pieces.append(piece)
            length += len(piece)
            if length > self.limits.most:
                response.close()
                most = self.limits.most
                raise Unreadable(f"{self.device} answered more than {most} bytes")
        return Reply(
            status=response.status,
            body=b"".join(pieces),
            content_type=_kind(response.headers.get("Content-Type", "")),
            headers={name.lower(): text for name, text in response.headers.items()},
        )

    def _no_answer(
        self, method: str, patience: timedelta, error: Exception
    ) -> DeviceError:
        """Return the error for a request that was sent, and not answered."""
        seconds = patience.total_seconds()
        why = (
            f"did not answer within {seconds:g} s"
            if isinstance(error, TimeoutError)
            else f"hung up ({str(error) or type(error).__name__})"
        )
        text = f"{self.device} {why}: is it overloaded, or restarting?"
        return NoAnswer(text) if method in _READING else Uncertain(text)


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _unreachable(device: Device, error: Exception) -> Unreachable:
    """Return the error for a device that was not reached; nothing was sent."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = error.certificate_error
        return Unreachable(
            f"the certificate of {device} is not trusted ({why}): give its authority "
            "with --device-ca-file"
        )
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return Unreachable(
        f"{device} cannot be reached ({reason}): is it up, and is this its management "
        "address?"
    )
