"""The manifest that a driver prints: what it serves, and how it is secured."""

import base64

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from lbcf import sdk
from lbcf.sdk.run import run
from tests.sdk.services import PlainDriver


class Draining(PlainDriver):
    """Serves more than it must, and is slow."""

    member_key = sdk.MemberKey.RECORD
    late_effect = timedelta(minutes=2)
    max_concurrent_calls = 4
    timeouts: ClassVar[Mapping[sdk.Operation, timedelta]] = {
        sdk.Operation.DRAIN_BACKEND: timedelta(seconds=2.5)
    }

    async def drain_backend(self, _request: sdk.DrainBackendRequest) -> sdk.Succ:
        """Be done at once."""
        return sdk.Succ()


class Addressing(PlainDriver):
    """Finds addresses itself."""

    async def generate_backend_addr(
        self, _request: sdk.GenerateBackendAddrRequest
    ) -> sdk.Succ:
        """Find one."""
        return sdk.Succ(backend_addr="192.0.2.1:80")


def printed(
    capsys: pytest.CaptureFixture[str], driver: type[sdk.Driver], *flags: str
) -> dict[str, Any]:
    """Run the driver with these flags; return the manifest."""
    run(driver, default_port=9000, argv=flags)
    text = capsys.readouterr().out
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_what_is_served_is_declared(capsys: pytest.CaptureFixture[str]) -> None:
    """Operations with their time-outs, and what else the driver says of itself."""
    found = printed(capsys, Draining, "--print-manifest", "http://driver:9000")

    assert "LoadBalancerDriver" == found["kind"]
    assert {
        "driverType": "Webhook",
        "url": "http://driver:9000",
        "memberKey": "Record",
        "addressSource": "Backend",
        "lateEffectSeconds": 120,
        "maxConcurrentCalls": 4,
        "webhooks": [
            {"name": "healthz", "timeout": "10s"},
            {"name": "ensureBackend", "timeout": "10s"},
            {"name": "deregisterBackend", "timeout": "10s"},
            {"name": "drainBackend", "timeout": "2500ms"},
        ],
    } == found["spec"]


class Batching(Draining):
    """Takes many members at once."""

    batch = sdk.Batch(max_items=50, max_delay=timedelta(milliseconds=250))


def test_batches_are_declared_by_operation(capsys: pytest.CaptureFixture[str]) -> None:
    """Of those on one member that are served."""
    found = printed(capsys, Batching, "--print-manifest", "http://driver:9000")

    shape = {"maxItems": 50, "maxDelayMilliseconds": 250}
    assert {
        "healthz": None,
        "ensureBackend": shape,
        "deregisterBackend": shape,
        "drainBackend": shape,
    } == {one["name"]: one.get("batch") for one in found["spec"]["webhooks"]}


def test_who_finds_addresses_is_asked_for_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The source follows from what is served."""
    found = printed(capsys, Addressing, "--print-manifest", "http://driver:9000")

    assert "Driver" == found["spec"]["addressSource"]


def test_security_is_declared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Flags that secure the driver have their other side in the manifest."""
    authority = tmp_path / "ca.crt"
    authority.write_text("pem")
    found = printed(
        capsys,
        PlainDriver,
        *("--print-manifest", "https://driver:9000", "--tls-cert-file", "tls.crt"),
        *("--client-ca-file", "clients.crt", "--token-file", "tokens"),
        *("--ca-file", str(authority)),
    )

    name = found["metadata"]["name"]
    assert {
        "caBundle": base64.b64encode(b"pem").decode(),
        "clientCertificateSecretRef": {"name": f"{name}-client"},
    } == found["spec"]["tls"]
    reference = {"name": f"{name}-token", "key": "token"}
    assert {"bearerTokenSecretRef": reference} == found["spec"]["auth"]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--print-manifest", "driver:9000"], "write http://HOST:PORT"),
        (
            ["--print-manifest", "http://driver", "--tls-cert-file", "a"],
            "write https://HOST:PORT",
        ),
        (["--client-ca-file", "a"], "need --tls-cert-file"),
        (["--tls-key-file", "a"], "need --tls-cert-file"),
        (
            ["--print-manifest", "http://driver", "--ca-file", "/nowhere/ca"],
            "/nowhere/ca: No such file",
        ),
    ],
)
def test_flags_that_cannot_be_used(
    capsys: pytest.CaptureFixture[str], flags: list[str], told: str
) -> None:
    """One line says what to write; nothing is served."""
    with pytest.raises(SystemExit) as raised:
        run(PlainDriver, default_port=0, argv=flags)

    assert 2 == raised.value.code
    assert told in capsys.readouterr().err
