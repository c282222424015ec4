"""What a driver that finds addresses is told of nodes, which are nobody's own."""

from datetime import UTC, datetime

import pytest

from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import MemberKey
from lbcf.executor.backend_requests import ask_for_address
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import NODES, RECORDS
from tests.kube.tiny_api import TinyApi
from tests.wire.test_raw_object import NODE


LATER = datetime(2100, 1, 1, tzinfo=UTC)


async def asked(driver: str) -> dict[str, object]:
    """Return the node that a driver of this name is sent."""
    client = KubeClient(TinyApi())
    await client.create(NODES, "", NODE)
    spec: dict[str, object] = {
        "lbName": "front",
        "lbDriver": driver,
        "nodeBackend": {"name": "n1", "port": {"port": 80, "protocol": "TCP"}},
    }
    body: dict[str, object] = {"metadata": {"name": "web"}, "spec": spec}
    record: BackendRecord = await client.create(RECORDS, "shop", body)
    request = await ask_for_address(client, record, "1", LATER, MemberKey.RECORD)
    assert MemberKey.RECORD is request.member_key
    assert request.node_backend is not None
    return dict(request.node_backend.node)


async def test_a_tenants_driver_is_told_where_a_node_is() -> None:
    """Neither labels nor images nor anything else of it."""
    node = await asked("own")

    assert {"apiVersion", "kind", "metadata", "spec", "status"} == node.keys()
    assert {"name": "n1"} == node["metadata"]
    assert {"providerID": "aws:///z/i-1"} == node["spec"]
    assert {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]} == (
        node["status"]
    )


@pytest.mark.parametrize("field", ["labels", "annotations", "uid"])
async def test_the_operators_driver_gets_the_whole_node(field: str) -> None:
    """As in LBCF."""
    node = await asked("lbcf-shared")

    metadata = node["metadata"]
    assert isinstance(metadata, dict)
    assert field in metadata
