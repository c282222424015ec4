"""A target that another record has put in is not taken over, not by `adopt` either."""

import sqlite3

from pathlib import Path

import pytest

from lbcf.sdk import Fail
from tests.elbv2.clients import (
    ADDRESS,
    KEY,
    RECORD,
    a_deregister,
    a_drain,
    a_list,
    an_ensure,
    an_identity,
)
from tests.elbv2.conftest import MakeDriver
from tests.elbv2.emulator import OURS, Emulator
from tests.elbv2.state import EmulatedGroup
from tests.webhooks.tenants import check_fence
from webhooks.elbv2.claims import Claimed, Claims
from webhooks.elbv2.decisions import Claim
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.elbv2.load_balancers import AllowedGroups, parse_identity
from webhooks.elbv2.targets import parse_target
from webhooks.shared.identity import Owner


OTHER = "0f6ad1f4-3a52-4f0c-8d7e-77a1c2b3d4e5"
"""The uid of somebody else's record."""
ADOPT = {"adopt": "true"}


@pytest.fixture(name="second")
def _second(emulator: Emulator, group: EmulatedGroup) -> EmulatedGroup:
    """Return another target group."""
    return emulator.add(EmulatedGroup(group.clock, name="second"))


async def owners(driver: Elbv2Driver, group: EmulatedGroup) -> list[str | None]:
    """Return the records that have targets."""
    answer = await driver.list_backends(a_list(an_identity(group)))
    return [one.record_id for one in answer.backends]


async def test_a_target_of_another_load_balancer_stays(
    driver: Elbv2Driver, group: EmulatedGroup, second: EmulatedGroup
) -> None:
    """It is neither adopted nor taken out by who names a target group more."""
    await driver.ensure_backend(an_ensure(an_identity(group)))
    more = an_identity(group, second)

    with pytest.raises(Fail, match=f"registered for record {RECORD} by a load bal"):
        await driver.ensure_backend(an_ensure(more, ADDRESS, OTHER, ADOPT))
    await driver.deregister_backend(a_deregister(more, record=OTHER))

    assert ({KEY: OURS}, {}) == (group.owners, second.owners)
    assert [RECORD] == await owners(driver, group)


async def test_the_next_owner_of_the_same_groups_adopts(
    driver: Elbv2Driver, group: EmulatedGroup, second: EmulatedGroup
) -> None:
    """Its lock says that the record before it is gone, whatever was left of it."""
    await driver.ensure_backend(an_ensure(an_identity(group, second)))

    same = an_identity(second, group)
    await driver.ensure_backend(an_ensure(same, ADDRESS, OTHER, ADOPT))

    assert [OTHER] == await owners(driver, group)


async def test_claims_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    """Its file says nothing of pools: what it claims is nobody else's to take."""
    path = str(tmp_path / "claims")
    with sqlite3.connect(path) as rows:
        rows.execute(
            "CREATE TABLE claims (target_group TEXT, target TEXT, record TEXT,"
            " state TEXT, PRIMARY KEY (target_group, target)) STRICT"
        )
        rows.execute(
            "INSERT INTO claims VALUES (?, ?, ?, ?)", ("g", ADDRESS, RECORD, "seen")
        )
    rows.close()

    with Claims(path) as claims:
        read = claims.get("g", parse_target(ADDRESS))
        claims.put("g", {parse_target(ADDRESS): Claimed(Claim.SEEN, Owner(OTHER, "p"))})
        written = claims.get("g", parse_target(ADDRESS))

    assert Claimed(Claim.SEEN, Owner(RECORD)) == read
    assert Claimed(Claim.SEEN, Owner(OTHER, "p")) == written


async def test_one_set_of_groups_has_one_key(
    make_driver: MakeDriver, group: EmulatedGroup, second: EmulatedGroup
) -> None:
    """Names and ARNs in whatever order are the same; more groups are another one."""
    find = make_driver(region="eu-central-1").load_balancers.look_up
    arns = f"{second.arn}, {group.arn},{second.arn}"

    one = await find({"targetGroups": arns}, "")
    two = await find(an_identity(group, second), "")
    alone = parse_identity(an_identity(group))

    assert (one.lock_key, one.render()) == (two.lock_key, two.render())
    assert alone.lock_key != one.lock_key


async def test_a_copy_of_a_shared_load_balancer_gets_nothing_in(
    driver: Elbv2Driver, group: EmulatedGroup
) -> None:
    """An lbSpec that was read elsewhere opens no target group; what is in can go."""
    driver.load_balancers.allowed = AllowedGroups(("*", f"{group.name}=kube-system"))
    lb_info = an_identity(group)

    await check_fence(driver, lb_info, an_ensure(lb_info))
    await driver.drain_backend(a_drain(lb_info))
    await driver.deregister_backend(a_deregister(lb_info))

    assert {} == group.owners


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:80", "[::ffff:7f00:1]:80", "169.254.169.254:80", "[fe80::1]:80",
     "[fd00:ec2::254]:80", "10.0.0.1:080", "[2001:0db8:0::1]:80"],
)  # fmt: skip
async def test_addresses_that_are_refused(
    driver: Elbv2Driver, group: EmulatedGroup, address: str
) -> None:
    """What AWS reaches and its users must not; nothing is sent."""
    with pytest.raises(Fail, match="backendAddr"):
        await driver.ensure_backend(an_ensure(an_identity(group), address))

    assert {} == group.owners
