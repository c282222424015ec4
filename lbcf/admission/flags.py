"""The flags that `lbcf admission` has beside those of all processes."""

import argparse

from pathlib import Path

import attrs

from lbcf.admission.decisions import DriverFailurePolicy
from lbcf.runtime.flags import BindAddress, parse_bind_address
from lbcf.settings import SettingsError


@attrs.frozen
class Webhook:
    """How the API server reaches us, and what we do for it.

    Attributes:
        address: where to listen.
        files: certificate and key that somebody else renews; None: ours, in `secret`.
        secret: name of the Secret in our own namespace that the replicas share.
        configuration: name of the ValidatingWebhookConfiguration that trusts it.
        hosts: by which the API server calls us; empty: those of `service`.
        service: name of the Service before us.
        policy: what becomes of an object that a driver gave no valid answer about.
        clients: a file with the authorities of callers' certificates; None: any caller.
    """

    address: BindAddress
    files: tuple[Path, Path] | None = None
    secret: str = "lbcf-admission-tls"  # noqa: S105 - the name of one
    configuration: str = "lbcf.tkestack.io"
    hosts: tuple[str, ...] = ()
    service: str = "lbcf-admission"
    policy: DriverFailurePolicy = DriverFailurePolicy.FAIL
    clients: Path | None = None

    def names(self, namespace: str) -> tuple[str, ...]:
        """Return the DNS names that the certificate must be valid for."""
        own = f"{self.service}.{namespace}.svc"
        return self.hosts or (own, f"{own}.cluster.local")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Describe the flags."""
    add = parser.add_argument
    add(
        "--bind-address",
        default=":11047",
        metavar="[HOST]:PORT",
        help="where to serve the API server, over TLS (default: %(default)s)",
    )
    add("--tls-cert-file", metavar="FILE", help="default: a certificate of our own")
    add("--tls-private-key-file", metavar="FILE", help="of --tls-cert-file")
    add(
        "--client-ca-file",
        metavar="FILE",
        help="serve only callers with certificates of these authorities (PEM), which the "
        "API server is given in its AdmissionConfiguration (default: any caller)",
    )
    add(
        "--tls-host",
        action="append",
        metavar="NAME",
        help="what our own certificate is good for, several times if need be "
        "(default: the Service)",
    )
    add(
        "--tls-secret",
        default=attrs.fields(Webhook).secret.default,
        metavar="NAME",
        help="Secret that keeps our own certificate (default: %(default)s)",
    )
    add(
        "--service",
        default=attrs.fields(Webhook).service.default,
        metavar="NAME",
        help="Service by which the API server reaches us (default: %(default)s)",
    )
    add(
        "--webhook-configuration",
        default=attrs.fields(Webhook).configuration.default,
        metavar="NAME",
        help="ValidatingWebhookConfiguration that is told to trust our own "
        "certificate (default: %(default)s)",
    )
    add(
        "--driver-failure-policy",
        default=DriverFailurePolicy.FAIL.value,
        choices=[policy.value for policy in DriverFailurePolicy],
        help="what becomes of an object when its driver gives no valid answer "
        "(default: %(default)s: it is refused)",
    )


def read_flags(flags: argparse.Namespace) -> Webhook:
    """Make a value of parsed flags.

    Raises:
        SettingsError: a value that cannot be used.
    """
    return Webhook(
        address=_address(flags.bind_address),
        files=_files(flags.tls_cert_file, flags.tls_private_key_file),
        secret=flags.tls_secret,
        configuration=flags.webhook_configuration,
        hosts=tuple(flags.tls_host or ()),
        service=flags.service,
        policy=DriverFailurePolicy(flags.driver_failure_policy),
        clients=Path(flags.client_ca_file) if flags.client_ca_file else None,
    )


def _address(text: str) -> BindAddress:
    """Read where to listen."""
    try:
        address = parse_bind_address(text)
    except ValueError as error:
        raise SettingsError(f"--bind-address {text}: {error}") from error
    if address is None:
        raise SettingsError("--bind-address 0: the API server must reach us")
    return address


def _files(certificate: str | None, key: str | None) -> tuple[Path, Path] | None:
    """Read the names of the two files, which come together or not at all."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise SettingsError(
            "--tls-cert-file and --tls-private-key-file belong together: give both, or "
            "none for a certificate of our own"
        )
    return Path(certificate), Path(key)
