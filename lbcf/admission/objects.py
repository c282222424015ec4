"""The two foreign kinds that keep the certificate: a Secret, and who trusts it.

Read and written by `credentials`; narrow, as everything that we read.
"""

import base64
import binascii

from collections.abc import Sequence
from typing import Final

import attrs
import msgspec

from lbcf.admission.authority import Bundle
from lbcf.core.model.resources import Meta
from lbcf.kube.kinds import Resource
from lbcf.kube.requests import Body
from lbcf.wire.metadata import ObjectMeta, decode


_FIELDS: Final = {
    "authorities": "ca.crt",
    "authority_key": "ca.key",
    "leaf": "tls.crt",
    "leaf_key": "tls.key",
}
"""The keys that cert-manager uses for the same things, and one for the signing key."""


@attrs.frozen
class KeptBundle:
    """A Secret as we use it."""

    meta: Meta
    bundle: Bundle


@attrs.frozen
class WebhookConfiguration:
    """A ValidatingWebhookConfiguration: what each of its webhooks trusts, in base64."""

    meta: Meta
    trusted: tuple[str, ...]


class _SecretObject(msgspec.Struct):
    metadata: ObjectMeta
    data: dict[str, str] | None = None


class _ClientConfig(msgspec.Struct, rename="camel"):
    ca_bundle: str = ""


class _Webhook(msgspec.Struct, rename="camel"):
    client_config: _ClientConfig


class _Configuration(msgspec.Struct):
    metadata: ObjectMeta
    webhooks: list[_Webhook] | None = None


_SECRET = msgspec.json.Decoder(_SecretObject)
_CONFIGURATION = msgspec.json.Decoder(_Configuration)


def parse_secret(body: bytes) -> KeptBundle:
    """Read a Secret; what is not base64 counts as missing.

    Raises:
        Malformed: it is no Secret.
    """
    found = decode(_SECRET, body)
    data = found.data or {}
    parts = {name: _plain(data.get(key, "")) for name, key in _FIELDS.items()}
    return KeptBundle(found.metadata.to_meta(), Bundle(**parts))


def parse_configuration(body: bytes) -> WebhookConfiguration:
    """Read a ValidatingWebhookConfiguration.

    Raises:
        Malformed: it is none.
    """
    found = decode(_CONFIGURATION, body)
    trusted = tuple(w.client_config.ca_bundle for w in found.webhooks or ())
    return WebhookConfiguration(found.metadata.to_meta(), trusted)


def render_secret(name: str, bundle: Bundle) -> Body:
    """Write a Secret, new or as a patch."""
    data = {key: to_base64(getattr(bundle, field)) for field, key in _FIELDS.items()}
    return {"metadata": {"name": name}, "type": "Opaque", "data": data}


def render_trust(found: WebhookConfiguration, trusted: str) -> Sequence[Body]:
    """Patch what all webhooks of a configuration trust."""
    return [
        {
            "op": "add",  # replaces, too, what is there
            "path": f"/webhooks/{number}/clientConfig/caBundle",
            "value": trusted,
        }
        for number, old in enumerate(found.trusted)
        if old != trusted
    ]


def to_base64(content: bytes) -> str:
    """Write bytes as the API does."""
    return base64.b64encode(content).decode()


def _plain(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


SECRETS: Final[Resource[KeptBundle]] = Resource(
    "", "v1", "secrets", "Secret", parse_secret
)
WEBHOOK_CONFIGURATIONS: Final[Resource[WebhookConfiguration]] = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    parse_configuration,
    namespaced=False,
)
