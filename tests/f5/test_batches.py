"""Many members in one transaction, and one that spoils it for the others."""

import asyncio
import functools

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

import pytest

from lbcf.sdk import (
    EnsureBackendRequest,
    Fail,
    Outcome,
    RetryAfter,
    RetrySingly,
    Running,
    Succ,
)
from tests.f5.requests import WEB, an_ensure, an_identity
from tests.f5.server import Bigip
from tests.patience import PATIENCE
from tests.webhooks.requests import a_deregister, a_drain
from webhooks.f5 import transactions
from webhooks.f5.driver import F5Driver
from webhooks.f5.icontrol import Icontrol
from webhooks.f5.transactions import Step


MANY = 100


def at(number: int) -> str:
    """Return the address of one of many."""
    return f"198.18.7.{number + 1}:80"


def ensures(
    bigip: Bigip, number: int = MANY, parameters: dict[str, str] | None = None
) -> list[EnsureBackendRequest]:
    """Return requests for so many members."""
    lb_info = an_identity(bigip)
    return [an_ensure(lb_info, at(n), f"record-{n}", parameters) for n in range(number)]


def others(bigip: Bigip) -> dict[str, object]:
    """Have a member and a node of other people; return how they are."""
    bigip.unit.running.add_member(
        WEB, {"name": "198.18.9.9:80", "description": "theirs"}
    )
    return strangers(bigip)


def strangers(bigip: Bigip) -> dict[str, object]:
    """Return members and nodes of other people."""
    running = bigip.unit.running
    found: dict[str, object] = {
        path: repr(one)
        for path, one in running.pool(WEB).members.items()
        if one.fields.get("description") == "theirs"
    }
    return found | {
        path: repr(one)
        for path, one in running.nodes.items()
        if not one.description.startswith("lbcf")
    }


def kinds(outcomes: Mapping[str, Outcome]) -> set[type]:
    """Return the types of outcomes."""
    return {type(one) for one in outcomes.values()}


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let transactions be as large as batches, however busy this machine is."""
    monkeypatch.setattr(transactions, "QUEUEING", timedelta(minutes=1))


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let transactions be small."""
    monkeypatch.setattr(transactions, "QUEUEING", timedelta(0))


def commits(bigip: Bigip) -> int:
    """Return how many commits were tried."""
    return sum(one.startswith("PATCH /mgmt/tm/transaction") for one in bigip.seen)


def readings(bigip: Bigip) -> int:
    """Return how many times the members were read: twice, where the first attempt makes all."""
    return bigip.seen.count("GET /mgmt/tm/ltm/pool/~Common~web/members")


@pytest.mark.usefixtures("unhurried")
async def test_many_come_and_go(driver: F5Driver, bigip: Bigip) -> None:
    """By one transaction in, three to be drained and out, nothing of it is left."""
    lb_info, before = an_identity(bigip), others(bigip)
    ensured = await driver.ensure_backends(ensures(bigip))
    inside = len(bigip.unit.running.pool(WEB).members)
    drains = [a_drain(lb_info, at(n), f"record-{n}") for n in range(MANY)]
    first = await driver.drain_backends(drains)
    drained = await driver.drain_backends(drains)
    ended = await driver.deregister_backends(
        [a_deregister(lb_info, at(n), f"record-{n}") for n in range(MANY)]
    )

    assert [{Succ}] * 3 == [kinds(ensured), kinds(drained), kinds(ended)]
    assert "counted from now on" in str(first["record-0"])
    assert MANY + 1 == inside
    # Nodes and members; disabled; offline; out; nodes.
    assert [2 * MANY, MANY, MANY, MANY, MANY] == bigip.unit.commits
    assert {"/Common/198.18.9.9:80"} == set(bigip.unit.running.pool(WEB).members)
    assert before == strangers(bigip)
    assert {} == bigip.unit.transactions


