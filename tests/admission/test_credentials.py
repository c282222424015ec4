"""How the certificate is shared, renewed and taken up while the server runs."""

import asyncio
import contextlib
import hashlib
import re
import shlex
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
from lbcf.admission.flags import Webhook
from lbcf.admission.objects import SECRETS, WEBHOOK_CONFIGURATIONS, to_base64
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import connect
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.flags import BindAddress
from tests.e2e.stage import eventually
from tests.lab.cluster import Cluster
from tests.lab.demo.stack import beside
from tests.manifests import accounts
from tests.manifests.documents import ROOT
from tests.patience import PATIENCE


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
    name = f"{namespace}.lbcf.tkestack.io"
    async with _installed(control_plane, name) as client:
        yield Shop(client, ObjectKey(namespace, "tls"), ObjectKey("", name))


@pytest.fixture(name="shipped")
async def _shipped(control_plane: Cluster, tmp_path: Path) -> AsyncIterator[Shop]:
    """The Secret that ships, seen by who ships: with the rights of its account alone."""
    accounts.apply(control_plane)
    connection = await connect(
        str(accounts.login(control_plane, "lbcf-admission", tmp_path))
    )
    flags = Webhook(BindAddress(None, 0))
    async with (
        _installed(control_plane, flags.configuration),
        connected(connection, SystemClock()) as client,
    ):
        secret = ObjectKey(accounts.NAMESPACE, flags.secret)
        try:
            yield Shop(client, secret, ObjectKey("", flags.configuration))
        finally:
            # Others share the cluster: whoever starts there next makes its own.
            emptied = ("--type=merge", "-p", '{"data": null}')
            where = ("-n", secret.namespace, f"secret/{secret.name}")
            control_plane.kubectl("patch", *where, *emptied)


@contextlib.asynccontextmanager
async def _installed(cluster: Cluster, name: str) -> AsyncIterator[KubeClient]:
    """A configuration of webhooks, and an administrator."""
    webhook = {
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/validate"},
    }
    webhooks = [{**webhook, "name": f"{name}.lbcf.tkestack.io"} for name in "ab"]
    connection = await connect(str(cluster.kubeconfig))
    async with connected(connection, SystemClock()) as client:
        body = {"metadata": {"name": name}, "webhooks": webhooks}
        await client.create(WEBHOOK_CONFIGURATIONS, "", body)
        try:
            yield client
        finally:
            await client.delete(WEBHOOK_CONFIGURATIONS, ObjectKey("", name))


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


@contextlib.asynccontextmanager
async def _keeping(shop: Shop) -> AsyncIterator[Keeper]:
    """A replica serves a certificate, and looks after it."""
    keeper = Keeper(shop.source(), Hasty())
    await keeper.load()
    async with beside(keeper.keep()):
        yield keeper


def _commands() -> list[list[str]]:
    """The commands of the runbook that have a certificate made anew."""
    text = (ROOT / "docs" / "runbooks.md").read_text()
    found = re.findall(
        r"^\$ (kubectl .* patch secret lbcf-admission-tls .*)", text, re.MULTILINE
    )
    return [shlex.split(one, comments=True)[1:] for one in found]


@pytest.mark.cluster
async def test_runbook_has_a_certificate_made_anew(
    control_plane: Cluster, shipped: Shop
) -> None:
    """By a process that runs: first by the same authority, then with another one."""
    renewing, emptying = _commands()
    async with _keeping(shipped):
        first = await shipped.kept()
        control_plane.kubectl(*renewing)
        second = await _made_after(first, shipped)
        control_plane.kubectl(*emptying)
        third = await _made_after(second, shipped)

    assert first.authorities == second.authorities
    assert b"" not in attrs.astuple(third)
    assert not set(attrs.astuple(second)) & set(attrs.astuple(third))


async def _made_after(old: Bundle, shop: Shop) -> Bundle:
    """What is kept once there is another certificate, and the API server trusts it."""
    kept = old

    async def renewed() -> bool:
        nonlocal kept
        kept = await shop.kept()
        trusted = (to_base64(kept.authorities),) * 2
        return kept.leaf not in {b"", old.leaf} and trusted == await shop.trusted()

    await eventually(renewed, "another certificate is made")
    return kept


@pytest.mark.cluster
async def test_secret_that_was_deleted_is_told_with_what_to_do(
    control_plane: Cluster, shipped: Shop
) -> None:
    """Our account may create none; once it is applied again a replica fills it."""
    where = ("-n", shipped.secret.namespace, f"secret/{shipped.secret.name}")
    control_plane.kubectl("delete", *where)
    keeper = Keeper(shipped.source(), Hasty())

    async def told() -> str:
        return (keeper.check() or "").partition(": apply ")[2]

    async def well() -> bool:
        return keeper.check() is None

    async with beside(keeper.load()):
        file, *_ = (await eventually(told, "what to do is told")).split()
        control_plane.kubectl("apply", "-f", ROOT / file)
        await eventually(well, "the Secret is filled")

    assert "manifests/webhook/service.yaml" == file


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


async def test_look_that_is_cut_below_is_not_the_last(tmp_path: Path) -> None:
    """A library may cancel a request: the certificate is looked after all the same."""
    files = _write(tmp_path)
    cut, looked = asyncio.Event(), asyncio.Event()

    class Cutting:
        async def current(self) -> Serving:
            if keeper.end() is None:
                return await files.current()
            if not cut.is_set():
                cut.set()
                raise asyncio.CancelledError
            looked.set()
            return await files.current()

    keeper = Keeper(Cutting(), Hasty())
    await keeper.load()
    async with beside(keeper.keep()), asyncio.timeout(PATIENCE):
        await looked.wait()


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
