"""Writes the LoadBalancerDriver by which a cluster finds a driver.

`lbcf.sdk.run` prints it: it names what the driver serves and how it is secured, so that
nobody has to keep the two in step by hand.
"""

import base64

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import attrs

from lbcf.core.model.names import API_VERSION
from lbcf.core.model.operations import BATCHED, SINGLE, Operation
from lbcf.core.model.values import AddressSource
from lbcf.sdk.credentials import CredentialFiles, read_file
from lbcf.sdk.driver import Driver
from lbcf.sdk.replies import served_operations


_TIMEOUT = timedelta(seconds=10)


@attrs.frozen
class Shown:
    """What the cluster is told beside what the driver says itself.

    Attributes:
        name: of the object; its Secrets are called after it.
        url: where the cluster reaches the driver.
        files: by which the driver is secured.
        authority: who signed its certificate; None: somebody whom all trust.
    """

    name: str
    url: str
    files: CredentialFiles
    authority: Path | None = None


def manifest(driver: Driver, shown: Shown) -> dict[str, object]:
    """Return the object, as JSON has it.

    Raises:
        ValueError: the URL is none, or not the scheme that is served.
        CredentialsUnusable: the certificate of the authority cannot be read.
    """
    scheme = "https" if shown.files.certificate else "http"
    if not shown.url.startswith(f"{scheme}://"):
        raise ValueError(f"--print-manifest {shown.url}: write {scheme}://HOST:PORT")
    served = served_operations(driver)
    asks_driver = Operation.GENERATE_BACKEND_ADDR in served
    source = AddressSource.DRIVER if asks_driver else AddressSource.BACKEND
    spec: dict[str, object] = {
        "driverType": "Webhook",
        "url": shown.url,
        "memberKey": driver.member_key.value,
        "addressSource": source.value,
        "lateEffectSeconds": int(driver.late_effect.total_seconds()),
        "maxConcurrentCalls": driver.max_concurrent_calls,
        "webhooks": [
            {
                "name": operation.value,
                "timeout": _duration(driver.timeouts.get(operation, _TIMEOUT)),
                **_batch(driver, operation),
            }
            for operation in Operation
            if operation in served and operation not in SINGLE
        ],
    }
    name = shown.name.replace("_", "-").lower()
    return {
        "apiVersion": API_VERSION,
        "kind": "LoadBalancerDriver",
        "metadata": {"name": name},
        "spec": spec | _security(name, shown),
    }


def as_yaml(written: Mapping[str, object]) -> str:
    """Return an object as YAML."""
    import yaml  # noqa: PLC0415 - no driver that serves needs it

    return str(yaml.safe_dump(dict(written), sort_keys=False))


def _security(name: str, shown: Shown) -> dict[str, object]:
    """Return spec.tls and spec.auth, as far as the driver asks for them."""
    tls: dict[str, object] = {}
    if shown.authority is not None:
        tls["caBundle"] = base64.b64encode(read_file(shown.authority)).decode()
    if shown.files.clients is not None:
        tls["clientCertificateSecretRef"] = {"name": f"{name}-client"}
    found: dict[str, object] = {"tls": tls} if tls else {}
    if shown.files.tokens is not None:
        reference = {"name": f"{name}-token", "key": "token"}
        found["auth"] = {"bearerTokenSecretRef": reference}
    return found


def _batch(driver: Driver, operation: Operation) -> dict[str, object]:
    """Return what is declared of an operation's batches: nothing unless there are any."""
    if driver.batch.max_items == 1 or operation not in BATCHED:
        return {}
    delay = round(driver.batch.max_delay.total_seconds() * 1000)
    shape = {"maxItems": driver.batch.max_items, "maxDelayMilliseconds": delay}
    return {"batch": shape}


def _duration(time: timedelta) -> str:
    return f"{round(time.total_seconds() * 1000)}ms".replace("000ms", "s")
