"""The manifests of drivers against the drivers: flags, credentials, ports, operations."""

from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from images.table import IMAGES
from lbcf.sdk import Driver, Operation
from lbcf.sdk.run import check_exposed, credential_files, driver_parser
from tests.manifests.documents import ROOT
from webhooks.elbv2 import __main__ as elbv2
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.f5 import __main__ as f5
from webhooks.f5.driver import F5Driver
from webhooks.netscaler import __main__ as netscaler
from webhooks.netscaler.driver import NetscalerDriver


@attrs.frozen
class Shipped:
    """A driver, and the folder with its manifests."""

    name: str
    program: Any
    driver: type[Driver]

    def objects(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return its objects by kind and name."""
        folder = ROOT / "manifests" / "drivers" / self.name
        found = yaml.safe_load_all((folder / "deployment.yaml").read_text())
        return {(one["kind"], one["metadata"]["name"]): one for one in found}

    def container(self) -> dict[str, Any]:
        """Return its container."""
        made = self.objects()["Deployment", f"lbcf-{self.name}"]
        found: dict[str, Any] = made["spec"]["template"]["spec"]["containers"][0]
        return found


DRIVERS = {
    "elbv2": Shipped("elbv2", elbv2, Elbv2Driver),
    "f5": Shipped("f5", f5, F5Driver),
    "netscaler": Shipped("netscaler", netscaler, NetscalerDriver),
}
shipped = pytest.mark.parametrize("one", DRIVERS.values(), ids=DRIVERS)


@shipped
def test_driver_starts_with_the_flags_of_its_manifest(one: Shipped) -> None:
    """Each is known; it knows its callers; each file that it reads is mounted."""
    parser = driver_parser(one.driver, one.program.DEFAULT_PORT)
    one.program.add_flags(parser)
    flags = parser.parse_args(one.container()["args"])
    files = credential_files(flags)
    check_exposed(flags, files)

    folders = [Path(m["mountPath"]) for m in one.container()["volumeMounts"]]
    named = [argument.partition("=")[2] for argument in one.container()["args"]]
    read = [Path(text) for text in named if text.startswith("/etc/lbcf")]
    assert files.tokens in read
    assert all({path, *path.parents} & set(folders) for path in read)


@shipped
def test_callers_find_the_driver_and_its_token(one: Shipped) -> None:
    """URL, ports, Secret and image say the same; operations are those that it has."""
    found, name = one.objects(), f"lbcf-{one.name}"
    spec = found["LoadBalancerDriver", name]["spec"]
    [port] = found["Service", name]["spec"]["ports"]
    [exposed] = one.container()["ports"]
    volumes = found["Deployment", name]["spec"]["template"]["spec"]["volumes"]
    secrets = {v["secret"]["secretName"] for v in volumes if "secret" in v}
    token = spec["auth"]["bearerTokenSecretRef"]["name"]

    assert one.program.DEFAULT_PORT == port["port"] == exposed["containerPort"]
    assert f"http://{name}.lbcf-system.svc:{port['port']}" == spec["url"]
    assert token in secrets
    assert [token] == found["Role", token]["rules"][0]["resourceNames"]
    assert IMAGES[one.name].reference.split("/")[-1].startswith(f"{name}:")
    known = {operation.value for operation in Operation}
    assert {entry["name"] for entry in spec["webhooks"]} <= known
