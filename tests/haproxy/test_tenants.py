"""What a tenant can have done to others with the driver of everybody, on a real HAProxy."""

from collections.abc import Awaitable, Callable

import attrs
import msgspec
import pytest

from lbcf.sdk import (
    CreateLoadBalancerRequest,
    EnsureLoadBalancerRequest,
    Fail,
    ListBackendsAnswer,
    Running,
    Succ,
    ValidateLoadBalancerRequest,
)
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import a_deregister, a_drain, an_ensure, an_identity
from tests.webhooks.requests import RECORD, a_list
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.endpoints import AllowedEndpoints
from webhooks.haproxy.load_balancers import LoadBalancers
from webhooks.haproxy.slot_driver import SlotDriver


OTHER = "0f6ad1f4-3a52-4f0c-8d7e-77a1c2b3d4e5"
"""The uid of the tenant's record."""
THEIRS = "6.6.6.6:80"
OURS = "198.18.0.1:80"

Arrival = Callable[[HaproxyDriver, dict[str, str], str], Awaitable[object]]


def ruled(kind: type[HaproxyDriver], proxy: Haproxy, rule: str) -> HaproxyDriver:
    """Return a driver whose operator has said who may use the socket."""
    allowed = AllowedEndpoints(("/tmp/*/*.sock", f"{proxy.socket}{rule}"))
    return kind(LoadBalancers(allowed))


async def validated(
    driver: HaproxyDriver, fields: dict[str, str], namespace: str
) -> None:
    """Ask what the driver thinks of a load balancer."""
    request = ValidateLoadBalancerRequest(lb_spec=fields, namespace=namespace)
    await driver.validate_load_balancer(request)


async def created(
    driver: HaproxyDriver, fields: dict[str, str], namespace: str
) -> object:
    """Have a load balancer created."""
    request = CreateLoadBalancerRequest(
        record_id=OTHER, lb_spec=fields, namespace=namespace
    )
    return await driver.create_load_balancer(request)


async def ensured(
    driver: HaproxyDriver, fields: dict[str, str], namespace: str
) -> object:
    """Have a load balancer ensured."""
    request = EnsureLoadBalancerRequest(
        record_id=OTHER, lb_info=fields, namespace=namespace
    )
    return await driver.ensure_load_balancer(request)


async def registered(
    driver: HaproxyDriver, fields: dict[str, str], namespace: str
) -> object:
    """Have an address of the tenant's choice registered."""
    slots = isinstance(driver, SlotDriver)
    request = an_ensure(fields, THEIRS, OTHER, {} if slots else None)
    return await driver.ensure_backend(
        msgspec.structs.replace(request, namespace=namespace)
    )


@attrs.frozen
class Kind:
    """A driver, and a backend that it has members in."""

    driver: type[HaproxyDriver]
    backend: str


KINDS = [Kind(HaproxyDriver, "web"), Kind(SlotDriver, "slots")]


@pytest.mark.haproxy
@pytest.mark.parametrize("kind", KINDS, ids=["servers", "slots"])
@pytest.mark.parametrize("arrival", [validated, created, ensured, registered])
async def test_a_copy_of_a_shared_load_balancer_gets_nothing_in(
    proxy: Haproxy, kind: Kind, arrival: Arrival
) -> None:
    """An lbSpec that was read elsewhere opens no backend: traffic stays where it was."""
    driver = ruled(kind.driver, proxy, "=kube-system")
    fields = an_identity(proxy, backend=kind.backend)

    for namespace in ("shop", ""):
        with pytest.raises(Fail, match=r"is not open to load .* \(--allow-sockets\)"):
            await arrival(driver, fields, namespace)
    listed = await driver.list_backends(a_list(fields))
    await arrival(driver, fields, "kube-system")

    assert [] == listed.backends


@pytest.mark.haproxy
async def test_what_is_there_can_go_when_the_rule_is_narrower(proxy: Haproxy) -> None:
    """Drained, listed and taken out; not ensured again."""
    fields = an_identity(proxy)
    before = ruled(HaproxyDriver, proxy, "=shop")
    request = msgspec.structs.replace(an_ensure(fields, OURS), namespace="shop")
    await before.ensure_backend(request)
    driver = ruled(HaproxyDriver, proxy, "=")

    with pytest.raises(Fail, match="is not open to load balancers of namespace shop"):
        await driver.ensure_backend(request)
    listed = await driver.list_backends(a_list(fields))
    drained = await driver.drain_backend(a_drain(fields))
    gone: object = Running()
    while isinstance(gone, Running):
        gone = await driver.deregister_backend(a_deregister(fields))

    assert isinstance(listed, ListBackendsAnswer)
    assert [RECORD] == [one.record_id for one in listed.backends]
    assert isinstance(drained, Succ)
    assert isinstance(gone, Succ)
    assert [] == await proxy.ours()
