"""What a tenant could reach by a member of their choice: not what Envoys connect to."""

from pathlib import Path

import pytest

from lbcf.runtime.flags import BindAddress
from lbcf.sdk import EnsureBackendRequest, Fail
from tests.envoy.proxy import FLEET
from tests.envoy.rig import HERE
from tests.lab.cluster.ports import free_ports
from tests.webhooks.requests import RECORD
from webhooks.envoy.driver import EnvoyDriver
from webhooks.envoy.keeper import Keeper
from webhooks.envoy.store import Store


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:7f00:1]"])
async def test_where_envoys_connect_to_is_no_member(tmp_path: Path, host: str) -> None:
    """Not where its network is open either; the port beside it may be one."""
    (port,) = free_ports(1)
    keeper = Keeper(Store(tmp_path / "state"), BindAddress("127.0.0.1", port))
    driver = EnvoyDriver(keeper, ("*",), HERE)

    def request(place: str) -> EnsureBackendRequest:
        identity = {"fleet": FLEET, "listen": "127.0.0.1:80"}
        return EnsureBackendRequest(
            record_id=RECORD, lb_info=identity, backend_addr=place
        )

    try:
        with pytest.raises(Fail, match="is where the load balancer itself is operated"):
            await driver.ensure_backend(request(f"{host}:{port}"))
        with pytest.raises(Fail, match="there is no load balancer"):
            await driver.ensure_backend(request("127.0.0.1:9"))
    finally:
        await driver.stop()
