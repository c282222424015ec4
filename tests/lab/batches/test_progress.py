"""Whoever gets nowhere is told so, and comes to an end."""

import pytest

from lbcf import sdk
from lbcf.core.model.operations import Operation
from tests.lab.batches.caller import (
    Caller,
    NoProgressError,
    as_object,
    followed,
    members,
)
from tests.sdk.services import serving


class Stuck(sdk.Driver):
    """Never has a member where it is to be, but for some."""

    batch = sdk.Batch(max_items=100)

    async def ensure_backend(
        self, request: sdk.EnsureBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Say no more than that it goes on, but of ten."""
        if request.record_id.startswith("record-1"):
            return sdk.Succ()
        return sdk.Running(msg="the unit is asleep")

    async def deregister_backend(
        self, _: sdk.DeregisterBackendRequest
    ) -> sdk.Succ | sdk.Running:
        """Have nothing to do."""
        return sdk.Succ()


async def test_a_driver_with_which_nothing_moves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Progress is printed; then it ends, and says how far it came and why no further."""
    async with serving(sdk.Service(Stuck())) as url:
        kind = as_object(Stuck, url, batched=True)
        async with Caller.of(kind, {"name": "front"}) as caller:
            with pytest.raises(NoProgressError) as told:
                await followed(
                    caller, Operation.ENSURE_BACKEND, members(20), 0.5, patience=2
                )

    assert "11 of 20 members are through" in str(told.value)
    assert "said last: the unit is asleep" in str(told.value)
    assert "ensureBackend: 11 of 20 after" in capsys.readouterr().out
