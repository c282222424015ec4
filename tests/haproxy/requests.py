"""Requests to the driver, with only what a test is about said."""

from lbcf.sdk import (
    DeregisterBackendRequest,
    DrainBackendRequest,
    EnsureBackendRequest,
    Succ,
)
from tests.haproxy.proxy import Haproxy
from tests.haproxy.waiting import until
from tests.webhooks import requests
from tests.webhooks.requests import RECORD
from webhooks.haproxy.driver import HaproxyDriver


NO_CHECK = {"check": "false"}
"""Parameters of members that serve at once."""

QUICK_CHECK = {"inter": "100ms", "downinter": "50ms"}
"""Parameters of members whose checks a test waits for."""


def an_identity(*proxies: Haproxy, backend: str = "web") -> dict[str, str]:
    """Return the lbInfo of a load balancer."""
    sockets = ",".join(proxy.socket for proxy in proxies)
    return {"sockets": sockets, "backend": backend}


def an_ensure(
    lb_info: dict[str, str],
    address: str,
    record: str = RECORD,
    parameters: dict[str, str] | None = None,
    injected_info: dict[str, str] | None = None,
) -> EnsureBackendRequest:
    """Return a request to ensure a member, without health check unless said."""
    return EnsureBackendRequest(
        record_id=record,
        lb_info=lb_info,
        backend_addr=address,
        parameters=NO_CHECK if parameters is None else parameters,
        injected_info=injected_info or {},
    )


def a_drain(
    lb_info: dict[str, str], record: str = RECORD, address: str = "127.0.1.1:1"
) -> DrainBackendRequest:
    """Return a request to drain a member."""
    return requests.a_drain(lb_info, address, record)


def a_deregister(
    lb_info: dict[str, str],
    record: str = RECORD,
    *,
    drained: bool = True,
    address: str = "127.0.1.1:1",
) -> DeregisterBackendRequest:
    """Return a request to deregister a member."""
    return requests.a_deregister(lb_info, address, record, drained=drained)


async def until_drained(
    driver: HaproxyDriver, lb_info: dict[str, str], record: str
) -> None:
    """Ask for a drain until it is over.

    HAProxy counts a request for a moment longer than its client waits for the answer.
    """

    async def is_over() -> bool:
        return isinstance(await driver.drain_backend(a_drain(lb_info, record)), Succ)

    await until(is_over)
