"""Checks the signature (version 4) of a call, by AWS' own code for signing."""

import re

from collections.abc import Mapping

import attrs

from aiohttp import web
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.elbv2.state import ApiError


_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/([^/]+)/elasticloadbalancing/"
    r"aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})"
)


@attrs.define
class Key:
    """Credentials that the emulator knows.

    Attributes:
        secret: what is signed with.
        token: of temporary ones; empty: they are not.
        expired: they were good once.
    """

    secret: str
    token: str = ""
    expired: bool = False


def check_signature(request: web.Request, body: bytes, keys: Mapping[str, Key]) -> str:
    """Return who calls: the access key.

    Raises:
        ApiError: it is not signed, or not by anybody known.
    """
    found = _AUTHORIZATION.fullmatch(request.headers.get("Authorization", ""))
    if found is None:
        raise ApiError(
            "MissingAuthenticationToken", "Request is missing Authentication Token", 403
        )
    access, region, names, signature = found.groups()
    token = request.headers.get("X-Amz-Security-Token", "")
    key = keys.get(access)
    if key is None or key.token != token:
        raise ApiError(
            "InvalidClientTokenId",
            "The security token included in the request is invalid.",
            403,
        )
    if key.expired:
        raise ApiError(
            "ExpiredToken", "The security token included in the request is expired", 403
        )
    signed = AWSRequest(
        method=request.method,
        url=str(request.url),
        headers={name: request.headers[name] for name in names.split(";")},
        data=body,
    )
    signed.context["timestamp"] = request.headers["X-Amz-Date"]
    signer = SigV4Auth(Credentials(access, key.secret), "elasticloadbalancing", region)
    text = signer.string_to_sign(signed, signer.canonical_request(signed))
    if signer.signature(text, signed) != signature:
        raise ApiError(
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you "
            "provided.",
            403,
        )
    return access