async def test_what_is_left_on_each_is_told(driver: F5Driver, bigip: Bigip) -> None:
    """One reading has the connections of all."""
    lb_info = an_identity(bigip)
    await driver.ensure_backends(ensures(bigip, 3))
    bigip.unit.connections[WEB, f"/Common/{at(1)}"] = 7
    drains = [a_drain(lb_info, at(n), f"record-{n}") for n in range(3)]
    await driver.drain_backends(drains)
    bigip.seen.clear()
    outcomes = await driver.drain_backends(drains)

    said = [outcomes[f"record-{n}"] for n in range(3)]
    assert [None, 7, None] == [getattr(one, "active_connections", None) for one in said]
    assert [Succ, Running, Succ] == [type(one) for one in said]
    assert 1 == sum("stats" in one for one in bigip.seen)


async def test_a_member_without_statistics(driver: F5Driver, bigip: Bigip) -> None:
    """It may have connections: only a reading without the member says that it has none."""
    lb_info = an_identity(bigip)
    await driver.ensure_backends(ensures(bigip, 2))
    bigip.unit.connections[WEB, f"/Common/{at(0)}"] = 7
    drains = [a_drain(lb_info, at(n), f"record-{n}") for n in range(2)]
    await driver.drain_backends(drains)
    bigip.unit.uncounted = {f"/Common/{at(0)}"}
    meanwhile = await driver.drain_backends(drains)
    with pytest.raises(Fail, match=r"no serverside\.curConns"):
        await driver.drain_backend(drains[0])
    bigip.unit.remove_member(WEB, f"/Common/{at(0)}")
    outcomes = await driver.drain_backends(drains)

    uncounted = meanwhile["record-0"]
    assert isinstance(uncounted, Running)
    assert ("no statistics", None) == (uncounted.msg, uncounted.active_connections)
    assert isinstance(meanwhile["record-1"], Succ)
    assert {Succ} == kinds(outcomes)


SPOILT = {
    "named": (
        "01070704:3: Pool member /Common/198.18.7.8 80 cannot be used here.",
        2,
    ),
    "unnamed": ("01070734:3: Configuration error: something is wrong.", 7),
}
"""What is said of the eighth of 32 members, and how many commits that takes at most."""


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("how", SPOILT)
async def test_one_spoils_it_for_nobody(
    driver: F5Driver, bigip: Bigip, how: str
) -> None:
    """It alone is to be asked for singly, and is told there what is wrong."""
    said, most = SPOILT[how]
    bigip.unit.spoilt["198.18.7.8"] = said
    before, requests = others(bigip), ensures(bigip, 32)

    outcomes = await driver.ensure_backends(requests)

    sick = {name for name, one in outcomes.items() if isinstance(one, RetrySingly)}
    assert {"record-7"} == sick
    assert {Succ, RetrySingly} == kinds(outcomes)
    assert 32 == len(bigip.unit.running.pool(WEB).members)
    assert commits(bigip) <= most
    assert 2 == readings(bigip)
    assert before == {
        path: one for path, one in strangers(bigip).items() if "198.18.7" not in path
    }
    with pytest.raises(Fail, match=said[:8]):
        await driver.ensure_backend(requests[7])


@pytest.mark.usefixtures("unhurried")
async def test_two_spoil_it_unnamed(driver: F5Driver, bigip: Bigip) -> None:
    """What the first one cleared is refused for the second one, and searched in its turn."""
    bigip.unit.spoilt |= dict.fromkeys(
        ("198.18.7.3", "198.18.7.8"), SPOILT["unnamed"][0]
    )

    outcomes = await driver.ensure_backends(ensures(bigip, 16))

    assert {"record-2", "record-7"} == {
        name for name, one in outcomes.items() if isinstance(one, RetrySingly)
    }
    assert 14 == len(bigip.unit.running.pool(WEB).members)
    assert 2 == readings(bigip)


