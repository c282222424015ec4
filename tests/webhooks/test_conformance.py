"""The shipped drivers keep to the protocol: every rule of the kit, and its schemas."""

import contextlib

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lbcf.conformance.findings import Outcome
from lbcf.conformance.target import OPTIONAL, Target
from lbcf.sdk import Service
from tests.conformance.stages import complaints, ended, results_of, serving
from tests.conformance.test_schemathesis import keeps
from tests.patience import PATIENT
from tests.webhooks.rig import Rig


pytestmark = pytest.mark.long

STRANGERS = ("198.18.0.99:9090", "198.18.200.1:8080")


@contextlib.asynccontextmanager
async def target_of(rig: Rig) -> AsyncIterator[Target]:
    """Serve a driver of the rig, which can be killed; give the target that it is."""
    lb_spec = rig.kit()
    async with serving(lambda: Service(rig.make()).application()) as served:
        yield Target(
            url=served.url,
            lb_spec=lb_spec,
            gone=dict(rig.gone),
            parameters=dict(rig.valid_parameters),
            member_key=rig.member_key,
            declared=OPTIONAL,
            restart=served.restart,
            connect=rig.connector(),
            timeout=PATIENT,
            patience=PATIENT,
        )


async def test_every_rule(rig: Rig) -> None:
    """Nothing is left of the kit, and nobody else was touched, in spite of a crash."""
    for address in STRANGERS:
        await rig.occupy(address)
    before = await rig.strangers()
    async with target_of(rig) as target:
        results = await results_of(target)

    assert {} == complaints(results)
    assert rig.not_offered == ended(results, Outcome.NOT_APPLICABLE)
    assert before == await rig.strangers()
    assert [] == await rig.left()


async def test_the_contract(rig: Rig, tmp_path: Path) -> None:
    """Whatever it is asked, it answers as the contract says; strangers stay."""
    for address in STRANGERS:
        await rig.occupy(address)
    before = await rig.strangers()

    await keeps(tmp_path, rig.make(), rig.lb_info)

    assert before == await rig.strangers()
