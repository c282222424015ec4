"""Envoys as manifests/drivers/envoy starts them, with files and ports of this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import trustme
import yaml

from tests.envoy.proxy import BINARY
from tests.manifests.documents import ROOT


FOLDER = ROOT / "manifests" / "drivers" / "envoy"
SERVICE = "lbcf-envoy.lbcf-system.svc"
"""Where the Envoys look for the driver, and whose certificate it shows."""


def objects(name: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a file, by kind."""
    text = (FOLDER / name).read_text()
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


def pod(workload: dict[str, Any]) -> dict[str, Any]:
    """Return what a workload runs in."""
    found: dict[str, Any] = workload["spec"]["template"]["spec"]
    return found


def container() -> dict[str, Any]:
    """Return the container of the Envoys."""
    (found,) = pod(objects("proxies.yaml")["DaemonSet"])["containers"]
    return dict(found)


def write_certificates(folder: Path) -> None:
    """Write those of both sides."""
    authority = trustme.CA()
    made = authority.issue_cert(SERVICE)
    authority.cert_pem.write_to_path(folder / "ca.crt")
    made.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    made.private_key_pem.write_to_path(folder / "tls.key")


@attrs.frozen
class Probe:
    """What the kubelet asks a container for over HTTP.

    Attributes:
        url: where.
        headers: what it says beside.
    """

    url: str
    headers: dict[str, str]


def probe(said: dict[str, Any], port: int) -> Probe:
    """Read an httpGet of the container, which is to come to a port of this machine."""
    headers = {one["name"]: one["value"] for one in said.get("httpHeaders", ())}
    return Probe(f"http://{said['host']}:{port}{said['path']}", headers)


def envoy_argv(folder: Path, driver: str, port: int) -> Sequence[str | Path]:
    """Write the shipped configuration with places of ours; return what starts an Envoy.

    Args:
        folder: of its certificates, its configuration and its sockets.
        driver: where that is, as Envoy writes addresses.
        port: where it tells the kubelet that it is ready.
    """
    text = objects("proxies.yaml")["ConfigMap"]["data"]["envoy.yaml"]
    asked = container()["readinessProbe"]["httpGet"]
    for theirs, ours in (
        (f"socket_address: {{address: {SERVICE}, port_value: 18000}}", driver),
        (f"port_value: {asked['port']}", f"port_value: {port}"),
        ("STRICT_DNS", "STATIC"),
        ("/etc/lbcf/xds", str(folder)),
        ("/run/lbcf", str(folder)),
    ):
        assert theirs in text, theirs
        text = text.replace(theirs, ours)
    path = folder / "envoy.yaml"
    path.write_text(text)
    args: Sequence[str] = container()["args"]
    places = {"$(NODE_NAME)": "n1", "/etc/lbcf/envoy/envoy.yaml": str(path)}
    return [BINARY, *(places.get(one, one) for one in args)]
