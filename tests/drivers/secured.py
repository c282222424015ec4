"""Drivers behind TLS, with certificates of authorities that live as long as a test."""

import asyncio
import base64
import contextlib
import socket
import ssl
import threading

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime

import attrs
import trustme

from lbcf.core.model.access import Lack, NoSecret, Secret
from lbcf.core.model.resources import LoadBalancerDriver, Meta, SecretKey, Security
from lbcf.core.model.values import ObjectKey, Uid
from tests.drivers.servers import a_driver, read_request, response


LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
TOKEN = "s3cr3t-Token"  # noqa: S105 - of these tests


def pem_of(authority: trustme.CA) -> bytes:
    """The certificate of an authority."""
    return authority.cert_pem.bytes()


def a_tls_secret(cert: trustme.LeafCert, version: int = 1) -> Secret:
    """A client certificate as Kubernetes keeps it."""
    chain = b"".join(blob.bytes() for blob in cert.cert_chain_pems)
    values = {"tls.crt": chain, "tls.key": cert.private_key_pem.bytes()}
    return a_secret("certificate", "kubernetes.io/tls", values, version)


def a_token_secret(token: str = TOKEN, version: int = 1) -> Secret:
    """A token as Kubernetes keeps it, with the newline of an editor."""
    return a_secret("token", "Opaque", {"token": f"{token}\n".encode()}, version)


def a_secret(
    name: str, kind: str, values: Mapping[str, bytes], version: int = 1
) -> Secret:
    """A Secret in the namespace of the tests' driver."""
    meta = Meta(ObjectKey("web", name), Uid(f"uid-{name}"), str(version))
    return Secret(meta, kind, values)


@attrs.define
class Drawer:
    """Secrets that are there, by name; a pool looks them up here."""

    held: dict[str, Secret] = attrs.Factory(dict)

    def put(self, secret: Secret) -> None:
        """Create or change one."""
        self.held[secret.meta.key.name] = secret

    def find(self, key: ObjectKey) -> Secret | NoSecret:
        """Return one of the driver's namespace."""
        assert "web" == key.namespace
        return self.held.get(key.name) or NoSecret(Lack.MISSING)


def secured(
    url: str,
    authority: trustme.CA | None = None,
    *,
    certificate: bool = False,
    token: bool = False,
    server_name: str = "",
) -> LoadBalancerDriver:
    """The tests' driver at this URL, with spec.tls and spec.auth."""
    security = Security(
        ca_bundle=b"" if authority is None else pem_of(authority),
        server_name=server_name,
        client_certificate="certificate" if certificate else "",
        token=SecretKey("token", "token") if token else None,
    )
    return attrs.evolve(a_driver(url), security=security)


def server_tls(
    cert: trustme.LeafCert, clients: trustme.CA | None = None
) -> ssl.SSLContext:
    """How a server shows its certificate; with `clients` it demands theirs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    cert.configure_cert(context)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        clients.configure_trust(context)
    return context


@attrs.define
class Heard:
    """A server that says Succ, and what it has heard.

    Attributes:
        url: https, by name.
        requests: heads and bodies.
        subjects: common names of the client certificates, per connection.
    """

    url: str = ""
    requests: list[bytes] = attrs.Factory(list)
    subjects: list[object] = attrs.Factory(list)

    async def talk(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer everything on a connection."""
        peer = writer.get_extra_info("peercert") or {}
        self.subjects.append(peer.get("subjectAltName"))
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self.requests.append(await read_request(reader))
                writer.write(response())
        writer.close()


@contextlib.asynccontextmanager
async def hearing(context: ssl.SSLContext) -> AsyncIterator[Heard]:
    """Serve over TLS on the loopback interface."""
    heard = Heard()
    server = await asyncio.start_server(heard.talk, "127.0.0.1", 0, ssl=context)
    heard.url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
    try:
        yield heard
    finally:
        server.close()


def _shake_hand(context: ssl.SSLContext, taken: socket.socket) -> None:
    """Take one handshake to its end, and let the caller read what was said."""
    secure = context.wrap_socket(taken, server_side=True, do_handshake_on_connect=False)
    with secure, contextlib.suppress(OSError):
        try:
            secure.do_handshake()
        except ssl.SSLError:
            # To close with bytes unread would reset the connection, alert and all.
            secure.shutdown(socket.SHUT_WR)
            while secure.recv(4096):
                pass


@contextlib.contextmanager
def telling_why(context: ssl.SSLContext) -> Iterator[str]:
    """Serve handshakes alone, with OpenSSL on the socket: its alerts do get out."""
    listening = socket.create_server(("127.0.0.1", 0))

    def shake_hands() -> None:
        with contextlib.suppress(OSError):
            while True:
                _shake_hand(context, listening.accept()[0])

    thread = threading.Thread(target=shake_hands)
    thread.start()
    try:
        yield f"https://localhost:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def base64_of(pem: bytes) -> str:
    """As manifests have it."""
    return base64.b64encode(pem).decode()