@pytest.mark.usefixtures("unhurried")
async def test_more_spoil_it_than_are_borne(driver: F5Driver, bigip: Bigip) -> None:
    """Whoever is not made is to be asked for singly, and the others are in."""
    bigip.unit.spoilt |= {
        f"198.18.7.{n + 1}": SPOILT["unnamed"][0] for n in range(0, 100, 9)
    }

    outcomes = await driver.ensure_backends(ensures(bigip))

    inside = len(bigip.unit.running.pool(WEB).members)
    assert {Succ, RetrySingly} >= kinds(outcomes)
    assert inside == sum(isinstance(one, Succ) for one in outcomes.values())
    assert MANY == len(outcomes)
    assert 2 == readings(bigip)
    assert commits(bigip) - len(bigip.unit.commits) == transactions.MOST_REFUSALS
    assert {} == bigip.unit.transactions


@pytest.mark.usefixtures("unhurried")
async def test_a_monitor_that_is_not_there(driver: F5Driver, bigip: Bigip) -> None:
    """All whose parameters name it are out after one refusal; the others are in."""
    wrong = "01020036:3: The requested monitor (/Common/nope) was not found."
    well = ensures(bigip, 60)
    sick = ensures(bigip, 90, {"monitor": "/Common/nope"})[60:]
    bigip.unit.spoilt |= {f"198.18.7.{n + 1}": wrong for n in range(60, 90)}

    outcomes = await driver.ensure_backends([*sick, *well])

    assert {one.record_id for one in well} == {
        name for name, one in outcomes.items() if isinstance(one, Succ)
    }
    assert 2 == commits(bigip)


@pytest.mark.usefixtures("unhurried")
async def test_strangers_are_left_out(driver: F5Driver, bigip: Bigip) -> None:
    """An address of somebody else, and one that is none, cost the others no attempt."""
    bigip.unit.running.add_member(WEB, {"name": at(3), "description": "theirs"})
    requests = [*ensures(bigip, 5), an_ensure(an_identity(bigip), "nonsense", "bad")]

    outcomes = await driver.ensure_backends(requests)

    assert {"record-3", "bad"} == {
        name for name, one in outcomes.items() if isinstance(one, RetrySingly)
    }
    assert [8] == bigip.unit.commits


@pytest.mark.usefixtures("unhurried")
async def test_records_at_one_address(driver: F5Driver, bigip: Bigip) -> None:
    """Two of one batch spoil each other's transaction, and nobody else's."""
    lb_info = an_identity(bigip)
    twins = [an_ensure(lb_info, at(0), name) for name in ("one", "other")]

    outcomes = await driver.ensure_backends([*twins, *ensures(bigip, 5)[1:]])

    assert {"one", "other"} == {
        name for name, one in outcomes.items() if isinstance(one, RetrySingly)
    }
    assert 4 == len(bigip.unit.running.pool(WEB).members)


async def test_ports_of_one_node_share_it(driver: F5Driver, bigip: Bigip) -> None:
    """It is made once, and goes with the last of them, whichever pool that is in."""
    lb_info, other = an_identity(bigip), an_identity(bigip, pool="/Common/other")
    bigip.unit.add_pool("/Common/other")
    host = "198.18.7.1"
    ports = [an_ensure(lb_info, f"{host}:{port}", f"p{port}") for port in (80, 81)]
    await driver.ensure_backends(ports)
    await driver.ensure_backends([an_ensure(other, f"{host}:82", "p82")])
    ended = await driver.deregister_backends(
        [a_deregister(lb_info, f"{host}:{port}", f"p{port}") for port in (80, 81)]
    )
    kept = set(bigip.unit.running.nodes)
    last = await driver.deregister_backends([a_deregister(other, f"{host}:82", "p82")])

    assert [{Succ}, {Succ}] == [kinds(ended), kinds(last)]
    assert {f"/Common/{host}"} == kept
    assert {} == bigip.unit.running.nodes


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("fault", ["lost", "unmade"])
async def test_a_commit_without_an_answer(
    driver: F5Driver, bigip: Bigip, fault: str
) -> None:
    """Nobody knows of any item; asking again settles it, made or not."""
    setattr(bigip.faults, fault, 1)
    bigip.faults.slow_changes = 0.05
    requests = ensures(bigip, 30)

    first = await driver.ensure_backends(requests)
    left_open = dict(bigip.unit.transactions)
    second = await driver.ensure_backends(requests)

    assert [{RetryAfter}, {Succ}] == [kinds(first), kinds(second)]
    assert 30 == len(bigip.unit.running.pool(WEB).members)
    assert left_open.keys() <= {1}, "what was filled meanwhile is abandoned"


