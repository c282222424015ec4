"""A target that another record has put in is not taken over, not by `adopt` either."""

import sqlite3

from pathlib import Path

import pytest

from tests.elbv2.clients import (
    ADDRESS,
    RECORD,
    an_identity,
)
from tests.elbv2.conftest import MakeDriver
from tests.elbv2.emulator import Emulator
from tests.elbv2.state import EmulatedGroup
from webhooks.elbv2.claims import Claimed, Claims
from webhooks.elbv2.decisions import Claim
from webhooks.elbv2.load_balancers import parse_identity
from webhooks.elbv2.targets import parse_target
from webhooks.shared.identity import Owner


OTHER = "0f6ad1f4-3a52-4f0c-8d7e-77a1c2b3d4e5"
"""The uid of somebody else's record."""


@pytest.fixture(name="second")
def _second(emulator: Emulator, group: EmulatedGroup) -> EmulatedGroup:
    """Return another target group."""
    return emulator.add(EmulatedGroup(group.clock, name="second"))


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

    one = (await find({"targetGroups": arns}, "")).identity
    two = (await find(an_identity(group, second), "")).identity
    alone = parse_identity(an_identity(group))

    assert (one.lock_key, one.render()) == (two.lock_key, two.render())
    assert alone.lock_key != one.lock_key
