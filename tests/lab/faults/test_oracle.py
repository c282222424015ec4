"""The oracle finds what is wrong in doctored histories, and nothing in a good one."""

import attrs
import pytest

from tests.lab.faults.history import Call, Effect, History, Member, Release, Sight
from tests.lab.faults.oracle import DEREGISTER, DRAIN, ENSURE, differences, judge


HOST = "10.0.0.1:80"
SIGHTS = (
    Sight(1.0, "u1", "web-1", HOST),
    Sight(2.0, "u1", "web-1", HOST, registered=True),
    Sight(5.0, "u1", "web-1", HOST, deleting=True, registered=True),
    Sight(9.0, "u1", "web-1", HOST, deleting=True, held=False),
)
CALLS = (
    Call(ENSURE, "u1", HOST, 1.1, 1.3, "Succ"),
    Call(DRAIN, "u1", HOST, 5.1, 5.2, "Succ"),
    Call(DEREGISTER, "u1", HOST, 6.0, 6.5, "Succ"),
)
EFFECTS = (
    Effect(1.2, True, HOST, "u1"),
    Effect(6.2, False, HOST, "u1", "u1"),
)
LIFE = History(
    by_record=True,
    sights=SIGHTS,
    releases=(Release("u1", 7.0, 9.0),),
    calls=CALLS,
    effects=EFFECTS,
)


def rules(history: History) -> list[str]:
    """Which rules a history breaks."""
    return sorted({violation.rule for violation in judge(history)})


@pytest.mark.parametrize("by_record", [True, False])
def test_good_life_breaks_nothing(by_record: bool) -> None:
    """Created, ensured, deleted, drained, deregistered, let go: fine."""
    assert [] == rules(attrs.evolve(LIFE, by_record=by_record))


def test_ensure_before_the_record_names_the_address() -> None:
    """S1: the call began before anybody could have read the address."""
    early = attrs.evolve(CALLS[0], began=0.9)

    assert ["S1"] == rules(attrs.evolve(LIFE, calls=(early, *CALLS[1:])))


def test_ensure_for_a_record_nobody_saw() -> None:
    """S1: a stranger's uid, or an address that its record never named."""
    stranger = Call(ENSURE, "u9", HOST, 3.0, 3.1, "Succ")
    elsewhere = Call(ENSURE, "u1", "10.0.0.9:80", 3.0, 3.1, "Succ")

    for call in (stranger, elsewhere):
        assert ["S1"] == rules(attrs.evolve(LIFE, calls=(*CALLS, call)))


def test_address_that_comes_late_into_the_status_counts_from_then() -> None:
    """S1: a record without an address allows nothing yet."""
    bare = attrs.evolve(SIGHTS[0], address="")

    assert ["S1"] == rules(attrs.evolve(LIFE, sights=(bare, *SIGHTS[1:])))


@pytest.mark.parametrize("by_record", [True, False])
def test_member_that_outlives_its_record(by_record: bool) -> None:
    """S2: it is still there when the finalizer goes."""
    late = attrs.evolve(EFFECTS[1], at=8.0)
    history = attrs.evolve(LIFE, by_record=by_record, effects=(EFFECTS[0], late))

    assert ["S2"] == rules(history)


def test_member_that_is_never_removed() -> None:
    """S2: it is there for ever."""
    assert ["S2"] == rules(attrs.evolve(LIFE, effects=EFFECTS[:1]))


@pytest.mark.parametrize("by_record", [True, False])
def test_member_that_comes_back_after_its_record(by_record: bool) -> None:
    """S2: an ensure of long ago lands late."""
    back = Effect(10.0, True, HOST, "u1")
    history = attrs.evolve(LIFE, by_record=by_record, effects=(*EFFECTS, back))

    assert ["S2"] == rules(history)


def test_next_owner_of_the_address_is_no_leak() -> None:
    """S2: where addresses tell members apart, another record may have it by then."""
    sight = Sight(6.6, "u2", "web-2", HOST)
    call = Call(ENSURE, "u2", HOST, 6.7, 6.8, "Succ")
    effect = Effect(6.75, True, HOST, "u2")
    history = attrs.evolve(
        LIFE,
        by_record=False,
        sights=(*SIGHTS, sight),
        calls=(*CALLS, call),
        effects=(*EFFECTS, effect),
    )

    assert [] == rules(history)


@pytest.mark.parametrize("operation", [DRAIN, DEREGISTER])
def test_call_against_a_record_that_lives(operation: str) -> None:
    """S3: it began before anybody could know of the deletion."""
    early = Call(operation, "u1", HOST, 4.0, 4.1, "Fail")

    assert ["S3"] == rules(attrs.evolve(LIFE, calls=(*CALLS, early)))


def test_next_owner_is_removed_by_the_last_one() -> None:
    """S3: the end of one record takes out the member of another, which lives."""
    sight = Sight(5.5, "u2", "web-2", HOST)
    call = Call(ENSURE, "u2", HOST, 5.6, 5.8, "Succ")
    effects = (
        EFFECTS[0],
        Effect(5.7, True, HOST, "u2", "u1"),
        Effect(6.2, False, HOST, "u1", "u2"),
    )
    history = attrs.evolve(
        LIFE,
        by_record=False,
        sights=(*SIGHTS, sight),
        calls=(*CALLS, call),
        effects=effects,
    )

    assert ["S3"] == rules(history)


@pytest.mark.parametrize(
    "changes",
    [{"outcome": "Running"}, {"outcome": "Fail"}, {"ended": 7.5}, {"ended": None}],
)
def test_finalizer_that_goes_without_a_success(changes: dict[str, object]) -> None:
    """S4: no deregistration had succeeded when the write was sent."""
    weak = attrs.evolve(CALLS[2], **changes)  # type: ignore[arg-type]

    assert ["S4"] == rules(attrs.evolve(LIFE, calls=(*CALLS[:2], weak)))


def test_record_without_an_address_may_simply_go() -> None:
    """S4: nothing was ever registered for it."""
    sights = tuple(attrs.evolve(sight, address="") for sight in SIGHTS)
    history = attrs.evolve(LIFE, sights=sights, calls=(), effects=())

    assert [] == rules(history)


GOOD = Sight(1.0, "u1", "web-1", HOST, registered=True)
WANTED = {HOST: {"weight": "7"}}
MEMBER = Member(HOST, "u1", {"weight": "7"})


def test_rest_as_wanted_differs_in_nothing() -> None:
    """S5: one member, one record, the parameters that were asked for."""
    assert [] == differences([MEMBER], [GOOD], WANTED)


@pytest.mark.parametrize(
    ("members", "records", "told"),
    [
        ([], [GOOD], "members are []"),
        ([MEMBER, attrs.evolve(MEMBER, uid="u0")], [GOOD], "a member of nobody"),
        ([attrs.evolve(MEMBER, parameters={})], [GOOD], "10.0.0.1:80 has {}"),
        ([attrs.evolve(MEMBER, active=False)], [GOOD], "still draining"),
        ([MEMBER], [attrs.evolve(GOOD, registered=False)], "is not Registered"),
        ([MEMBER], [attrs.evolve(GOOD, deleting=True)], "is not gone"),
        ([MEMBER], [GOOD, attrs.evolve(GOOD, uid="u2")], "records name"),
    ],
)
def test_rest_that_is_none(
    members: list[Member], records: list[Sight], told: str
) -> None:
    """S5: each difference is told."""
    found = differences(members, records, WANTED)

    assert any(told in violation.text for violation in found), found
    assert {"S5"} == {violation.rule for violation in found}