async def test_a_slow_unit_makes_some_in_time(
    driver: F5Driver, bigip: Bigip, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a transaction has no time for goes into the next one."""
    monkeypatch.setattr(transactions, "QUEUEING", timedelta(seconds=0.2))
    bigip.faults.slow_commands = 0.05

    outcomes = await driver.ensure_backends(ensures(bigip, 12))

    assert {Succ} == kinds(outcomes)
    assert len(bigip.unit.commits) > 1
    assert 24 == sum(bigip.unit.commits)


@pytest.mark.parametrize("how", SPOILT)
async def test_only_its_own_transaction_is_lost(
    driver: F5Driver, bigip: Bigip, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Who is in others is in before anybody looks for the one that spoils it unnamed."""

    def monotonic() -> float:
        return 0.02 * len(bigip.seen)  # the first one has time for 25 commands

    monkeypatch.setattr(transactions, "QUEUEING", timedelta(seconds=0.5))
    monkeypatch.setattr(type(driver.clock), "monotonic", lambda _clock: monotonic())
    bigip.unit.spoilt["198.18.7.8"] = SPOILT[how][0]

    outcomes = await driver.ensure_backends(ensures(bigip, 32))

    singly = {name for name, one in outcomes.items() if isinstance(one, RetrySingly)}
    made = list(bigip.unit.running.pool(WEB).members)
    lost = {f"/Common/{at(n)}" for n in range(13)} - {f"/Common/{at(7)}"}
    assert {"record-7"} == singly
    assert 31 == len(made)
    if how == "unnamed":
        assert lost == set(made[-len(lost) :])
    else:
        assert f"/Common/{at(31)}" == made[-1]


@pytest.mark.usefixtures("brief")
async def test_the_next_one_is_filled_while_one_is_committed(
    driver: F5Driver, bigip: Bigip
) -> None:
    """A commit that takes until there are steps in the next transaction ends."""
    beside: list[int] = []

    async def until_filled(request: str) -> None:
        number = int(request.rpartition("/")[2])
        for _ in range(1000):
            if beside:
                return
            await asyncio.sleep(0.001)
            open_ = bigip.unit.transactions
            beside.extend(len(open_[one].commands) for one in open_ if one > number)

    bigip.before_change = until_filled

    outcomes = await driver.ensure_backends(ensures(bigip, 4))

    assert beside
    assert {Succ} == kinds(outcomes)
    assert 8 == sum(bigip.unit.commits)


@pytest.mark.usefixtures("brief")
async def test_a_node_that_is_being_made(driver: F5Driver, bigip: Bigip) -> None:
    """Nothing that needs it is queued elsewhere before it is known to be there."""
    lb_info = an_identity(bigip)
    bigip.faults.slow_changes = 0.05
    ports = range(80, 120)

    outcomes = await driver.ensure_backends(
        [an_ensure(lb_info, f"198.18.7.1:{port}", f"p{port}") for port in ports]
    )

    assert {Succ} == kinds(outcomes)
    assert len(bigip.unit.commits) > 1
    assert 41 == sum(bigip.unit.commits)


async def test_batches_are_made_one_after_the_other(
    driver: F5Driver, bigip: Bigip, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is answered before the second one ends; single calls come between."""
    monkeypatch.setattr(transactions, "QUEUEING", timedelta(seconds=0.05))
    bigip.faults.slow_commands = 0.02
    requests = ensures(bigip, 21)
    await asyncio.gather(
        driver.ensure_backends(requests[:10]),
        driver.ensure_backends(requests[10:20]),
        driver.ensure_backend(requests[20]),
    )

    made = list(bigip.unit.running.pool(WEB).members)
    batched = [one for one in made if one != f"/Common/{at(20)}"]
    assert [f"/Common/{at(n)}" for n in range(20)] == batched
    assert made.index(f"/Common/{at(20)}") < 20


async def test_an_attempt_has_no_time_for_all(
    make_driver: Callable[..., F5Driver], bigip: Bigip
) -> None:
    """Some are through with each attempt: none ends with steps that were never committed."""
    driver = make_driver(patience=timedelta(seconds=1.5))
    bigip.faults.slow_commands = 0.1
    requests = ensures(bigip, 12)

    first = await driver.ensure_backends(requests)
    await until_through(lambda: driver.ensure_backends(requests))
    leaving = [
        a_deregister(an_identity(bigip), at(n), f"record-{n}") for n in range(12)
    ]
    await until_through(lambda: driver.deregister_backends(leaving))

    late = [said for said in first.values() if isinstance(said, Running)]
    assert {said.active_connections for said in late} <= {None}, "nobody counted"
    assert {} == bigip.unit.running.nodes


async def test_one_spoils_it_and_there_is_no_time(
    make_driver: Callable[..., F5Driver], bigip: Bigip
) -> None:
    """Each attempt makes some, however far it comes with its search; nobody is forgotten."""
    driver = make_driver(patience=timedelta(seconds=1.5))
    bigip.faults.slow_commands = 0.05
    bigip.unit.spoilt["198.18.7.8"] = SPOILT["unnamed"][0]
    left, cut = {one.record_id: one for one in ensures(bigip, 24)}, False

    while left.keys() - {"record-7"}:
        outcomes = await driver.ensure_backends(list(left.values()))
        assert outcomes.keys() == left.keys()
        assert {Succ, Running, RetryAfter, RetrySingly} >= kinds(outcomes)
        cut = cut or RetryAfter in kinds(outcomes)
        done = {name for name, one in outcomes.items() if isinstance(one, Succ)}
        left = {name: one for name, one in left.items() if name not in done}
        if not done:
            slow_down(driver, bigip)

    inside = {f"/Common/{at(n)}" for n in range(24) if n != 7}
    assert inside == set(bigip.unit.running.pool(WEB).members)
    # What a slow machine cut off is left to the unit, which ends it by itself.
    assert cut or not bigip.unit.transactions, "nothing was left open"


def slow_down(driver: F5Driver, bigip: Bigip) -> None:
    """Let all take twice as long: in what there was this machine gets nowhere."""
    driver.patience *= 2
    bigip.faults.slow_commands *= 2
    assert driver.patience < timedelta(minutes=2), "no attempt gets anywhere"


async def test_batches_that_wait_for_each_other(
    make_driver: Callable[..., F5Driver], bigip: Bigip
) -> None:
    """One that got its turn late is answered in time, and the next attempt goes on."""
    driver = make_driver(patience=timedelta(seconds=3))
    bigip.faults.slow_commands = 0.2
    some = [ensures(bigip, 12)[n::4] for n in range(4)]

    cut = await asyncio.gather(
        *(until_through(functools.partial(driver.ensure_backends, one)) for one in some)
    )

    assert 12 == len(bigip.unit.running.pool(WEB).members)
    assert any(cut) or not bigip.unit.transactions, "nothing was left open"


async def until_through(
    operation: Callable[[], Awaitable[Mapping[str, Outcome]]],
) -> bool:
    """Perform a batch as often as it takes: on a slow machine more often.

    Returns:
        Whether an attempt was cut off, and may have left a transaction open.

    Raises:
        TimeoutError: no attempt gets anywhere.
    """
    said, cut = set[type](), False
    async with asyncio.timeout(PATIENCE):
        while said != {Succ}:
            said = kinds(await operation())
            assert said <= {Succ, Running, RetryAfter}
            cut = cut or RetryAfter in said
    return cut


async def test_a_unit_that_knows_no_transactions(
    driver: F5Driver, bigip: Bigip
) -> None:
    """Each is asked for singly, and nothing is tried again and again."""
    bigip.faults.without_transactions = True

    outcomes = await driver.ensure_backends(ensures(bigip, 40))

    assert {RetrySingly} == kinds(outcomes)
    assert bigip.seen.count("POST /mgmt/tm/transaction") == 1


async def test_a_pool_that_is_gone(driver: F5Driver, bigip: Bigip) -> None:
    """Nobody comes in, and everybody is out."""
    lb_info = an_identity(bigip, pool="/Common/nowhere")
    ensured = await driver.ensure_backends([an_ensure(lb_info, at(0), "one")])
    drained = await driver.drain_backends([a_drain(lb_info, at(0), "one")])
    ended = await driver.deregister_backends([a_deregister(lb_info, at(0), "one")])

    assert [{Fail}, {Succ}, {Succ}] == [kinds(ensured), kinds(drained), kinds(ended)]


async def test_a_record_that_has_been_succeeded(driver: F5Driver, bigip: Bigip) -> None:
    """Neither a drain nor a removal of the record before touches the member."""
    lb_info = an_identity(bigip)
    await driver.ensure_backend(an_ensure(lb_info, at(0), "old"))
    await driver.ensure_backend(an_ensure(lb_info, at(0), "new"))
    drained = await driver.drain_backends([a_drain(lb_info, at(0), "old")])
    ended = await driver.deregister_backends([a_deregister(lb_info, at(0), "old")])

    assert "left alone" in str(drained["old"])
    assert "left alone" in str(ended["old"])
    member = bigip.unit.member(WEB, f"/Common/{at(0)}")
    assert "user-enabled" == member["session"]


async def test_one_change_at_a_time(driver: F5Driver, bigip: Bigip) -> None:
    """Batches and single calls wait for each other at a unit."""
    bigip.faults.slow_changes = 0.01
    lb_info = an_identity(bigip)
    await asyncio.gather(
        driver.ensure_backends(ensures(bigip, 20)[:10]),
        driver.ensure_backends(ensures(bigip, 20)[10:]),
        driver.ensure_backend(an_ensure(lb_info, at(30), "alone")),
    )

    assert 1 == bigip.writes_at_once
    assert 21 == len(bigip.unit.running.pool(WEB).members)


@pytest.mark.parametrize(
    ("name", "message", "expected"),
    [
        ("/Common/10.0.0.1", "Member (/Common/web /Common/10.0.0.1 80) is", True),
        ("/Common/10.0.0.1", "Member (/Common/web /Common/10.0.0.10 80) is", False),
        ("/Common/10.0.0.1", "Node address '/Common/10.0.0.1' is referenced", True),
        ("10.0.0.1", "the IP address 10.0.0.1 already exists.", True),
        ("10.0.0.1", "the IP address 110.0.0.1 already exists.", False),
        ("10.0.0.1", "the IP address 10.0.0.1.", True),
        ("2001:db8::1", "the IP address 2001:db8::11 already exists.", False),
        ("/Common/http", "The requested monitor (/Common/http_2) was", False),
    ],
)
def test_whom_a_message_names(name: str, message: str, *, expected: bool) -> None:
    """Parts of longer names mean somebody else."""

    async def nothing(_api: Icontrol) -> None:
        """Queue nothing."""

    assert expected == Step("", nothing, [name]).is_named(message)
