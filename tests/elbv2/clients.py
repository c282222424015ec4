"""Those who call: requests to the driver, and a client of other people."""

import contextlib

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from aiobotocore.session import get_session

from lbcf.sdk import (
    DeregisterBackendRequest,
    Drain,
    DrainBackendRequest,
    EnsureBackendRequest,
    ListBackendsRequest,
)
from tests.elbv2.emulator import THEIRS, Emulator
from tests.elbv2.state import REGION, EmulatedGroup
from webhooks.elbv2.credentials import ACCESS_KEY, SECRET_KEY, SESSION_TOKEN


if TYPE_CHECKING:
    from types_aiobotocore_elbv2 import ElasticLoadBalancingv2Client


RECORD = "6a1b0c3e-7d5f-4f0e-9a35-2f0d9c1b7e11"
"""The uid of some record."""
ADDRESS = "198.18.0.1:8080"
KEY = ("198.18.0.1", 8080)


def an_identity(*groups: EmulatedGroup) -> dict[str, str]:
    """Return the lbInfo of a load balancer."""
    arns = ",".join(group.arn for group in groups)
    return {"targetGroups": arns, "targetType": groups[0].target_type}


def an_ensure(
    lb_info: Mapping[str, str],
    address: str = ADDRESS,
    record: str = RECORD,
    parameters: Mapping[str, str] | None = None,
    injected_info: Mapping[str, str] | None = None,
) -> EnsureBackendRequest:
    """Return a request to ensure a member."""
    return EnsureBackendRequest(
        record_id=record,
        lb_info=dict(lb_info),
        backend_addr=address,
        parameters=dict(parameters or {}),
        injected_info=dict(injected_info or {}),
    )


def a_drain(
    lb_info: Mapping[str, str],
    address: str = ADDRESS,
    record: str = RECORD,
    injected_info: Mapping[str, str] | None = None,
) -> DrainBackendRequest:
    """Return a request to drain a member."""
    now = datetime.now(UTC)
    return DrainBackendRequest(
        record_id=record,
        lb_info=dict(lb_info),
        backend_addr=address,
        injected_info=dict(injected_info or {}),
        drain=Drain(started_at=now, deadline=now + timedelta(seconds=30)),
    )


def a_deregister(
    lb_info: Mapping[str, str],
    address: str = ADDRESS,
    record: str = RECORD,
    injected_info: Mapping[str, str] | None = None,
) -> DeregisterBackendRequest:
    """Return a request to deregister a member."""
    return DeregisterBackendRequest(
        record_id=record,
        lb_info=dict(lb_info),
        backend_addr=address,
        injected_info=dict(injected_info or {}),
    )


def a_list(lb_info: Mapping[str, str]) -> ListBackendsRequest:
    """Return a request to list the members."""
    return ListBackendsRequest(lb_info=dict(lb_info))


def write_credentials(folder: Path, access: str, secret: str, token: str = "") -> None:
    """Write credentials as a mounted Secret has them."""
    for name, text in (
        (ACCESS_KEY, access),
        (SECRET_KEY, secret),
        (SESSION_TOKEN, token),
    ):
        (folder / name).write_text(f"{text}\n")


@contextlib.asynccontextmanager
async def somebody_else(
    emulator: Emulator,
) -> AsyncIterator["ElasticLoadBalancingv2Client"]:
    """Give aiobotocore's client, with credentials of other people."""
    async with get_session().create_client(
        "elbv2",
        region_name=REGION,
        endpoint_url=emulator.url,
        aws_access_key_id=THEIRS,
        aws_secret_access_key=emulator.keys[THEIRS].secret,
    ) as client:
        yield client
