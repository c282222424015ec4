"""Requests to the driver, with only what a test is about said."""

from datetime import UTC, datetime, timedelta

from lbcf.sdk import (
    DeregisterBackendRequest,
    Drain,
    DrainBackendRequest,
    EnsureBackendRequest,
    ListBackendsRequest,
)
from tests.f5.server import Bigip


RECORD = "6a1b0c3e-7d5f-4f0e-9a35-2f0d9c1b7e11"
"""The uid of some record."""

ADDRESS = "198.18.0.1:8080"
MEMBER = f"/Common/{ADDRESS}"
NODE = "/Common/198.18.0.1"
WEB = "/Common/web"


def an_identity(*bigips: Bigip, **more: str) -> dict[str, str]:
    """Return the lbInfo of a load balancer."""
    devices = ",".join(bigip.url for bigip in bigips)
    return {"devices": devices, "pool": WEB} | more


def an_ensure(
    lb_info: dict[str, str],
    address: str = ADDRESS,
    record: str = RECORD,
    parameters: dict[str, str] | None = None,
    not_after: datetime | None = None,
) -> EnsureBackendRequest:
    """Return a request to ensure a member."""
    return EnsureBackendRequest(
        record_id=record,
        lb_info=lb_info,
        backend_addr=address,
        parameters=parameters or {},
        not_after=not_after,
    )


def a_drain(
    lb_info: dict[str, str], address: str = ADDRESS, record: str = RECORD
) -> DrainBackendRequest:
    """Return a request to drain a member."""
    now = datetime.now(UTC)
    return DrainBackendRequest(
        record_id=record,
        lb_info=lb_info,
        backend_addr=address,
        drain=Drain(started_at=now, deadline=now + timedelta(seconds=30)),
    )


def a_deregister(
    lb_info: dict[str, str],
    address: str = ADDRESS,
    record: str = RECORD,
    *,
    drained: bool = True,
) -> DeregisterBackendRequest:
    """Return a request to deregister a member."""
    return DeregisterBackendRequest(
        record_id=record, lb_info=lb_info, backend_addr=address, drained=drained
    )


def a_list(lb_info: dict[str, str]) -> ListBackendsRequest:
    """Return a request to list the members."""
    return ListBackendsRequest(lb_info=lb_info)
