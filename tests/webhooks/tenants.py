"""A tenant who copies an lbSpec that was meant for others, for any driver of ours."""

from collections.abc import Sequence

import msgspec

from lbcf.sdk import (
    CreateLoadBalancerRequest,
    Driver,
    EnsureBackendRequest,
    EnsureLoadBalancerRequest,
    ValidateLoadBalancerRequest,
)
from tests.webhooks.requests import RECORD


Arrival = (
    ValidateLoadBalancerRequest
    | CreateLoadBalancerRequest
    | EnsureLoadBalancerRequest
    | EnsureBackendRequest
)


def arrivals(
    lb_info: dict[str, str], ensure: EnsureBackendRequest
) -> Sequence[Arrival]:
    """Return all requests by which something comes to a load balancer."""
    return (
        ValidateLoadBalancerRequest(lb_spec=lb_info),
        CreateLoadBalancerRequest(record_id=RECORD, lb_spec=lb_info),
        EnsureLoadBalancerRequest(record_id=RECORD, lb_info=lb_info),
        ensure,
    )


async def ask(driver: Driver, request: Arrival, namespace: str) -> None:
    """Have a driver do what a request says, for a namespace."""
    match msgspec.structs.replace(request, namespace=namespace):
        case ValidateLoadBalancerRequest() as asked:
            await driver.validate_load_balancer(asked)
        case CreateLoadBalancerRequest() as asked:
            await driver.create_load_balancer(asked)
        case EnsureLoadBalancerRequest() as asked:
            await driver.ensure_load_balancer(asked)
        case EnsureBackendRequest() as asked:
            await driver.ensure_backend(asked)
