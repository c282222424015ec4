"""Who may connect to the driver as an Envoy: certificates on both sides."""

import contextlib

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import trustme

from lbcf.runtime.flags import BindAddress
from lbcf.sdk import RetryAfter
from tests.envoy.proxy import Envoy
from tests.envoy.rig import HERE
from tests.envoy.stage import Stage, are_connected
from tests.haproxy.waiting import until
from tests.webhooks.troubled import settled
from webhooks.envoy.driver import EnvoyDriver
from webhooks.envoy.keeper import Keeper
from webhooks.envoy.management import Files
from webhooks.envoy.store import Store


pytestmark = pytest.mark.envoy


def issued(
    ca: trustme.CA, folder: Path, name: str, until: datetime | None = None
) -> tuple[Path, Path]:
    """Write a certificate, which may end at a moment, and its key."""
    made = ca.issue_cert(name, not_after=until)
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    made.cert_chain_pems[0].write_to_path(certificate)
    made.private_key_pem.write_to_path(key)
    return certificate, key


def transport(pair: tuple[Path, Path] | None, ca: Path) -> Mapping[str, object]:
    """Return how an Envoy speaks TLS to the driver."""
    own = [
        {"certificate_chain": {"filename": str(c)}, "private_key": {"filename": str(k)}}
        for c, k in ([pair] if pair else [])
    ]
    said = {
        "tls_certificates": own,
        "validation_context": {"trusted_ca": {"filename": str(ca)}},
        "alpn_protocols": ["h2"],
    }
    kind = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"type.googleapis.com/{kind}",
            "common_tls_context": said,
        },
    }


async def serve(stage: Stage, files: Files) -> EnvoyDriver:
    """Start a driver that serves Envoys over TLS."""
    keeper = Keeper(
        Store(stage.folder),
        BindAddress("127.0.0.1", stage.port),
        files,
        timedelta(seconds=1),
    )
    driver = EnvoyDriver(keeper, ("*",), HERE, timedelta(seconds=1.5))
    stage.drivers.append(driver)
    await driver.start()
    return driver


@contextlib.asynccontextmanager
async def connecting(
    stage: Stage, tls: Mapping[str, object], node: str = "envoy-1"
) -> AsyncIterator[Envoy]:
    """Run an Envoy for a block; after it, the driver knows that it is there no more.

    As long as it does not know, what that one has acknowledged counts.
    """
    async with Envoy.running(stage.relay.port, node, tls) as envoy:
        yield envoy
    await until(partial(are_connected, stage.drivers[-1], ""))


async def test_only_envoys_with_a_certificate_are_served(
    stage: Stage, tmp_path: Path
) -> None:
    """One without, one of another authority, and one that has expired learn nothing."""
    ours, theirs = trustme.CA(), trustme.CA()
    ca = tmp_path / "ca.pem"
    ours.cert_pem.write_to_path(ca)
    certificate, key = issued(ours, tmp_path, "driver.example")
    driver = await serve(stage, Files(certificate, key, ca))

    past = datetime.now(UTC) - timedelta(days=1)
    strangers = (
        None,
        issued(theirs, tmp_path, "stranger"),
        issued(ours, tmp_path, "expired", past),
    )
    for pair in strangers:
        async with Envoy.running(stage.relay.port, tls=transport(pair, ca)) as envoy:
            with pytest.raises(RetryAfter, match="no Envoy of fleet"):
                await driver.create_load_balancer(stage.create())
            assert [] == await envoy.listeners()
    good = transport(issued(ours, tmp_path, "envoy-1"), ca)
    async with Envoy.running(stage.relay.port, tls=good) as envoy:
        await settled(lambda: driver.create_load_balancer(stage.create()))
        assert [f"lbcf/{stage.listen}"] == await envoy.listeners()


async def test_renewed_certificates_count_from_the_next_connection(
    stage: Stage, tmp_path: Path
) -> None:
    """An authority is replaced while the driver runs; files in the making change nothing."""
    before, after = trustme.CA(), trustme.CA()
    ca = tmp_path / "ca.pem"
    before.cert_pem.write_to_path(ca)
    certificate, key = issued(before, tmp_path, "driver.example")
    driver = await serve(stage, Files(certificate, key, ca))
    old = transport(issued(before, tmp_path, "old"), ca)
    async with connecting(stage, old) as envoy:
        await settled(lambda: driver.create_load_balancer(stage.create()))
        assert [f"lbcf/{stage.listen}"] == await envoy.listeners()

    key.rename(tmp_path / "away")
    async with connecting(stage, old) as envoy:
        await settled(lambda: driver.ensure_load_balancer(stage.remake()))
        assert [f"lbcf/{stage.listen}"] == await envoy.listeners()

    issued(after, tmp_path, "driver.example")
    after.cert_pem.write_to_path(ca)
    new = transport(issued(after, tmp_path, "new"), ca)
    async with connecting(stage, new, "envoy-2") as envoy:
        await settled(lambda: driver.ensure_load_balancer(stage.remake()))
        assert [f"lbcf/{stage.listen}"] == await envoy.listeners()
    late = transport(issued(before, tmp_path, "late"), ca)
    async with connecting(stage, late, "envoy-3") as envoy:
        with pytest.raises(RetryAfter):
            await driver.ensure_load_balancer(stage.remake())
        assert [] == await envoy.listeners()
