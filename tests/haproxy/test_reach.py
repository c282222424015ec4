"""What a tenant could reach by a member of their choice, on a real HAProxy."""

import asyncio

import pytest

from lbcf.sdk import Fail, Running, Succ
from tests.haproxy.conftest import HERE, patient
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import a_deregister, an_ensure, an_identity
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.endpoints import AllowedEndpoints
from webhooks.haproxy.load_balancers import LoadBalancers


@pytest.fixture(name="plain")
def _plain() -> HaproxyDriver:
    """Return a driver whose operator has opened nothing."""
    return patient(HaproxyDriver)


async def told(proxy: Haproxy, frontend: str, line: str) -> str:
    """Send a line to a frontend as any client may; return what comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.ports[frontend])
    writer.write(line.encode() + b"\n")
    try:
        async with asyncio.timeout(2):
            return (await reader.read()).decode()
    except (TimeoutError, ConnectionError):
        return ""
    finally:
        writer.close()


@pytest.mark.haproxy
async def test_the_runtime_api_is_not_to_be_had_from_outside(
    plain: HaproxyDriver, proxy: Haproxy
) -> None:
    """In TCP mode a member there would hand all of HAProxy to every client."""
    lb_info = an_identity(proxy, backend="tcp")
    request = an_ensure(lb_info, f"127.0.0.1:{proxy.runtime_port}")

    with pytest.raises(Fail, match="is a loopback address, which no member may have"):
        await plain.ensure_backend(request)

    assert "" == await told(proxy, "tcp", "show info")
    assert [] == await proxy.ours()


@pytest.mark.haproxy
@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:7f00:1]"])
async def test_not_in_an_open_network_either(proxy: Haproxy, host: str) -> None:
    """What the operator opened is for members, not for who operates HAProxy."""
    place = f"127.0.0.1:{proxy.runtime_port}"
    allowed = AllowedEndpoints((proxy.socket, place))
    driver = patient(HaproxyDriver, allowed, addresses=HERE)
    request = an_ensure(
        an_identity(proxy, backend="tcp"), f"{host}:{proxy.runtime_port}"
    )

    with pytest.raises(Fail, match="is where the load balancer itself is operated"):
        await driver.ensure_backend(request)

    assert "" == await told(proxy, "tcp", "show info")


@pytest.mark.haproxy
async def test_a_socket_that_was_used_is_known(proxy: Haproxy) -> None:
    """Whatever pattern allowed it, and by whichever load balancer it was named."""
    driver = patient(HaproxyDriver, addresses=HERE)
    place = f"127.0.0.1:{proxy.runtime_port}"
    await driver.ensure_backend(
        an_ensure({"sockets": place, "backend": "web"}, "127.0.1.1:80")
    )

    with pytest.raises(Fail, match="is where the load balancer itself is operated"):
        await driver.ensure_backend(
            an_ensure(an_identity(proxy, backend="tcp"), place, "other")
        )


async def test_an_api_that_is_named_by_host() -> None:
    """Any address with its port may be it, unless the operator knows better."""
    allowed = AllowedEndpoints(("haproxy.lbcf-system.svc:9999", "10.0.7.*:7777"))
    closed = LoadBalancers(allowed)
    opened = LoadBalancers(allowed, addresses=HERE)

    with pytest.raises(ValueError, match=r"10\.0\.0\.1:9999 may be the runtime API at"):
        closed.member_address("10.0.0.1:9999")

    assert "10.0.0.1:80" == str(closed.member_address("10.0.0.1:80"))
    assert "127.0.0.1:9999" == str(opened.member_address("127.0.0.1:9999"))


@pytest.mark.haproxy
async def test_what_is_in_can_go_from_a_network_that_was_closed(
    plain: HaproxyDriver, driver: HaproxyDriver, proxy: Haproxy
) -> None:
    """Only what comes is looked at."""
    lb_info = an_identity(proxy)
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))

    gone: object = Running()
    while isinstance(gone, Running):
        gone = await plain.deregister_backend(
            a_deregister(lb_info, address="127.0.1.1:80")
        )

    assert isinstance(gone, Succ)
    assert [] == await proxy.ours()
