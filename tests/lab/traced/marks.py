"""Waits until the audit log has all that was asked so far."""

import asyncio

from pathlib import Path

from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import NAMESPACES
from tests.lab.cluster.audit import lines
from tests.patience import PATIENCE


_LOOK = 0.1


async def until_logged(client: KubeClient, audit_log: Path, namespace: str) -> None:
    """Wait until the log has a request that is made now, and what came before."""
    size = _size(audit_log)
    marked = {"metadata": {"annotations": {"tape": "taken"}}}
    await client.patch(NAMESPACES, ObjectKey("", namespace), marked)
    async with asyncio.timeout(PATIENCE):
        while not _is_logged(audit_log, size, namespace):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_LOOK)


def _size(path: Path) -> int:
    return path.stat().st_size


def _is_logged(audit_log: Path, since: int, namespace: str) -> bool:
    """Whether the log tells from a place on that a namespace was changed."""
    wanted = b'"verb":"patch"', f'"name":"{namespace}"'.encode()
    return any(all(part in line for part in wanted) for line in lines(audit_log, since))
