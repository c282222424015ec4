"""The driver keeps to the protocol: every rule of the kit, and the contract's schemas."""

from pathlib import Path

import pytest

from lbcf.conformance.findings import Outcome
from lbcf.conformance.target import OPTIONAL, Target
from lbcf.sdk import Service
from tests.conformance.stages import complaints, ended, results_of, serving
from tests.conformance.test_schemathesis import keeps
from tests.elbv2.clients import an_identity
from tests.elbv2.clocks import FastClock
from tests.elbv2.conftest import MakeDriver
from tests.elbv2.emulator import THEIRS, Emulator
from tests.elbv2.state import DELAY, EmulatedGroup


STRANGERS = [("198.18.0.1", 9090), ("198.18.200.1", 8080)]


@pytest.fixture(name="aws_group")
def _aws_group(emulator: Emulator, group: EmulatedGroup) -> EmulatedGroup:
    """Return a target group on fast time that has targets of other people."""
    group.clock = emulator.clock = FastClock()
    group.attributes[DELAY] = "5"
    emulator.register(group, *STRANGERS)
    return group


@pytest.mark.timeout(240)
async def test_the_driver_passes(
    make_driver: MakeDriver,
    emulator: Emulator,
    aws_group: EmulatedGroup,
    tmp_path: Path,
) -> None:
    """Nothing is left of the kit, and nobody else was touched, in spite of a crash."""
    gone = aws_group.arn.replace("/web/", "/gone/")
    claims = str(tmp_path / "claims")
    async with serving(lambda: Service(make_driver(claims)).application()) as served:
        target = Target(
            url=served.url,
            lb_spec={"targetGroups": "web", "region": "eu-test-1"},
            gone={"targetGroups": gone},
            declared=OPTIONAL,
            restart=served.restart,
        )
        results = await results_of(target)

    assert {
        "judged-pods-were-asked-for",
        "records-share-an-address",
        "drain-waits-for-connections",
    } == ended(results, Outcome.NOT_APPLICABLE)
    assert {} == complaints(results)
    assert dict.fromkeys(STRANGERS, THEIRS) == aws_group.owners
    assert all(one.port for call in emulator.calls for one in call.targets)


@pytest.mark.timeout(240)
async def test_the_contract(
    make_driver: MakeDriver, aws_group: EmulatedGroup, tmp_path: Path
) -> None:
    """Whatever it is asked, it answers as the contract says; strangers stay."""
    await keeps(tmp_path, make_driver(), an_identity(aws_group))

    assert dict.fromkeys(STRANGERS, THEIRS) == aws_group.owners
