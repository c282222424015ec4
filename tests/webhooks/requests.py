"""Requests to a driver of ours about one member, with only what a test is about said."""

from datetime import UTC, datetime, timedelta

from lbcf.sdk import (
    DeregisterBackendRequest,
    Drain,
    DrainBackendRequest,
    ListBackendsRequest,
)


RECORD = "6a1b0c3e-7d5f-4f0e-9a35-2f0d9c1b7e11"
"""The uid of some record."""

ADDRESS = "198.18.0.1:8080"


def a_drain(
    lb_info: dict[str, str],
    address: str = ADDRESS,
    record: str = RECORD,
    seconds: float = 30,
) -> DrainBackendRequest:
    """Return a request to drain a member within so many seconds from now."""
    now = datetime.now(UTC)
    return DrainBackendRequest(
        record_id=record,
        lb_info=lb_info,
        backend_addr=address,
        drain=Drain(started_at=now, deadline=now + timedelta(seconds=seconds)),
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
