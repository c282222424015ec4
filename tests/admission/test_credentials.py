"""How the certificate is shared, renewed and taken up while the server runs."""

import asyncio
import contextlib
import hashlib
import ssl

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import attrs
import pytest

from cryptography import x509
from prometheus_client import CollectorRegistry

from lbcf.admission.app import CertificateMetrics
from lbcf.admission.authority import LEAF_LIFE, Bundle, Renewal, renew_bundle
from lbcf.admission.credentials import Files, Keeper, Serving, SharedSecret
from lbcf.admission.objects import SECRETS, WEBHOOK_CONFIGURATIONS, to_base64
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import connect
from lbcf.runtime.clock import SystemClock
from tests.e2e.stage import eventually
from tests.lab.cluster import Cluster


NAMES = ("127.0.0.1",)


class Hasty(SystemClock):
    """A clock whose pauses are short, and whose wall can be set forward."""

    ahead = timedelta(0)

    def now(self) -> datetime:
        """Say what the wall shows."""
        return super().now() + self.ahead

    async def sleep(self, delay: timedelta) -> None:
        """Pause for the thousandth part."""
        await super().sleep(delay / 1000)


@attrs.frozen
class Shop:
    """A Secret and a webhook configuration of a test's own."""

    client: KubeClient
    secret: ObjectKey
    configuration: ObjectKey

    def source(self, clock: Hasty | None = None) -> SharedSecret:
        """One replica's view of them."""
        return SharedSecret(
            self.client,
            self.secret,
            self.configuration.name,
            NAMES,
            clock=clock or Hasty(),
        )

    async def kept(self) -> Bundle:
        """What the Secret holds."""
        return (await self.client.get(SECRETS, self.secret)).bundle

    async def trusted(self) -> tuple[str, ...]:
        """What the API server trusts, per webhook."""
        found = await self.client.get(WEBHOOK_CONFIGURATIONS, self.configuration)
        return found.trusted


@pytest.fixture(name="shop")
async def _shop(control_plane: Cluster, namespace: str) -> AsyncIterator[Shop]:
    """Two webhooks that nobody is asked by."""
    connection = await connect(str(control_plane.kubeconfig))
    key = ObjectKey("", f"{namespace}.lbcf.tkestack.io")
    webhook = {
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/validate"},
    }
    webhooks = [{**webhook, "name": f"{name}.lbcf.tkestack.io"} for name in "ab"]
    async with connected(connection, SystemClock()) as client:
        body = {"metadata": {"name": key.name}, "webhooks": webhooks}
        await client.create(WEBHOOK_CONFIGURATIONS, "", body)
        try:
            yield Shop(client, ObjectKey(namespace, "tls"), key)
        finally:
            await client.delete(WEBHOOK_CONFIGURATIONS, key)


@pytest.mark.cluster
async def test_replicas_share_one_certificate(shop: Shop) -> None:
    """Five start at once: one makes it, all serve it, the API server trusts it."""
    served = await asyncio.gather(*(shop.source().current() for _ in range(5)))
    kept = await shop.kept()

    assert {Serving(kept.leaf, kept.leaf_key)} == set(served)
    assert (to_base64(kept.authorities),) * 2 == await shop.trusted()


@pytest.mark.cluster
async def test_certificate_is_renewed_long_before_its_end(shop: Shop) -> None:
    """By the same authority; what the API server trusts stays."""
    clock = Hasty()
    await shop.source(clock).current()
    before = await shop.kept()
    clock.ahead = LEAF_LIFE * 0.6
    await shop.source(clock).current()
    assert before == await shop.kept()

    clock.ahead = LEAF_LIFE * 0.7
    await shop.source(clock).current()

    after = await shop.kept()
    assert before.leaf != after.leaf
    assert before.authorities == after.authorities


