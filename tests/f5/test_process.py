"""The driver as a process: flags, TLS, HTTP, an orderly end."""

import signal
import ssl

from collections.abc import Sequence
from pathlib import Path

import aiohttp
import trustme

from tests.f5.requests import MEMBER, WEB, an_identity
from tests.f5.server import Bigip, a_bigip
from tests.webhooks.processes import running
from tests.webhooks.requests import ADDRESS, RECORD


async def _ensured(url: str, bigip: Bigip) -> str:
    """Have a member ensured; return the answer's status."""
    body: dict[str, object] = {
        "recordID": RECORD,
        "lbInfo": an_identity(bigip),
        "backendAddr": ADDRESS,
    }
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/ensureBackend", json=body) as response,
    ):
        return str((await response.json())["status"])


def _tls(authority: trustme.CA) -> ssl.SSLContext:
    """Return how a unit shows a certificate of an authority."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    return tls


def _flags(secret: Path, ca_file: Path) -> Sequence[str]:
    """Return the flags of a driver."""
    return (
        "--allow-devices=127.0.0.1:*",
        f"--credentials={secret}",
        f"--device-ca-file={ca_file}",
    )


async def test_another_authority_needs_no_restart(secret: Path, tmp_path: Path) -> None:
    """A unit with a new certificate is trusted as soon as the file has its authority."""
    old, new, ca_file = trustme.CA(), trustme.CA(), tmp_path / "ca.crt"
    old.cert_pem.write_to_path(ca_file)
    flags = _flags(secret, ca_file)
    async with a_bigip(_tls(old)) as bigip, running("webhooks.f5", *flags) as driver:
        said = [await _ensured(driver.url, bigip)]
        await bigip.stop()
        await bigip.start(_tls(new))
        said.append(await _ensured(driver.url, bigip))
        new.cert_pem.write_to_path(ca_file)
        said.append(await _ensured(driver.url, bigip))

    assert ["Succ", "Fail", "Succ"] == said


async def test_a_process_serves_and_ends_in_order(secret: Path, tmp_path: Path) -> None:
    """It verifies the unit, registers, and when it ends saves and logs out."""
    authority, ca_file = trustme.CA(), tmp_path / "ca.crt"
    authority.cert_pem.write_to_path(ca_file)
    flags, tls = _flags(secret, ca_file), _tls(authority)
    async with a_bigip(tls) as bigip, running("webhooks.f5", *flags) as driver:
        status = await _ensured(driver.url, bigip)
        driver.child.send_signal(signal.SIGTERM)

        assert ("Succ", 0) == (status, await driver.child.wait())
        assert [MEMBER] == list(bigip.unit.saved.pools[WEB].members)
        assert {} == bigip.tokens
