"""A LoadBalancer at a driver that is declared wrongly is denied when it is applied."""

import json

import pytest

from lbcf.admission.limits import RequestLimits
from lbcf.core.model.names import API_VERSION
from lbcf.sdk import Service
from tests.admission.test_limits import door, question
from tests.kube.tiny_api import Json
from tests.sdk.services import serving
from webhooks.memory import MemoryDriver


@pytest.mark.parametrize(("key", "allowed"), [("Record", False), ("Address", True)])
async def test_a_driver_is_told_the_member_key(key: str, allowed: bool) -> None:
    """Its members go by their addresses, and the text says what to declare."""
    async with (
        serving(Service(MemoryDriver())) as url,
        door(RequestLimits()) as webhook,
    ):
        spec: Json = {"driverType": "Webhook", "url": url, "memberKey": key}
        metadata: Json = {"name": "proxy"}
        path = f"/apis/{API_VERSION}/namespaces/shop/loadbalancerdrivers/proxy"
        webhook.api.put(
            path, {"apiVersion": API_VERSION, "spec": spec, "metadata": metadata}
        )
        _, body = await webhook.ask(question())

    answer = json.loads(body)["response"]
    assert allowed == answer["allowed"]
    assert allowed or "memberKey: Address" in answer["status"]["message"]
