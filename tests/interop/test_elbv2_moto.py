"""The ELBv2 driver on moto, for what moto does as AWS does.

That is signing, XML, ARNs, attributes, and target groups that are missing. It has no
drain (a target is gone at once), tells targets apart by id alone, and refuses to
deregister what it does not know (seen on moto 5.2.5): what is about these is tested on
the emulator.
"""

import asyncio
import contextlib
import re
import sys

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiobotocore.session import get_session

from lbcf.sdk import (
    CreateLoadBalancerRequest,
    Fail,
    Succ,
    ValidateLoadBalancerRequest,
)
from tests.elbv2.clients import (
    ADDRESS,
    RECORD,
    a_deregister,
    a_drain,
    a_list,
    an_ensure,
    write_credentials,
)
from tests.fakes.clock import VirtualClock
from webhooks.elbv2.balancer import LoadBalancers
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.elbv2.regions import Aws, Settings


if TYPE_CHECKING:
    from types_aiobotocore_elbv2 import ElasticLoadBalancingv2Client as ElbClient

pytestmark = pytest.mark.interop

REGION = "eu-central-1"
DELAY = "deregistration_delay.timeout_seconds"
_SERVING = re.compile(r"Running on (http://\S+)")


@pytest.fixture(name="url")
async def _url() -> AsyncIterator[str]:
    """Run moto on a free port; return where it is."""
    program = Path(sys.executable).with_name("moto_server")
    child = await asyncio.create_subprocess_exec(
        *(str(program), "-H", "127.0.0.1", "-p", "0"),
        stderr=asyncio.subprocess.STDOUT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    try:
        async with asyncio.timeout(60):
            async for line in child.stdout:
                if found := _SERVING.search(line.decode()):
                    break
            else:
                pytest.fail("moto ended before it served")
        yield found[1]
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.communicate()


@pytest.fixture(name="client")
async def _client(url: str) -> AsyncIterator["ElbClient"]:
    """Return AWS' own client."""
    async with get_session().create_client(
        "elbv2",
        region_name=REGION,
        endpoint_url=url,
        aws_access_key_id="AKIAMOTO",
        aws_secret_access_key="secret",  # noqa: S106
    ) as client:
        yield client


@pytest.fixture(name="arn")
async def _arn(client: "ElbClient", url: str) -> str:
    """Return a target group in the VPC that moto has."""
    async with get_session().create_client(
        "ec2",
        region_name=REGION,
        endpoint_url=url,
        aws_access_key_id="AKIAMOTO",
        aws_secret_access_key="secret",  # noqa: S106
    ) as ec2:
        vpcs = await ec2.describe_vpcs()
    made = await client.create_target_group(
        Name="web",
        Protocol="HTTP",
        Port=80,
        VpcId=vpcs["Vpcs"][0]["VpcId"],
        TargetType="ip",
    )
    return made["TargetGroups"][0]["TargetGroupArn"]


@pytest.fixture(name="driver")
async def _driver(url: str, tmp_path: Path) -> AsyncIterator[Elbv2Driver]:
    """Return a driver of moto."""
    write_credentials(tmp_path, "AKIAMOTO", "secret")
    settings = Settings(url, REGION, tmp_path, attempts=1)
    aws = Aws(settings, VirtualClock())
    driver = Elbv2Driver(LoadBalancers(aws, fresh=timedelta()))
    yield driver
    await driver.stop()


async def health(client: "ElbClient", arn: str) -> dict[str, str]:
    """Return the state of all targets, as AWS' own client reads it."""
    answer = await client.describe_target_health(TargetGroupArn=arn)
    return {
        f"{one['Target']['Id']}:{one['Target']['Port']}": one["TargetHealth"]["State"]
        for one in answer["TargetHealthDescriptions"]
    }


async def test_a_life(driver: Elbv2Driver, client: "ElbClient", arn: str) -> None:
    """A target group is found by its name; a member comes, is listed, and goes."""
    created = await driver.create_load_balancer(
        CreateLoadBalancerRequest(record_id=RECORD, lb_spec={"targetGroups": "web"})
    )
    lb_info = dict(created.lb_info or {})
    await driver.ensure_backend(an_ensure(lb_info))
    registered = await health(client, arn)
    listed = await driver.list_backends(a_list(lb_info))
    drained = await driver.drain_backend(a_drain(lb_info))
    await driver.deregister_backend(a_deregister(lb_info))
    left = await health(client, arn)

    assert {"targetGroups": arn, "targetType": "ip"} == lb_info
    assert {ADDRESS: "healthy"} == registered
    assert [ADDRESS] == [one.backend_addr for one in listed.backends]
    assert Succ(msg="") == drained
    assert {} == left


async def test_many(driver: Elbv2Driver, client: "ElbClient", arn: str) -> None:
    """Members that come at once are all in."""
    lb_info = {"targetGroups": arn}
    addresses = [f"10.0.{n // 250}.{n % 250 + 1}:80" for n in range(120)]

    await asyncio.gather(
        *(driver.ensure_backend(an_ensure(lb_info, one, one)) for one in addresses)
    )

    assert set(addresses) == set(await health(client, arn))


async def test_attributes(driver: Elbv2Driver, client: "ElbClient", arn: str) -> None:
    """The deregistration delay is set."""
    await driver.create_load_balancer(
        CreateLoadBalancerRequest(
            record_id=RECORD, lb_spec={"targetGroups": arn}, attributes={DELAY: "17"}
        )
    )

    said = await client.describe_target_group_attributes(TargetGroupArn=arn)
    assert "17" == {one["Key"]: one["Value"] for one in said["Attributes"]}[DELAY]


async def test_what_moto_does_not_know_is_out(
    driver: Elbv2Driver, client: "ElbClient", arn: str
) -> None:
    """One that somebody took out is refused with InvalidTarget, and is out."""
    lb_info = {"targetGroups": arn}
    ensured = await driver.ensure_backend(an_ensure(lb_info))
    kept = dict(ensured.injected_info or {})
    host, _, port = ADDRESS.partition(":")
    await client.deregister_targets(
        TargetGroupArn=arn, Targets=[{"Id": host, "Port": int(port)}]
    )

    answer = await driver.deregister_backend(a_deregister(lb_info, injected_info=kept))

    assert Succ(msg="") == answer


async def test_a_target_group_that_is_missing(
    driver: Elbv2Driver, client: "ElbClient", arn: str
) -> None:
    """It is refused by name, and counts as empty by its ARN."""
    lb_info = {"targetGroups": arn}
    await driver.ensure_backend(an_ensure(lb_info))
    await client.delete_target_group(TargetGroupArn=arn)

    drained = await driver.drain_backend(a_drain(lb_info))
    with pytest.raises(Fail, match="the target group is gone"):
        await driver.validate_load_balancer(
            ValidateLoadBalancerRequest(lb_spec={"targetGroups": "web"})
        )

    assert Succ(msg="target group web is gone") == drained
