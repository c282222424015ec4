"""Says in one sentence why TLS with a driver did not come about.

`lbcf.drivers.client` asks when a call has failed. OpenSSL's own texts quote names of the
certificate, which is the driver's to choose: only its numbers and our words get out.
"""

import ssl

from collections.abc import Iterator, Mapping

from lbcf.drivers.errors import NotTrusted, WeRefused


_EXPIRED, _NOT_YET = 10, 9
_WRONG_NAMES = frozenset({62, 64})
_UNKNOWN_SIGNERS = frozenset({2, 18, 19, 20, 21})
"""X509_V_ERR_* of OpenSSL: dates, host or address, and chains that end nowhere."""

_ALERTS: Mapping[str, str] = {
    "CERTIFICATE_REQUIRED": "it wants a client certificate",
    "CERTIFICATE_UNKNOWN": "it does not accept our client certificate",
    "CERTIFICATE_EXPIRED": "it finds our client certificate expired",
    "CERTIFICATE_REVOKED": "it finds our client certificate revoked",
    "BAD_CERTIFICATE": "it does not accept our client certificate",
    "UNSUPPORTED_CERTIFICATE": "it does not accept our client certificate",
    "UNKNOWN_CA": "it does not know who signed our client certificate",
    "ACCESS_DENIED": "it does not accept our client certificate",
    "DECRYPT_ERROR": "it does not accept our client certificate",
}
"""What the server's alert says (RFC 8446, 6.2), by the end of OpenSSL's name of it."""

_HINT = "see spec.tls.clientCertificateSecretRef"


def distrusted(name: str, error: BaseException) -> NotTrusted | None:
    """Say why a driver's certificate is not good, if that is what went wrong."""
    for cause in _causes(error):
        # aiohttp's own error is of the same class, but has no code.
        code = getattr(cause, "verify_code", None)
        if isinstance(cause, ssl.SSLCertVerificationError) and code is not None:
            return NotTrusted(f"{name}: {_verdict(code)}")
    return None


def refused_by_server(name: str, error: BaseException) -> WeRefused | None:
    """Say that a driver refuses our certificate, if that is what went wrong.

    With TLS 1.2 it says only that the handshake failed, which may have other reasons.
    """
    for cause in _causes(error):
        reason = getattr(cause, "reason", None)
        if isinstance(cause, ssl.SSLError) and isinstance(reason, str):
            for ending, words in _ALERTS.items():
                if reason.endswith(f"ALERT_{ending}"):
                    return WeRefused(f"{name}: {words}: {_HINT}")
    return None


def _verdict(code: int) -> str:
    """Say what is wrong with a certificate."""
    if code == _EXPIRED:
        return "its certificate has expired"
    if code == _NOT_YET:
        return "its certificate is not valid yet"
    if code in _WRONG_NAMES:
        return "its certificate is for another name: see spec.tls.serverName"
    if code in _UNKNOWN_SIGNERS:
        return "its certificate is not signed by anybody trusted: see spec.tls.caBundle"
    return f"its certificate is not valid (OpenSSL's verification error {code})"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Walk from an error to those that it was made of."""
    seen: set[int] = set()
    waiting: list[BaseException] = [error]
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        related = (one.__cause__, one.__context__, getattr(one, "os_error", None))
        waiting += [other for other in related if isinstance(other, BaseException)]
