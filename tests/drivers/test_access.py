"""TLS and tokens towards drivers: real handshakes, each trouble with its own reason."""

import asyncio

from collections.abc import AsyncIterator, Callable

import aiohttp
import attrs
import pytest
import trustme

from prometheus_client import CollectorRegistry

from lbcf.core.model.access import Secret
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver, Security
from lbcf.drivers.access import DriverAllowlist
from lbcf.drivers.errors import (
    CaUnusable,
    ConnectionLost,
    DriverError,
    NotAllowed,
    NotTrusted,
    SecretMissing,
    SecretUnusable,
    TokenRefused,
    WeRefused,
)
from lbcf.drivers.pool import DriverPool
from lbcf.drivers.url_allowlist import parse_allowed_url
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.spans import parse_trace
from tests.drivers.secured import (
    LONG_AGO,
    TOKEN,
    Drawer,
    a_secret,
    a_tls_secret,
    a_token_secret,
    hearing,
    pem_of,
    secured,
    server_tls,
    telling_why,
)
from tests.drivers.servers import (
    BESIDE_US,
    PATIENT,
    REQUEST,
    a_driver,
    read_request,
    replying,
    response,
    serving,
)
from tests.drivers.test_resolver import NameServer


_TLS = "kubernetes.io/tls"
_SERVICE_ACCOUNT = "kubernetes.io/service-account-token"


@pytest.fixture(name="ours", scope="module")
def _ours() -> trustme.CA:
    """The authority that everybody trusts here."""
    return trustme.CA()


@pytest.fixture(name="drawer")
def _drawer() -> Drawer:
    """Secrets; none at first."""
    return Drawer()


@pytest.fixture(name="safe")
async def _safe(drawer: Drawer) -> AsyncIterator[DriverPool]:
    """A pool that looks Secrets up in the drawer."""
    registry = CollectorRegistry()
    async with DriverPool(
        SystemClock(), registry, find=drawer.find, allowlist=BESIDE_US
    ) as pool:
        yield pool


async def call(pool: DriverPool, driver: LoadBalancerDriver) -> None:
    """Call the driver once."""
    await pool.call(driver, Operation.ENSURE_BACKEND, REQUEST, timeout=PATIENT)


async def refusal(pool: DriverPool, driver: LoadBalancerDriver) -> DriverError:
    """Call the driver in vain; return the error, which quotes no secret."""
    with pytest.raises(DriverError) as raised:
        await call(pool, driver)
    assert TOKEN not in str(raised.value)
    return raised.value


async def test_ca_bundle_certificate_and_token(
    safe: DriverPool, drawer: Drawer, ours: trustme.CA
) -> None:
    """All of it at once: the driver sees who calls, and we see that it is the driver."""
    drawer.put(a_tls_secret(ours.issue_cert("controller.lbcf")))
    drawer.put(a_token_secret())
    async with hearing(server_tls(ours.issue_cert("localhost"), ours)) as heard:
        await call(safe, secured(heard.url, ours, certificate=True, token=True))

    assert [(("DNS", "controller.lbcf"),)] == heard.subjects
    assert f"Authorization: Bearer {TOKEN}\r\n".encode() in heard.requests[0]


async def test_server_name_stands_for_the_host(
    safe: DriverPool, ours: trustme.CA
) -> None:
    """A driver that is reached by another name is known by its own."""
    async with hearing(server_tls(ours.issue_cert("driver.test"))) as heard:
        await call(safe, secured(heard.url, ours, server_name="driver.test"))

    assert 1 == len(heard.requests)


async def test_an_intermediate_authority_may_be_the_bundle(
    safe: DriverPool, ours: trustme.CA
) -> None:
    """What is named is trusted, whoever signed it."""
    below = ours.create_child_ca()
    async with hearing(server_tls(below.issue_cert("localhost"))) as heard:
        await call(safe, secured(heard.url, below))

    assert 1 == len(heard.requests)


