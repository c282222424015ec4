"""Hands certificates that are in memory to OpenSSL, which reads files alone.

`lbcf.drivers.access` has them from Secrets, `lbcf.sdk.credentials` from files that were
read in one go, so that a rotation in between cannot mix old and new.
"""

import os
import ssl


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate chain and its key, both in PEM.

    Raises:
        ValueError: it is no certificate with its unencrypted key; quotes nothing.
    """
    # A file in memory: no key is ever on a disk, and it is gone when it is closed.
    file = os.memfd_create("certificate")
    try:
        os.write(file, certificate + b"\n" + key)
        # A password that is none: otherwise OpenSSL would ask for it at the terminal.
        context.load_cert_chain(f"/proc/self/fd/{file}", password="")
    except (ssl.SSLError, ValueError) as error:
        raise ValueError("no PEM certificate with its unencrypted key") from error
    finally:
        os.close(file)


def trusting(authorities: bytes) -> ssl.SSLContext:
    """Return how a server's certificate is verified: by these authorities, and no others.

    Raises:
        ValueError: they are none.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    load_authorities(context, authorities)
    return context


def load_authorities(context: ssl.SSLContext, authorities: bytes) -> None:
    """Trust these certificates, PEM too, whoever signed them: as Go reads such bundles.

    Raises:
        ValueError: they are none.
    """
    try:
        # Only remarks between certificates are anything else.
        context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise ValueError("no PEM certificates") from error
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
