"""What a tenant can have done to others with the driver of everybody, on a real HAProxy."""

import msgspec
import pytest

from lbcf.sdk import (
    Fail,
    ListBackendsAnswer,
    Running,
    Succ,
)
from tests.haproxy.conftest import patient
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import a_deregister, a_drain, an_ensure, an_identity
from tests.webhooks.requests import RECORD, a_list
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.endpoints import AllowedEndpoints


OTHER = "0f6ad1f4-3a52-4f0c-8d7e-77a1c2b3d4e5"
"""The uid of the tenant's record."""
THEIRS = "6.6.6.6:80"
OURS = "198.18.0.1:80"


def ruled(kind: type[HaproxyDriver], proxy: Haproxy, rule: str) -> HaproxyDriver:
    """Return a driver whose operator has said who may use the socket."""
    allowed = AllowedEndpoints(("/tmp/*/*.sock", f"{proxy.socket}{rule}"))
    return patient(kind, allowed)


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
