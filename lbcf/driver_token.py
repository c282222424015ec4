"""Gives the Secrets of a driver and of its callers one bearer token.

`lbcf driver-token`, run by the Job of `manifests/drivers/haproxy-token` at each install. The
Secrets are there already, empty at first: so this needs the right to read and change
these two, and no right to create Secrets in kube-system.
"""

import argparse
import asyncio
import base64
import secrets
import sys

from collections.abc import Sequence
from typing import Final

from lbcf.core.errors import LbcfError
from lbcf.core.model.access import Secret
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import connect
from lbcf.kube.kinds import SECRETS
from lbcf.runtime.clock import SystemClock


KEY: Final = "token"
_BYTES: Final = 32
_NAME: Final = "lbcf-driver-token"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Say what it can be told."""
    parser.add_argument(
        "secrets",
        nargs="+",
        type=_parse_key,
        metavar="NAMESPACE/NAME",
        help="Secrets that exist, the callers' first",
    )
    parser.add_argument(
        "--kubeconfig", help="default: the pod's account, KUBECONFIG, ~/.kube/config"
    )
    parser.add_argument("--context", help="of the kubeconfig; default: its current one")


def run(flags: argparse.Namespace) -> int:
    """Fill the Secrets; returns the exit status."""
    try:
        asyncio.run(_fill(flags))
    except LbcfError as error:
        print(f"lbcf driver-token: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


async def fill(client: KubeClient, keys: Sequence[ObjectKey]) -> list[ObjectKey]:
    """Write one token into those of the Secrets that have none; return which.

    A token that is there stays, so that an upgrade interrupts no call and a rotation
    that is under way goes on. Of several lines the last one is the newest.

    Args:
        client: reads and writes them.
        keys: the Secrets, the callers' before the driver's.

    Raises:
        NotFound: one of them does not exist.
        Conflict: somebody else has written it since it was read.
        KubeError: the API server cannot be asked, or refuses.
    """
    found = [await client.get(SECRETS, key) for key in keys]
    known = [line for secret in found for line in _tokens(secret)[-1:]]
    token = known[0] if known else secrets.token_hex(_BYTES).encode()
    change = {"data": {KEY: base64.b64encode(token).decode()}}
    empty = [one for one in found if not _tokens(one)]
    for one in empty:
        await client.patch(SECRETS, one.meta.key, change, cas=one.meta)
    return [one.meta.key for one in empty]


def _tokens(secret: Secret) -> list[bytes]:
    return secret.values.get(KEY, b"").split()


async def _fill(flags: argparse.Namespace) -> None:
    connection = await connect(flags.kubeconfig, flags.context)
    async with connected(
        connection, SystemClock(), user_agent=_NAME, field_manager=_NAME
    ) as client:
        written = await fill(client, flags.secrets)
    for key in flags.secrets:
        told = "has a new token" if key in written else "keeps its token"
        print(f"Secret {key} {told}")  # noqa: T201


def _parse_key(text: str) -> ObjectKey:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAMESPACE/NAME")
    return ObjectKey(namespace, name)
