"""What the API server says of a record's node and Service comes into the view."""

import attrs
import pytest

from lbcf.controller.backend_reader import BackendReader
from lbcf.controller.view import View
from lbcf.core.model.node_backends import NodeRef, ServiceRef
from lbcf.core.model.resources import BackendRecord, StaticRef
from lbcf.core.model.values import ObjectKey, Port
from lbcf.kube.client import KubeClient
from tests.builders import a_record
from tests.kube.tiny_api import TinyApi


HTTP = Port(80)
NODE = "/api/v1/nodes/n1"
SERVICE = "/api/v1/namespaces/shop/services/web"
AT_NODE = NodeRef("n1", HTTP)
OF_SERVICE = ServiceRef("web", HTTP, 30080, "n1")


def record_of(backend: NodeRef | ServiceRef | StaticRef) -> BackendRecord:
    """Make the record of a backend."""
    record = a_record()
    return attrs.evolve(record, spec=attrs.evolve(record.spec, backend=backend))


@pytest.fixture(name="api")
def _api() -> TinyApi:
    """A node, and a Service with a node port."""
    api = TinyApi()
    addresses = [{"type": "InternalIP", "address": "10.9.0.1"}]
    api.put(NODE, {"metadata": {}, "status": {"addresses": addresses}})
    ports = [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]
    api.put(SERVICE, {"metadata": {}, "spec": {"type": "NodePort", "ports": ports}})
    return api


@pytest.mark.parametrize(
    ("backend", "seen"),
    [(AT_NODE, (True, False)), (OF_SERVICE, (True, True))],
    ids=["node", "Service"],
)
async def test_what_is_there_comes_into_the_view(
    api: TinyApi, backend: NodeRef | ServiceRef, seen: tuple[bool, bool]
) -> None:
    """No watch has told of it yet."""
    view = View()
    reader = BackendReader(KubeClient(api), view)

    assert not await reader.is_gone(record_of(backend))
    node = view.nodes.get(ObjectKey("", "n1"))
    service = view.services.get(ObjectKey("shop", "web"))
    assert seen == (node is not None, service is not None)


@pytest.mark.parametrize(
    ("backend", "lost"),
    [(AT_NODE, NODE), (OF_SERVICE, NODE), (OF_SERVICE, SERVICE)],
    ids=["node", "node of a Service", "Service"],
)
async def test_what_is_not_there_is_gone(
    api: TinyApi, backend: NodeRef | ServiceRef, lost: str
) -> None:
    """Each part of it is needed."""
    api.remove(lost)
    assert await BackendReader(KubeClient(api), View()).is_gone(record_of(backend))


async def test_static_address_is_asked_for_nowhere(api: TinyApi) -> None:
    """It is there for as long as the group lists it."""
    record = record_of(StaticRef("10.0.0.9:80"))
    assert not await BackendReader(KubeClient(api), View()).is_gone(record)
    assert [] == api.requests