@pytest.mark.parametrize(
    ("issue", "told"),
    [
        pytest.param(
            lambda ours: ours.issue_cert("localhost", not_after=LONG_AGO),
            "its certificate has expired",
            id="expired",
        ),
        pytest.param(
            lambda ours: ours.issue_cert("elsewhere.test"),
            "its certificate is for another name",
            id="wrong name",
        ),
        pytest.param(
            lambda _ours: trustme.CA().issue_cert("localhost"),
            "its certificate is not signed by anybody trusted",
            id="unknown authority",
        ),
    ],
)
async def test_certificates_that_are_not_good(
    safe: DriverPool,
    ours: trustme.CA,
    issue: Callable[[trustme.CA], trustme.LeafCert],
    told: str,
) -> None:
    """Nothing is sent, and the reason is told in one sentence."""
    async with hearing(server_tls(issue(ours))) as heard:
        error = await refusal(safe, secured(heard.url, ours))

    assert isinstance(error, NotTrusted)
    assert told in str(error)
    assert error.definite
    assert [] == heard.requests


async def test_the_systems_authorities_are_out_where_a_bundle_is_given(
    safe: DriverPool,
    ours: trustme.CA,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A public authority cannot vouch for a driver that has its own."""
    system = tmp_path_factory.mktemp("system") / "ca.pem"
    system.write_bytes(pem_of(ours))
    monkeypatch.setenv("SSL_CERT_FILE", str(system))
    async with hearing(server_tls(ours.issue_cert("localhost"))) as heard:
        error = await refusal(safe, secured(heard.url, trustme.CA()))

    assert isinstance(error, NotTrusted)


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        ("none", "it wants a client certificate"),
        ("stranger", "it does not know who signed our client certificate"),
        ("expired", "it finds our client certificate expired"),
    ],
)
async def test_drivers_that_refuse_our_certificate(
    safe: DriverPool, drawer: Drawer, ours: trustme.CA, shown: str, told: str
) -> None:
    """The driver's alert becomes a sentence; nothing was done."""
    if shown == "stranger":
        drawer.put(a_tls_secret(trustme.CA().issue_cert("me")))
    elif shown == "expired":
        drawer.put(a_tls_secret(ours.issue_cert("me", not_after=LONG_AGO)))
    with telling_why(server_tls(ours.issue_cert("localhost"), ours)) as url:
        error = await refusal(safe, secured(url, ours, certificate=shown != "none"))

    assert isinstance(error, WeRefused)
    assert told in str(error)
    assert error.definite


async def test_a_lost_connection_hints_at_our_certificate(
    safe: DriverPool, drawer: Drawer, ours: trustme.CA
) -> None:
    """Servers in Python refuse without a word, and nobody knows what they did."""
    drawer.put(a_tls_secret(trustme.CA().issue_cert("me")))
    async with hearing(server_tls(ours.issue_cert("localhost"), ours)) as heard:
        error = await refusal(safe, secured(heard.url, ours, certificate=True))

    assert isinstance(error, ConnectionLost)
    assert "clientCertificateSecretRef" in str(error)


@pytest.mark.parametrize("status", [b"401 Unauthorized", b"403 Forbidden"])
async def test_a_token_that_is_not_good(pool: DriverPool, status: bytes) -> None:
    """The reason says where to look."""
    async with serving(replying(response(b"", status))) as url:
        error = await refusal(pool, a_driver(url))

    assert isinstance(error, TokenRefused)
    assert "spec.auth" in str(error)


@pytest.mark.parametrize("name", ["certificate", "token"])
async def test_a_secret_that_is_not_there(
    safe: DriverPool, drawer: Drawer, ours: trustme.CA, name: str
) -> None:
    """Nothing is sent without the credentials that it should have."""
    drawer.put(a_tls_secret(ours.issue_cert("me")))
    drawer.put(a_token_secret())
    del drawer.held[name]
    async with hearing(server_tls(ours.issue_cert("localhost"))) as heard:
        driver = secured(heard.url, ours, certificate=True, token=True)
        error = await refusal(safe, driver)
        judged = safe.refusal(driver)

    assert isinstance(error, SecretMissing)
    assert f"Secret web/{name} is not there" in str(error)
    assert str(error) == str(judged)
    assert error.definite
    assert [] == heard.requests


def _pair(ours: trustme.CA) -> dict[str, bytes]:
    """A certificate with its key."""
    return dict(a_tls_secret(ours.issue_cert("me")).values)


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (a_secret("token", "Opaque", {}), "it has no key token"),
        (a_token_secret(""), "visible ASCII"),
        (a_token_secret("a\nX-Evil: b"), "visible ASCII"),
        (a_secret("token", "Opaque", {"token": b"\xff"}), "visible ASCII"),
        (a_secret("token", _SERVICE_ACCOUNT, {"token": b"x"}), "it must be Opaque"),
        (a_secret("certificate", "Opaque", {}), "it must be kubernetes.io/tls"),
        (a_secret("certificate", _TLS, {"tls.crt": b""}), "it has no key tls.key"),
        (
            a_secret("certificate", _TLS, {"tls.crt": b"x", "tls.key": b"y"}),
            "no PEM certificate",
        ),
    ],
)
async def test_secrets_that_cannot_be_used(
    safe: DriverPool, drawer: Drawer, ours: trustme.CA, broken: Secret, told: str
) -> None:
    """Each defect is named, with the Secret; nothing of it is quoted or sent."""
    drawer.put(a_tls_secret(ours.issue_cert("me")))
    drawer.put(a_token_secret())
    drawer.put(broken)
    async with hearing(server_tls(ours.issue_cert("localhost"))) as heard:
        error = await refusal(
            safe, secured(heard.url, ours, certificate=True, token=True)
        )

    assert isinstance(error, SecretUnusable)
    assert f"Secret {broken.meta.key}" in str(error)
    assert told in str(error)
    assert [] == heard.requests


