"""Each operation of each driver under each fault: what is said, and what is there at last."""

import itertools
import re

import pytest

from lbcf.sdk import RetryAfter
from tests.webhooks.rig import Rig
from tests.webhooks.rigs import each
from tests.webhooks.troubled import OPERATIONS, asking, refused, settled


@each("fault", "operation", of=lambda kind: itertools.product(kind.faults, OPERATIONS))
async def test_told_meanwhile_and_right_at_last(
    rig: Rig, fault: str, operation: str
) -> None:
    """It says what is wrong and changes nothing; then it is done without a restart."""
    driver = rig.start()
    ask = asking(driver, operation, rig.ensure())
    if operation != "ensure":
        await settled(lambda: driver.ensure_backend(rig.ensure()))
    before = await rig.state()

    await rig.begin(fault, operation)
    refusal = await refused(ask)
    said = refusal.msg
    meanwhile = await rig.state()
    await rig.end(fault)
    answer = await settled(ask)

    assert re.search(rig.faults[fault], said), said
    assert rig.subject(fault, operation) in said
    assert "<" not in said
    assert (fault in rig.passing) == isinstance(refusal, RetryAfter)
    assert before is meanwhile
    assert rig.at_last[operation] is await rig.state()
    assert (operation == "list") == bool(answer and answer.backends)


@pytest.mark.parametrize("operation", OPERATIONS)
@each(of=lambda kind: [()] if kind.has_sessions else [])
async def test_a_session_that_ended_is_not_noticed(rig: Rig, operation: str) -> None:
    """Expired or ended in the middle of the work: the work goes on with another."""
    driver = rig.start()
    await driver.ensure_backend(rig.ensure())
    rig.end_sessions()

    await settled(asking(driver, operation, rig.ensure()))

    assert (2, rig.at_last[operation]) == (rig.logins(), await rig.state())
