"""The driver remembers its calls and changes, the late ones too."""

import asyncio
import random

import msgspec
import pytest

from lbcf import sdk
from tests.lab.faults.history import Effect, Journal
from tests.lab.faults.witness import LATEST, Witness
from tests.patience import PATIENCE


HOST = "10.0.0.1:80"
NAME = {"name": "front"}


def an_ensure(uid: str) -> sdk.EnsureBackendRequest:
    """Ask for a member in the name of a record."""
    return sdk.EnsureBackendRequest(record_id=uid, lb_info=NAME, backend_addr=HOST)


def a_deregister(uid: str) -> sdk.DeregisterBackendRequest:
    """Ask for its removal."""
    return sdk.DeregisterBackendRequest(record_id=uid, lb_info=NAME, backend_addr=HOST)


def a_witness(key: sdk.MemberKey = sdk.MemberKey.ADDRESS) -> tuple[Witness, Journal]:
    """Make a driver with its journal."""
    journal = Journal()
    return Witness(key, journal, random.Random(1)), journal  # noqa: S311


def told(effect: Effect) -> tuple[bool, str, str]:
    """What a change was, without its time."""
    return effect.ensured, effect.by, effect.before


async def test_changes_tell_whose_member_it_was() -> None:
    """Where the address tells members apart, one record may take another's out."""
    witness, journal = a_witness()

    await witness.ensure_backend(an_ensure("u1"))
    await witness.ensure_backend(an_ensure("u2"))
    await witness.deregister_backend(a_deregister("u1"))

    expected = [(True, "u1", ""), (True, "u2", "u1"), (False, "u1", "u2")]
    assert expected == [told(effect) for effect in journal.effects]
    assert ["Succ"] * 3 == [call.outcome for call in journal.calls]


async def test_refusal_is_remembered_by_its_name() -> None:
    """A member that is not there, and one that nobody may have."""
    witness, journal = a_witness()

    with pytest.raises(sdk.NotThere):
        await witness.deregister_backend(a_deregister("u1"))

    assert ["NotThere"] == [call.outcome for call in journal.calls]
    assert [] == journal.effects


async def test_late_effect_comes_after_its_answer() -> None:
    """Running at once; the member comes some time later, and goes likewise."""
    witness, journal = a_witness(sdk.MemberKey.RECORD)
    witness.late = 1.0

    answer = await witness.ensure_backend(an_ensure("u1"))
    assert isinstance(answer, sdk.Running)
    assert [] == witness.listed()
    await _until(journal, 1)
    await witness.deregister_backend(a_deregister("u1"))
    await _until(journal, 2)

    assert [(True, "u1", ""), (False, "u1", "u1")] == [
        told(effect) for effect in journal.effects
    ]
    assert all(call.ended for call in journal.calls)


@pytest.mark.parametrize("gone", [False, True], ids=["ensured", "not there"])
async def test_nothing_comes_late_after_success(gone: bool) -> None:
    """`Succ` for a record ends what its earlier calls were answered Running for."""
    witness, journal = a_witness(sdk.MemberKey.RECORD)
    witness.late = 1.0
    await witness.ensure_backend(an_ensure("u1"))
    await witness.ensure_backend(an_ensure("u2"))
    witness.late = 0.0

    if gone:
        with pytest.raises(sdk.NotThere):
            await witness.deregister_backend(a_deregister("u1"))
    else:
        await witness.ensure_backend(an_ensure("u1"))
    await asyncio.sleep(LATEST + 0.5)

    expected = [(True, "u2", "")] if gone else [(True, "u1", ""), (True, "u2", "")]
    assert expected == [told(effect) for effect in journal.effects]


async def test_nothing_comes_late_while_success_is_on_its_way() -> None:
    """The effect of a call is there, its answer is not: what is as it asked stays so."""
    witness, journal = a_witness(sdk.MemberKey.RECORD)
    witness.late = 1.0
    await witness.ensure_backend(an_ensure("u1"))
    witness.late = 0.0
    witness.slow_down(LATEST + 0.5)

    newer = msgspec.structs.replace(an_ensure("u1"), parameters={"weight": "7"})
    assert isinstance(await witness.ensure_backend(newer), sdk.Succ)

    assert [(True, "u1", "")] == [told(effect) for effect in journal.effects]
    assert [{"weight": "7"}] == [member.parameters for member in witness.listed()]


async def _until(journal: Journal, effects: int) -> None:
    """Wait for so many changes."""
    async with asyncio.timeout(PATIENCE):
        while len(journal.effects) < effects:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)
