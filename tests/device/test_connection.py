"""Requests to a device over real sockets, and all that can go wrong with them."""

import asyncio
import socket
import ssl

from datetime import timedelta
from pathlib import Path

import pytest
import structlog
import trustme

from aiohttp import web

from tests.device.appliances import an_appliance, connected
from webhooks.device.connection import Connection, Limits
from webhooks.device.devices import Device
from webhooks.device.errors import (
    DeviceError,
    InvalidInput,
    NoAnswer,
    Uncertain,
    Unreachable,
    Unreadable,
)
from webhooks.device.trust import read_trust


BRIEF = Limits(patience=timedelta(seconds=0.3), most=100)


async def _echo(request: web.Request) -> web.Response:
    """Answer with the body that came."""
    body = await request.read()
    return web.Response(status=201, body=body, content_type="application/json")


async def _hang(_: web.Request) -> web.Response:
    """Never answer."""
    await asyncio.Event().wait()
    return web.Response()


async def _hesitate(_: web.Request) -> web.Response:
    """Answer later than usual limits allow."""
    await asyncio.sleep(2 * BRIEF.patience.total_seconds())
    return web.Response()


async def _hang_up(request: web.Request) -> web.Response:
    """Close the connection in place of an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def _babble(_: web.Request) -> web.Response:
    """Answer with more than anybody wants."""
    return web.Response(body=b"x" * 1000)


async def _elsewhere(_: web.Request) -> web.Response:
    """Point to somebody else."""
    return web.Response(status=307, headers={"Location": "http://127.0.0.1:1/theirs"})


async def test_a_request_travels_as_it_was_written() -> None:
    """Paths are encoded by the caller and arrive so; bodies are JSON both ways."""
    async with an_appliance(_echo) as appliance, connected(appliance) as connection:
        reply = await connection.exchange(
            "POST", "/mgmt/~Common~10.0.0.1%2510:80?a=b", {"n": 1}, {"X-Token": "t"}
        )

    assert ["POST /mgmt/~Common~10.0.0.1%2510:80?a=b"] == appliance.seen
    assert "t" == appliance.headers["X-Token"]
    assert (201, {"n": 1}, "application/json") == (
        reply.status,
        reply.document,
        reply.content_type,
    )


@pytest.mark.parametrize("answer", [_hang, _hang_up])
async def test_an_unanswered_change_is_uncertain(answer: object) -> None:
    """What was read in vain was just not read; a change may have been made."""
    async with (
        an_appliance(answer) as appliance,  # type: ignore[arg-type]
        connected(appliance, BRIEF) as connection,
    ):
        with pytest.raises(NoAnswer, match="overloaded") as reading:
            await connection.exchange("GET", "/")
        with pytest.raises(Uncertain, match=str(appliance.device)):
            await connection.exchange("POST", "/")

    assert not isinstance(reading.value, Uncertain)


async def test_what_takes_long_may() -> None:
    """A single request may be given more time than the rest."""
    async with (
        an_appliance(_hesitate) as appliance,
        connected(appliance, BRIEF) as connection,
    ):
        reply = await connection.exchange("POST", "/", patience=timedelta(minutes=1))

    assert 200 == reply.status


async def test_a_body_without_end_is_not_read() -> None:
    """Bodies are bounded."""
    async with (
        an_appliance(_babble) as appliance,
        connected(appliance, BRIEF) as connection,
    ):
        with pytest.raises(Unreadable, match="more than 100 bytes"):
            await connection.exchange("GET", "/")


async def test_redirects_are_not_followed() -> None:
    """A device cannot send the driver's credentials elsewhere."""
    async with an_appliance(_elsewhere) as appliance, connected(appliance) as asked:
        reply = await asked.exchange("GET", "/")

    assert 307 == reply.status


