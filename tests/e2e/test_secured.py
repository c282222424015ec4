"""A driver behind TLS, certificates and tokens: Secrets come, change and go meanwhile."""

import base64
import ssl

from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
import trustme

from tests.drivers.secured import base64_of, pem_of
from tests.e2e import objects
from tests.e2e.objects import Whole
from tests.e2e.stage import Stage


pytestmark = pytest.mark.cluster

TOKEN = {"name": "token"}
CERTIFICATE = {"name": "certificate"}


@attrs.define
class Papers:
    """What the driver and its callers show each other."""

    folder: Path
    authority: trustme.CA = attrs.Factory(trustme.CA)

    def flags(self) -> tuple[str, ...]:
        """Write the driver's files; return its flags."""
        cert, named = self.authority.issue_cert("driver.test"), {}
        named["tls.pem"] = cert.private_key_and_cert_chain_pem.bytes()
        named["clients.pem"] = pem_of(self.authority)
        named["tokens"] = b"first\nsecond\n"
        for name, content in named.items():
            (self.folder / name).write_bytes(content)
        return (
            *("--tls-cert-file", str(self.folder / "tls.pem")),
            *("--client-ca-file", str(self.folder / "clients.pem")),
            *("--token-file", str(self.folder / "tokens")),
        )

    def tls(self) -> ssl.SSLContext:
        """How the test calls the driver, which goes by its address there."""
        context = ssl.create_default_context()
        context.check_hostname = False
        self.authority.configure_trust(context)
        self.authority.issue_cert("test").configure_cert(context)
        return context

    def spec(self) -> dict[str, object]:
        """What the LoadBalancerDriver says of all that."""
        return {
            "tls": {
                "caBundle": base64_of(pem_of(self.authority)),
                "serverName": "driver.test",
                "clientCertificateSecretRef": CERTIFICATE,
            },
            "auth": {"bearerTokenSecretRef": TOKEN},
        }

    def certificate(self) -> dict[str, object]:
        """The Secret with a client certificate."""
        cert = self.authority.issue_cert("controller")
        chain = b"".join(blob.bytes() for blob in cert.cert_chain_pems)
        return a_secret(
            CERTIFICATE,
            "kubernetes.io/tls",
            {"tls.crt": chain, "tls.key": cert.private_key_pem.bytes()},
        )


def a_secret(
    metadata: Mapping[str, str], kind: str, values: Mapping[str, bytes]
) -> dict[str, object]:
    """A Secret as it is written."""
    coded = {key: base64.b64encode(value).decode() for key, value in values.items()}
    return {"metadata": metadata, "type": kind, "data": coded}


def a_token(text: str) -> dict[str, object]:
    """The Secret with the token."""
    return a_secret(TOKEN, "Opaque", {"token": text.encode()})


async def until_driver(stage: Stage, kind: str, reason: str) -> None:
    """Wait until the driver's condition has a reason."""

    async def said() -> bool:
        found = await stage.get(objects.DRIVERS, "memory")
        return found is not None and found.condition(kind).get("reason") == reason

    await stage.until(f"the driver's {kind} says {reason}", said)


@pytest.fixture(name="secured")
async def _secured(bare: Stage, tmp_path: Path) -> Stage:
    """A secured driver, both processes, and no Secret yet."""
    papers = Papers(tmp_path)
    bare.tls, bare.headers = papers.tls(), {"Authorization": "Bearer first"}
    await bare.start_driver("Record", *papers.flags())
    await bare.start("controller", "--driver-url-allow", "https://127.0.0.1")
    await bare.start("deregistrar", "--driver-url-allow", "https://127.0.0.1")
    await bare.setting(**papers.spec())
    await bare.add_pod("a", "10.0.0.1")
    await until_driver(bare, "Accepted", "DriverSecretNotFound")
    await bare.create(objects.SECRETS, papers.certificate())
    return bare


async def test_secrets_are_taken_up_without_a_restart(secured: Stage) -> None:
    """A token that is missing, wrong, right, another, gone and back: nothing is lost."""
    stage = secured
    await stage.create(objects.SECRETS, a_token("wrong"))
    await until_driver(stage, "Accepted", "Accepted")

    async def refused() -> bool:
        front = await stage.get(objects.LOAD_BALANCERS, "front")
        assert front is not None
        return front.condition("Created").get("reason") == "DriverUnauthorized"

    await stage.until("the load balancer says DriverUnauthorized", refused)
    await stage.patch(objects.SECRETS, "token", a_token("first"))
    await stage.until_registered("10.0.0.1:80")

    await stage.patch(objects.SECRETS, "token", a_token("second"))
    await stage.add_pod("b", "10.0.0.2")
    await stage.until_registered("10.0.0.1:80", "10.0.0.2:80")

    await stage.delete(objects.SECRETS, "token")
    await stage.delete(objects.PODS, "a")
    record = await stage.until_reason("Drained", "DriverSecretNotFound")
    told = record.condition("Drained")["message"]
    assert f"Secret {stage.namespace}/token is not there: create it" in told
    assert "10.0.0.1:80" in await stage.members()

    await stage.create(objects.SECRETS, a_token("second"))
    await stage.until_registered("10.0.0.2:80")
    _assert_narrow(stage)


def _assert_narrow(stage: Stage) -> None:
    """No process has asked for a Secret but by its name, in the driver's namespace.

    The API server takes the name out of the field selector, for RBAC and audit alike.
    """
    asked = {
        (process, event.namespace, event.name)
        for process in ("controller", "deregistrar")
        for event in stage.cluster.audit(stage.user(process))
        if event.resource == "secrets"
    }
    assert {
        (process, stage.namespace, name)
        for process in ("controller", "deregistrar")
        for name in ("token", "certificate")
    } == asked


async def test_a_driver_elsewhere_is_not_called(bare: Stage) -> None:
    """What --driver-url-allow does not name is told, and not called."""
    await bare.start_driver()
    await bare.start("controller", "--driver-url-allow", "https://*.drivers.svc")
    await bare.setting()
    await until_driver(bare, "Accepted", "DriverUrlNotAllowed")

    async def refused() -> Whole | None:
        front = await bare.get(objects.LOAD_BALANCERS, "front")
        assert front is not None
        told = front.condition("Created").get("reason") == "DriverUrlNotAllowed"
        return front if told else None

    await bare.until("the load balancer says DriverUrlNotAllowed", refused)
    assert [] == (await bare.control("history"))["calls"]
