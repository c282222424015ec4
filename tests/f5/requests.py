"""Requests to the driver, with only what a test is about said."""

from datetime import datetime

from lbcf.sdk import EnsureBackendRequest
from tests.f5.server import Bigip
from tests.webhooks.requests import ADDRESS, RECORD


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