@pytest.mark.cluster
async def test_trust_that_somebody_took_away_is_given_back(shop: Shop) -> None:
    """Whoever applies the manifest anew may lose the caBundle."""
    await shop.source().current()
    path = "/webhooks/1/clientConfig/caBundle"
    lost = [{"op": "remove", "path": path}]
    await shop.client.patch(WEBHOOK_CONFIGURATIONS, shop.configuration, lost)

    await shop.source().current()

    kept = await shop.kept()
    assert (to_base64(kept.authorities),) * 2 == await shop.trusted()


async def _fingerprint(port: int) -> str:
    """The fingerprint of the certificate that is served."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    found: ssl.SSLObject = writer.get_extra_info("ssl_object")
    certificate = found.getpeercert(binary_form=True) or b""
    writer.close()
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        await writer.wait_closed()
    return hashlib.sha256(certificate).hexdigest()


def _write(folder: Path, now: datetime | None = None) -> Files:
    """Put a new certificate where somebody else would, and read it from there."""
    now = now or SystemClock().now()
    made = renew_bundle(Bundle(), Renewal.BOTH, NAMES, now)
    (folder / "tls.crt").write_bytes(made.leaf)
    (folder / "tls.key").write_bytes(made.leaf_key)
    return Files(folder / "tls.crt", folder / "tls.key")


async def test_renewed_files_are_served_without_a_restart(tmp_path: Path) -> None:
    """A new connection gets the new certificate; a broken file leaves the old one."""
    keeper = Keeper(_write(tmp_path), Hasty())
    await keeper.load()
    assert keeper.check() is None
    server = await asyncio.start_server(
        lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=keeper.context
    )
    keeping = asyncio.create_task(keeper.keep())
    try:
        port = server.sockets[0].getsockname()[1]
        first = await _fingerprint(port)
        (tmp_path / "tls.key").write_text("broken")
        await asyncio.sleep(0.1)
        assert first == await _fingerprint(port)
        _write(tmp_path)

        async def served() -> bool:
            return await _fingerprint(port) != first

        await eventually(served, "the new certificate is served")
    finally:
        keeping.cancel()
        server.close()


async def test_missing_files_are_waited_for_and_told(tmp_path: Path) -> None:
    """Readiness names the file; once it is there, all is well."""
    keeper = Keeper(Files(tmp_path / "tls.crt", tmp_path / "tls.key"), Hasty())
    loading = asyncio.create_task(keeper.load())

    async def told() -> bool:
        return "tls.crt" in (keeper.check() or "")

    await eventually(told, "the missing file is told")
    _write(tmp_path)
    await asyncio.wait_for(loading, 30)
    assert keeper.check() is None


async def test_certificate_that_is_over_fails_readiness(tmp_path: Path) -> None:
    """It says since when."""
    clock = Hasty()
    keeper = Keeper(_write(tmp_path), clock)
    await keeper.load()
    clock.ahead = LEAF_LIFE * 1.1

    assert "is over since" in (keeper.check() or "")


async def test_metric_tells_when_the_certificate_that_is_served_ends(
    tmp_path: Path,
) -> None:
    """Of the new one once it is served; before the first one nothing is told."""
    files, clock = _write(tmp_path), Hasty()
    keeper = Keeper(files, clock)
    registry = CollectorRegistry()
    registry.register(CertificateMetrics(keeper.end))
    name = "lbcf_admission_certificate_not_after_seconds"
    assert registry.get_sample_value(name) is None

    await keeper.load()
    assert _end_in(tmp_path) == registry.get_sample_value(name)

    clock.ahead = timedelta(days=1)
    _write(tmp_path, clock.now())
    keeping = asyncio.create_task(keeper.keep())

    async def told() -> bool:
        return registry.get_sample_value(name) == _end_in(tmp_path)

    try:
        await eventually(told, "the end of the new certificate is told")
    finally:
        keeping.cancel()


def _end_in(folder: Path) -> float:
    """Unix time at which the certificate that lies there ends."""
    leaf = x509.load_pem_x509_certificate((folder / "tls.crt").read_bytes())
    return leaf.not_valid_after_utc.timestamp()