async def test_nobody_listens() -> None:
    """A port without a listener is told as such, not as an answer that is missing."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = Device("127.0.0.1", taken.getsockname()[1], "http")
        connection = Connection(nobody, read_trust())
        with pytest.raises(Unreachable, match="cannot be reached"):
            await connection.exchange("POST", "/")
        await connection.close()


class TestCertificates:
    """Who answers has to prove that it is the device."""

    @pytest.fixture(name="authority")
    def _authority(self) -> trustme.CA:
        """Return who signs."""
        return trustme.CA()

    @pytest.fixture(name="served")
    def _served(self, authority: trustme.CA) -> ssl.SSLContext:
        """Return how an appliance shows its certificate."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        return context

    async def test_unknown_ones_are_refused(self, served: ssl.SSLContext) -> None:
        """By default nothing is sent to a device whose certificate is not trusted."""
        async with (
            an_appliance(_echo, served) as appliance,
            connected(appliance) as connection,
        ):
            with pytest.raises(Unreachable, match="--device-ca-file"):
                await connection.exchange("GET", "/")

        assert [] == appliance.seen

    async def test_known_ones_are_taken(
        self, served: ssl.SSLContext, authority: trustme.CA, tmp_path: Path
    ) -> None:
        """With its authority's file, whatever else is noted in it, a device is trusted."""
        path = tmp_path / "ca.crt"
        remark = "# Unsere Gerätezertifikate\n".encode()
        path.write_bytes(remark + authority.cert_pem.bytes())
        async with (
            an_appliance(_echo, served) as appliance,
            connected(appliance, tls=read_trust(path)) as connection,
        ):
            assert 201 == (await connection.exchange("GET", "/")).status

    async def test_a_changed_file_counts_at_once(
        self, served: ssl.SSLContext, authority: trustme.CA, tmp_path: Path
    ) -> None:
        """What is not trusted any more is refused; a file that is broken changes nothing."""
        path, said = tmp_path / "ca.crt", list[str]()
        authority.cert_pem.write_to_path(path)
        others = trustme.CA().cert_pem.bytes()
        contents = (others, b"", None, others + authority.cert_pem.bytes(), others)
        async with (
            an_appliance(_echo, served) as appliance,
            connected(appliance, tls=read_trust(path)) as connection,
        ):
            await connection.exchange("GET", "/")
            for content in contents:
                if content is None:
                    path.unlink()
                else:
                    path.write_bytes(content)
                try:
                    await connection.exchange("GET", "/")
                    said.append("")
                except Unreachable as error:
                    said.append(str(error))

        expected = [False, False, False, True, False]
        assert expected == [not one for one in said]
        assert {True} == {"is not trusted" in one for one in said if one}

    async def test_a_broken_file_keeps_what_was_known(
        self, served: ssl.SSLContext, authority: trustme.CA, tmp_path: Path
    ) -> None:
        """It is logged once, and the device is asked on."""
        path = tmp_path / "ca.crt"
        authority.cert_pem.write_to_path(path)
        async with (
            an_appliance(_echo, served) as appliance,
            connected(appliance, tls=read_trust(path)) as connection,
        ):
            path.write_bytes(b"nothing")
            with structlog.testing.capture_logs() as logged:
                for _ in range(3):
                    await connection.exchange("GET", "/")

        assert ["device.authorities_not_reloaded"] == [one["event"] for one in logged]

    async def test_insecure_is_a_wish(self, served: ssl.SSLContext) -> None:
        """Only who says so has nothing verified."""
        async with (
            an_appliance(_echo, served) as appliance,
            connected(appliance, tls=read_trust(insecure=True)) as connection,
        ):
            assert 201 == (await connection.exchange("GET", "/")).status

    def test_contradictions_are_refused(self, tmp_path: Path) -> None:
        """An authority together with no verification, or one that is not there."""
        with pytest.raises(InvalidInput, match="--insecure"):
            read_trust(tmp_path / "ca.crt", insecure=True)
        with pytest.raises(DeviceError, match="--device-ca-file"):
            read_trust(tmp_path / "ca.crt")
