"""The manifests of the driver and its Envoys fit together, and real programs take them."""

import asyncio
import json
import re

from pathlib import Path
from typing import Any

import pytest
import yaml

from lbcf.core.model.services import derive
from lbcf.core.reasons import Explanation
from lbcf.sdk.run import check_exposed, credential_files, driver_parser
from lbcf.wire.kube import parse_service
from lbcf.wire.services import parse_class
from tests.envoy.shipped import SERVICE, envoy_argv, objects, pod, write_certificates
from tests.manifests.documents import EXAMPLES, ROOT
from webhooks.envoy.__main__ import DEFAULT_PORT, add_flags, make_driver
from webhooks.envoy.attributes import parse_attributes
from webhooks.envoy.balancers import parse_identity
from webhooks.envoy.driver import EnvoyDriver


def test_the_driver_takes_its_flags() -> None:
    """Callers show a token, Envoys certificates; each file is in a volume."""
    found = objects("deployment.yaml")
    container = pod(found["Deployment"])["containers"][0]
    parser = driver_parser(EnvoyDriver, DEFAULT_PORT)
    add_flags(parser)
    flags = parser.parse_args(container["args"])
    check_exposed(flags, credential_files(flags))
    driver = make_driver(flags)
    mounts = {Path(one["mountPath"]) for one in container["volumeMounts"]}
    files = driver.keeper.files
    reference = found["LoadBalancerDriver"]["spec"]["auth"]["bearerTokenSecretRef"]

    assert files is not None
    assert {files.certificate.parent, files.key.parent, files.clients.parent} <= mounts
    assert driver.keeper.store.folder.parent in mounts
    assert flags.token_file.parent in mounts
    assert flags.token_file.name == reference["key"]
    assert f":{DEFAULT_PORT}" in found["LoadBalancerDriver"]["spec"]["url"]


@pytest.mark.envoy
async def test_envoy_takes_its_configuration(tmp_path: Path) -> None:
    """It names the driver's Service and port, and a real Envoy finds nothing wrong."""
    text = objects("proxies.yaml")["ConfigMap"]["data"]["envoy.yaml"]
    write_certificates(tmp_path)
    binary, *args = envoy_argv(tmp_path, "pipe: {path: /nowhere}", 1)

    child = await asyncio.create_subprocess_exec(
        *(binary, "--mode", "validate", *args),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await child.communicate()

    assert 0 == child.returncode, said.decode()
    service = objects("deployment.yaml")["Service"]
    ports = {one["name"]: one["port"] for one in service["spec"]["ports"]}
    where = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert where == SERVICE
    assert f"{{address: {where}, port_value: {ports['xds']}}}" in text


def classes(name: str) -> list[dict[str, Any]]:
    """Return the classes of this driver that a file has."""
    text = (ROOT / name).read_text()
    if name.endswith(".md"):
        text = "---\n".join(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
    found = [one for one in yaml.safe_load_all(text) if one]
    whole = [one for one in found if one.get("kind") == "LoadBalancerClass"]
    return [one for one in whole if one["spec"]["driver"] == "lbcf-envoy"]


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("docs/envoy.md", {"externalTrafficPolicy": "Local"}),
        ("docs/services.md", {}),
        (
            f"{EXAMPLES.relative_to(ROOT)}/class-envoy.yaml",
            {"externalTrafficPolicy": "Local"},
        ),
    ],
)
def test_services_of_documented_classes_are_served(
    name: str, whole: dict[str, str]
) -> None:
    """Whoever copies one may have session affinity, which the API server gives a timeout."""
    spec = {
        "type": "LoadBalancer",
        "selector": {"app": "web"},
        "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
        "loadBalancerSourceRanges": ["198.51.100.0/24"],
        **whole,
    }
    metadata = {"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "1"}
    service = parse_service(json.dumps({"metadata": metadata, "spec": spec}).encode())
    found = classes(name)
    for one in found:
        one["metadata"] |= {"uid": "c", "resourceVersion": "1"}
        known = parse_class(json.dumps(one).encode())
        assert service.exposure is not None
        for port in derive(service.meta, service.exposure, known, "198.51.100.1"):
            assert not isinstance(port, Explanation)
            udp = parse_identity(port.balancer.spec).udp
            assert parse_attributes(port.balancer.attributes, udp=udp).by_hash
    assert found