async def test_a_key_of_another_certificate(
    safe: DriverPool, drawer: Drawer, ours: trustme.CA
) -> None:
    """A half-finished rotation is told before a handshake fails."""
    mixed = _pair(ours) | {"tls.key": _pair(ours)["tls.key"]}
    drawer.put(a_secret("certificate", "kubernetes.io/tls", mixed))
    error = await refusal(safe, secured("https://localhost:1", ours, certificate=True))

    assert isinstance(error, SecretUnusable)


@pytest.mark.parametrize("bundle", [b"none", b"\xff\xfe"])
async def test_a_bundle_that_is_none(safe: DriverPool, bundle: bytes) -> None:
    """The system's authorities do not step in for it."""
    driver = attrs.evolve(
        a_driver("https://localhost:1"), security=Security(ca_bundle=bundle)
    )
    assert isinstance(await refusal(safe, driver), CaUnusable)


async def test_a_new_token_counts_from_the_next_call_on(
    safe: DriverPool, drawer: Drawer
) -> None:
    """A rotation needs no restart, and cuts no call that is under way."""
    drawer.put(a_token_secret("first", 1))
    arrived, held = asyncio.Event(), asyncio.Event()
    requests: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        arrived.set()
        if len(requests) == 1:
            await held.wait()
        writer.write(response())

    async with serving(talk) as url:
        driver = secured(url, token=True)
        under_way = asyncio.create_task(call(safe, driver))
        await arrived.wait()
        drawer.put(a_token_secret("second", 2))
        await call(safe, driver)
        held.set()
        await under_way

    assert b"Bearer first\r\n" in requests[0]
    assert b"Bearer second\r\n" in requests[1]


