"""A driver that is secured: who is let in, and what a rotation changes, on real sockets."""

import asyncio
import contextlib
import os
import resource
import ssl

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import ClassVar

import aiohttp
import attrs
import pytest
import trustme

from aiohttp import web

from lbcf.runtime.clock import SystemClock
from lbcf.runtime.flags import BindAddress
from lbcf.sdk.credentials import (
    Contents,
    CredentialFiles,
    Credentials,
    CredentialsUnusable,
    Guard,
)
from lbcf.sdk.listener import Listener
from lbcf.sdk.server import Service
from tests.sdk.services import PlainDriver


MEMBER = {"recordID": "r", "backendAddr": "192.0.2.1:80"}


@attrs.define
class Folder:
    """Files of a driver, and what callers need.

    Attributes:
        path: where they are.
        authority: of the driver's certificate.
        callers: authority of the callers' certificates.
    """

    path: Path
    authority: trustme.CA = attrs.Factory(trustme.CA)
    callers: trustme.CA = attrs.Factory(trustme.CA)

    @property
    def files(self) -> CredentialFiles:
        """All four."""
        names = ("tls.crt", "tls.key", "clients.crt", "tokens")
        return CredentialFiles(*(self.path / name for name in names))

    def write(self, *tokens: str) -> None:
        """Write the driver's side anew."""
        cert = self.authority.issue_cert("localhost")
        chain = b"".join(blob.bytes() for blob in cert.cert_chain_pems)
        (self.path / "tls.crt").write_bytes(chain)
        (self.path / "tls.key").write_bytes(cert.private_key_pem.bytes())
        (self.path / "clients.crt").write_bytes(self.callers.cert_pem.bytes())
        (self.path / "tokens").write_text("\n".join(tokens))

    def trust(self, cert: trustme.LeafCert | None = None) -> ssl.SSLContext:
        """How a caller does TLS."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if cert is not None:
            cert.configure_cert(context)
        return context

    def a_caller(self) -> ssl.SSLContext:
        """How one does that may call."""
        return self.trust(self.callers.issue_cert("caller.test"))


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Folder:
    """Files with the tokens `one` and `two`."""
    folder = Folder(tmp_path)
    folder.write("one", "two")
    return folder


@attrs.define
class Served:
    """A driver that listens.

    Attributes:
        url: where.
        listener: to be told to look at its files.
        driver: what it was asked.
    """

    url: str
    listener: Listener
    driver: PlainDriver


@contextlib.asynccontextmanager
async def listening(files: CredentialFiles) -> AsyncIterator[Served]:
    """Serve a driver with these files."""
    guard, driver = Guard(), PlainDriver()
    runner = web.AppRunner(Service(driver, guard=guard).application())
    await runner.setup()
    assert runner.server is not None
    listener = Listener(runner.server, guard, files, SystemClock())
    await listener.open(BindAddress("127.0.0.1", 0))
    port = listener.addresses[0].rpartition(":")[2]
    scheme = "https" if files.certificate else "http"
    try:
        yield Served(f"{scheme}://localhost:{port}", listener, driver)
    finally:
        listener.close()
        await runner.cleanup()


async def status_of(
    url: str, tls: ssl.SSLContext | None = None, token: str | None = None
) -> int:
    """Ensure a backend over a connection of its own; return the status."""
    headers = {} if token is None else {"Authorization": token}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{url}/ensureBackend", json=MEMBER, ssl=tls or True) as response,
    ):
        assert "application/json" == response.content_type
        return response.status


async def test_certificate_and_token_together(folder: Folder) -> None:
    """Who shows both is served, with either of the tokens."""
    async with listening(folder.files) as served:
        for token in ("Bearer one", "bearer two"):
            assert 200 == await status_of(served.url, folder.a_caller(), token)


@pytest.mark.parametrize(
    "token", [None, "Bearer", "Bearer three", "Bearer onetwo", "Basic one", "one"]
)
async def test_a_caller_without_a_good_token(folder: Folder, token: str | None) -> None:
    """It is told how to prove itself; nothing is done for it."""
    async with listening(folder.files) as served:
        assert 401 == await status_of(served.url, folder.a_caller(), token)

    assert [] == served.driver.begun


async def test_a_caller_without_a_certificate(folder: Folder) -> None:
    """It hears why, which the end of a handshake would not tell."""
    async with listening(folder.files) as served:
        assert 403 == await status_of(served.url, folder.trust(), "Bearer one")

    assert [] == served.driver.begun


async def test_a_caller_with_a_strangers_certificate(folder: Folder) -> None:
    """What is shown must be good, although nothing need be shown for probes."""
    stranger = folder.trust(trustme.CA().issue_cert("caller.test"))
    async with listening(folder.files) as served:
        with pytest.raises(aiohttp.ClientError):
            await status_of(served.url, stranger, "Bearer one")

    assert [] == served.driver.begun


async def test_metrics_are_for_callers_and_probes_for_all(folder: Folder) -> None:
    """A kubelet has neither certificate nor token."""
    async with (
        listening(folder.files) as served,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=folder.trust())) as it,
    ):
        async with it.get(f"{served.url}/healthz") as probe:
            assert 200 == probe.status
        async with it.post(f"{served.url}/healthz", json={}) as call:
            assert 403 == call.status
        async with it.get(f"{served.url}/metrics") as metrics:
            assert 403 == metrics.status


async def test_new_files_count_without_a_restart(folder: Folder) -> None:
    """Certificate, authority and tokens are all others; the port is the same."""
    async with listening(folder.files) as served:
        before = folder.a_caller()
        assert 200 == await status_of(served.url, before, "Bearer one")

        folder.authority, folder.callers = trustme.CA(), trustme.CA()
        folder.write("three")
        await served.listener.look()

        assert 200 == await status_of(served.url, folder.a_caller(), "Bearer three")
        assert 401 == await status_of(served.url, folder.a_caller(), "Bearer one")
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await status_of(served.url, before, "Bearer three")


async def test_connections_from_before_end_after_their_call(folder: Folder) -> None:
    """An authority that was taken out does not stay in on an old connection."""
    tls = folder.a_caller()
    async with (
        listening(folder.files) as served,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls),
            headers={"Authorization": "Bearer one"},
        ) as session,
    ):
        async with session.get(f"{served.url}/metrics") as response:
            assert "close" != response.headers.get("Connection")
        folder.write("one")
        await served.listener.look()
        async with session.get(f"{served.url}/metrics") as response:
            assert 200 == response.status
            assert "close" == response.headers["Connection"]


@pytest.mark.parametrize(
    ("file", "broken"), [("tls.key", b""), ("clients.crt", b"x"), ("tokens", b"\n\n")]
)
async def test_broken_files_change_nothing(
    folder: Folder, file: str, broken: bytes
) -> None:
    """Half a rotation does not lock everybody out, nor let anybody in."""
    async with listening(folder.files) as served:
        (folder.path / file).write_bytes(broken)
        await served.listener.look()
        assert 200 == await status_of(served.url, folder.a_caller(), "Bearer one")
        assert 401 == await status_of(served.url, folder.a_caller(), "Bearer ")

        (folder.path / file).unlink()
        await served.listener.look()
        assert 200 == await status_of(served.url, folder.a_caller(), "Bearer one")


@contextlib.contextmanager
def few_descriptors(left: int) -> Iterator[None]:
    """Have this process open no more files than so many inside the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.open(os.devnull, os.O_RDONLY)]
    top = held[0] + 64
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(top, soft), hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(left):
            os.close(held.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held:
            os.close(descriptor)


class Greedy(CredentialFiles):
    """Files of which, once they are read, no descriptor is left for anything else."""

    taken: ClassVar[contextlib.ExitStack | None] = None

    def credentials(self, contents: Contents) -> Credentials:
        """Read them."""
        read = super().credentials(contents)
        if self.taken is not None:
            self.taken.enter_context(few_descriptors(0))
        return read


@pytest.mark.parametrize("late", [False, True], ids=["to read", "to listen"])
async def test_look_without_descriptors_is_not_the_last(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, *, late: bool
) -> None:
    """It changes nothing: neither half of what is new is served."""
    async with listening(Greedy(*attrs.astuple(folder.files))) as served:
        before = folder.a_caller()
        folder.authority = trustme.CA()
        folder.write("three")
        with contextlib.ExitStack() as taken, monkeypatch.context() as patch:
            if late:
                patch.setattr(Greedy, "taken", taken)
            else:
                taken.enter_context(few_descriptors(1))
            await served.listener.look()
        assert 200 == await status_of(served.url, before, "Bearer one")
        assert 401 == await status_of(served.url, before, "Bearer three")

        await served.listener.look()
        assert 200 == await status_of(served.url, folder.a_caller(), "Bearer three")


@pytest.mark.parametrize("error", [asyncio.CancelledError, ZeroDivisionError])
async def test_look_that_ends_unexpectedly_is_not_the_last(
    folder: Folder, error: type[BaseException]
) -> None:
    """A library may break down, or cancel what it is asked for."""

    class Breaking(CredentialFiles):
        def credentials(self, contents: Contents) -> Credentials:
            if breaks.is_set():
                raise error
            return super().credentials(contents)

    breaks = asyncio.Event()
    async with listening(Breaking(*attrs.astuple(folder.files))) as served:
        folder.write("three")
        breaks.set()
        await served.listener.look()
        breaks.clear()
        await served.listener.look()
        assert 200 == await status_of(served.url, folder.a_caller(), "Bearer three")


@pytest.mark.parametrize(
    ("file", "broken"),
    [("tls.crt", b""), ("tls.key", b"x"), ("clients.crt", b""), ("tokens", b"")],
)
async def test_broken_files_at_the_start(
    folder: Folder, file: str, broken: bytes
) -> None:
    """A driver that cannot be secured as it was told is not served at all."""
    (folder.path / file).write_bytes(broken)
    with pytest.raises(CredentialsUnusable) as raised:
        async with listening(folder.files):
            pass

    named = "tls.crt" if file == "tls.key" else file
    assert str(folder.path / named) in str(raised.value)


async def test_a_file_that_is_missing(folder: Folder) -> None:
    """It is named."""
    (folder.path / "tokens").unlink()
    with pytest.raises(CredentialsUnusable, match="tokens: No such file"):
        async with listening(folder.files):
            pass


async def test_tokens_without_tls(folder: Folder) -> None:
    """Behind something that does the TLS, tokens alone make sense."""
    files = CredentialFiles(tokens=folder.path / "tokens")
    async with listening(files) as served:
        assert 200 == await status_of(served.url, None, "Bearer one")
        assert 401 == await status_of(served.url)


async def test_without_files_everybody_may_call() -> None:
    """As it is with a driver on the loopback interface."""
    async with listening(CredentialFiles()) as served:
        assert 200 == await status_of(served.url)