async def test_a_new_certificate_gets_connections_of_its_own(
    safe: DriverPool, drawer: Drawer, ours: trustme.CA
) -> None:
    """What an old certificate has opened is not used again."""
    async with hearing(server_tls(ours.issue_cert("localhost"), ours)) as heard:
        driver = secured(heard.url, ours, certificate=True)
        for version, name in enumerate(["old.test", "old.test", "new.test"], 1):
            drawer.put(a_tls_secret(ours.issue_cert(name), min(version, 2)))
            if version != 2:
                await call(safe, driver)

    assert [(("DNS", "old.test"),), (("DNS", "new.test"),)] == heard.subjects


async def test_calls_are_traced(pool: DriverPool) -> None:
    """Each call has a trace of its own."""
    requests: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        writer.write(response())

    async with serving(talk) as url:
        await call(pool, a_driver(url))
        await call(pool, a_driver(url))

    traces = {
        parse_trace(connections.partition(": ")[2])
        for request in requests
        for connections in request.decode().split("\r\n")
        if connections.startswith("traceparent: ")
    }
    assert 2 == len(traces - {None})


async def test_places_that_are_not_allowed_are_not_called() -> None:
    """A tenant's driver may be where the operator says, and nowhere else."""
    seen: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))

    allowed_urls = (parse_allowed_url("https://*.drivers.svc"),)
    registry = CollectorRegistry()
    async with (
        DriverPool(
            SystemClock(), registry, allowlist=DriverAllowlist(allowed_urls)
        ) as pool,
        serving(talk) as url,
    ):
        error = await refusal(pool, a_driver(url))
        judged = pool.refusal(a_driver("https://a.drivers.svc:1234/path"))

    assert isinstance(error, NotAllowed)
    assert "--driver-url-allow" in str(error)
    assert [] == seen
    assert judged is None


async def test_a_token_is_not_sent_unencrypted() -> None:
    """Outside of the cluster it goes by https, or where the operator says http."""
    registry = CollectorRegistry()
    driver = secured("http://driver.test", token=True)
    allowlist = DriverAllowlist((parse_allowed_url("http://driver.test"),))
    async with (
        DriverPool(SystemClock(), registry) as plain,
        DriverPool(SystemClock(), CollectorRegistry(), allowlist=allowlist) as told,
    ):
        error = plain.refusal(driver)
        named = told.refusal(driver)

    assert isinstance(error, NotAllowed)
    assert "use https" in str(error)
    assert isinstance(named, SecretMissing)


async def test_no_call_takes_a_token_along_unencrypted(
    drawer: Drawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver hears nothing at all, unless the operator says http: then the token."""
    monkeypatch.setattr(aiohttp, "AsyncResolver", lambda: NameServer(["127.0.0.1"]))
    drawer.put(a_token_secret())
    heard: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await read_request(reader))
        writer.write(response())

    def pool(pattern: str) -> DriverPool:
        patterns = (pattern, "*://127.0.0.1")  # where the name leads to, beside us
        allowlist = DriverAllowlist(tuple(map(parse_allowed_url, patterns)))
        return DriverPool(
            SystemClock(), CollectorRegistry(), find=drawer.find, allowlist=allowlist
        )

    async with (
        serving(talk) as url,
        pool("*://driver.test") as plain,
        pool("http://driver.test") as told,
    ):
        driver = secured(url.replace("127.0.0.1", "driver.test"), token=True)
        error = await refusal(plain, driver)
        before = list(heard)
        await call(told, driver)

    assert isinstance(error, NotAllowed)
    assert [] == before
    assert f"Authorization: Bearer {TOKEN}\r\n".encode() in heard[0]


async def test_drivers_of_other_namespaces_than_the_operators_are_not_called() -> None:
    """Where tenants are to have none at all."""
    allowlist = DriverAllowlist(namespaces=frozenset({"kube-system"}))
    async with DriverPool(
        SystemClock(), CollectorRegistry(), allowlist=allowlist
    ) as pool:
        error = pool.refusal(a_driver("https://driver.test"))

    assert isinstance(error, NotAllowed)
    assert "--driver-namespaces" in str(error)
