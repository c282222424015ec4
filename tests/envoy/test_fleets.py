"""What is kept of Envoys and fleets, for how long, and how much at most."""

import asyncio

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from lbcf.runtime.flags import BindAddress
from tests.envoy.node import Node
from tests.envoy.proxy import FLEET
from tests.envoy.stage import LONG, Stage
from tests.haproxy.waiting import until
from tests.lab.cluster.ports import free_ports
from webhooks.envoy import fleets as module
from webhooks.envoy import messages, subscriptions
from webhooks.envoy.errors import TurnedAway, TurnedAwayFor
from webhooks.envoy.fleets import Fleet, Fleets
from webhooks.envoy.management import Management
from webhooks.envoy.resources import Kind, Resource
from webhooks.envoy.sessions import opened
from webhooks.envoy.subscriptions import Asked, Subscription


LB = "lbcf/10.0.0.1:80"


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        """Return what time it is."""
        return self.time


def fleets(clock: Clock) -> Fleets:
    """Return fleets that forget an Envoy after 30 s."""
    return Fleets(clock, timedelta(seconds=30))


def assigned(*draining: str) -> Resource:
    """Return the endpoints of a load balancer."""
    return Resource(Kind.ENDPOINTS, LB, "e.1", {}, frozenset(draining))


async def test_a_change_before_the_task_has_begun_is_heard() -> None:
    """What is awaited counts from when it was asked for, not from its first step."""
    fleet = Fleet("edge")
    waiting = asyncio.ensure_future(fleet.change())
    fleet.heard()

    async with asyncio.timeout(5):
        await waiting


def test_streams_of_unknown_fleets_leave_nothing() -> None:
    """Neither a stream for configuration nor one of load reports, when it has ended."""
    known = fleets(Clock())
    node = messages.Node("nobodys", "a")
    session = opened("a", "e")
    known.enter(known.fleet("nobodys"), session)
    reporting = known.report(node)

    known.leave(known.fleet("nobodys"), session)
    between = [one.name for one in known]
    known.end_report(node, reporting)

    assert ["nobodys"] == between
    assert [] == list(known)
    assert {} == known.known()


def test_an_envoy_that_was_sent_something_is_waited_for() -> None:
    """Also where the load balancer is gone meanwhile: it may be serving that."""
    known, session = fleets(Clock()), opened("a", "e")
    fleet = known.fleet("edge")
    known.enter(fleet, session)
    session.subscriptions[Kind.CLUSTER].held[LB] = "e.1"

    known.leave(fleet, session)

    assert ["a"] == known.absent(fleet)


def test_who_stays_away_is_forgotten_though_nobody_asks() -> None:
    """So is the fleet, where it has no load balancer; what stays is said to be saved."""
    clock = Clock()
    known = fleets(clock)
    known.remember({"edge": ["a"], "other": ["b"]})
    known.fleet("edge").put([assigned()])

    clock.time += 29
    known.expire()
    before = known.known()
    clock.time += 2
    known.expire()

    assert {"edge": ["a"], "other": ["b"]} == before
    assert {} == known.known()
    assert ["edge"] == [one.name for one in known]


def test_all_envoys_are_remembered() -> None:
    """None is left out of what is written, or nobody would wait for it."""
    known = fleets(Clock())
    names = [f"envoy-{number:04}" for number in range(1500)]
    known.remember({"edge": names})

    assert {"edge": names} == known.known()


def test_the_last_load_balancer_takes_the_fleet_with_it() -> None:
    """Where no Envoy is, or may be, there."""
    known = fleets(Clock())
    fleet = known.fleet("edge")
    fleet.put([assigned()])
    known.tidy(fleet)
    assert ["edge"] == [one.name for one in known]

    fleet.take_away(LB)
    known.tidy(fleet)

    assert [] == list(known)


@pytest.mark.parametrize(
    ("limit", "node", "said"),
    [
        ("MOST_ENVOYS", messages.Node("edge", "c"), "as a fleet of their own"),
        ("MOST_ENVOYS", messages.Node("edge", "a"), ""),
        ("MOST_FLEETS", messages.Node("new", "a"), "2 fleets without a load balancer"),
        ("MOST_FLEETS", messages.Node("edge", "c"), ""),
        ("MOST_STREAMS", messages.Node("edge", "a"), "a node.id of its own"),
        ("MOST_STREAMS", messages.Node("edge", "b"), ""),
    ],
)
def test_there_are_limits(
    monkeypatch: pytest.MonkeyPatch, limit: str, node: messages.Node, said: str
) -> None:
    """Who comes beyond is told what to do; who is known goes on."""
    monkeypatch.setattr(module, limit, 2)
    known = fleets(Clock())
    known.remember({"edge": ["b"], "other": ["b"]})
    known.enter(known.fleet("edge"), opened("a", "e"))
    known.enter(known.fleet("edge"), opened("a", "e"))

    assert said in str(known.refusal(node) or "")
    assert bool(said) == bool(known.refusal(node))


def test_a_load_balancer_that_is_gone_is_forgotten_by_sessions() -> None:
    """Nothing stays of when its members drained."""
    session = opened("a", "e")
    wanted = {Kind.ENDPOINTS: {LB: assigned("1")}, Kind.CLUSTER: {}, Kind.LISTENER: {}}
    asks = Asked(subscribe=frozenset({LB}))
    session.take(Kind.ENDPOINTS, asks, wanted, 1.0)
    list(session.owed(wanted))
    session.take(Kind.ENDPOINTS, Asked(nonce="1"), wanted, 2.0)
    assert {LB: {"1": 2.0}} == session.drained_since

    leaves = Asked(unsubscribe=frozenset({LB}))
    session.take(Kind.ENDPOINTS, leaves, wanted, 3.0)

    assert {} == session.drained_since


@pytest.mark.parametrize(
    ("name", "fleet", "said"),
    [
        ("", "edge", "say node.id and node.cluster"),
        ("a", "", "say node.id and node.cluster"),
        ("a", "edge/1", "node.cluster can be the fleet of no load balancer"),
        ("a" * 256, "edge", "node.id has more than 255 characters"),
    ],
)
async def test_who_does_not_say_who_it_is(
    stage: Stage, name: str, fleet: str, said: str
) -> None:
    """It is told what to say, and leaves nothing."""
    driver = await stage.driver()

    async with Node.running(stage.port, name, fleet, is_silent=True) as node:
        status, text = await node.refused()

    assert "INVALID_ARGUMENT" == status
    assert said in text
    assert [] == list(driver.keeper.fleets)


async def test_one_envoy_too_many_is_told(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused in words that it logs, as the driver does; those before it go on."""
    monkeypatch.setattr(module, "MOST_ENVOYS", 1)
    driver = await stage.driver()
    known = driver.keeper.fleets

    async def is_there() -> bool:
        return known.known() == {"edge": ["a"]}

    async with Node.running(stage.port, "a"):
        await until(is_there)
        async with Node.running(stage.port, "b", is_silent=True) as other:
            status, text = await other.refused()
        assert await is_there()

    assert "RESOURCE_EXHAUSTED" == status
    assert "fleet 'edge' has 1 Envoys, and more are not served" in text
    assert "envoy.turned_away" in capsys.readouterr().out


async def test_an_envoy_that_stays_away_is_forgotten_by_itself(stage: Stage) -> None:
    """Nobody has to ask for its fleet; on disk it is forgotten, too."""
    first = await stage.driver()
    first.keeper.fleets.remember({"edge": ["a"]})
    known, store = first.keeper.fleets, first.keeper.store
    store.save_envoys(known.known())
    stage.clock.skip(LONG)

    async def is_forgotten() -> bool:
        return not list(known) and not store.load_envoys()

    await until(is_forgotten)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Asked(frozenset({"c"})), ""),
        (Asked(frozenset({"a", "b"})), ""),
        (Asked(frozenset({"c", "d"}), frozenset({"a"})), ""),
        (Asked(frozenset({"c", "d"})), "more than 3 resources of one kind"),
        (Asked(has={"c": "1", "d": "1"}), "more than 3 resources of one kind"),
        (Asked(frozenset({"c" * 256})), "more than 255 characters"),
        (Asked(has={"c": "1" * 256}), "more than 255 characters"),
    ],
)
def test_how_much_a_stream_may_ask_for(
    monkeypatch: pytest.MonkeyPatch, asked: Asked, said: str
) -> None:
    """Names that are there count once, and those that are left no more; two were asked for."""
    monkeypatch.setattr(subscriptions, "MOST_NAMES", 3)
    subscription = Subscription("e")
    subscription.take(Asked(frozenset({"a", "b"})))

    assert said in str(subscription.excess(asked) or "")
    assert bool(said) == bool(subscription.excess(asked))


def test_names_of_nothing_count_though_they_were_told_to_be_gone() -> None:
    """Who asks for others each time has each stay subscribed."""
    subscription, rounds = Subscription("e"), 0
    while not subscription.excess(
        asked := Asked(frozenset(f"{rounds}-{number}" for number in range(5000)))
    ):
        subscription.take(asked)
        assert subscription.owed({}) is not None
        subscription.take(Asked(nonce=subscription.nonce))
        rounds += 1

    assert 4 == rounds
    assert {} == subscription.held


def test_who_asks_for_no_endpoints_is_kept_no_names() -> None:
    """Load balancers come and go; what was to be sent again of them goes, too."""
    session = opened("a", "e")
    empty: dict[Kind, dict[str, Resource]] = {kind: {} for kind in Kind}
    for kind in (Kind.CLUSTER, Kind.ENDPOINTS):
        session.take(kind, Asked(), empty, 1.0)
    hosts = session.subscriptions[Kind.ENDPOINTS]
    for number in range(3):
        name = f"lbcf/10.0.0.1:{number}"
        cluster = Resource(Kind.CLUSTER, name, "e.1", {})
        list(session.owed({**empty, Kind.CLUSTER: {name: cluster}}))
        for kind in (Kind.CLUSTER, Kind.ENDPOINTS):
            nonce = session.subscriptions[kind].nonce
            session.take(kind, Asked(nonce=nonce), empty, 1.0)
        list(session.owed(empty))

    assert set() == hosts._again  # noqa: SLF001  (nobody else sees it)


@pytest.mark.parametrize(
    ("names", "has"),
    [
        (("a", "b", "c", "d"), {}),
        ((), {"a": "1", "b": "1", "c": "1", "d": "1"}),
    ],
    ids=["subscribed", "there before"],
)
async def test_who_asks_for_too_much_is_told(
    stage: Stage,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    names: Sequence[str],
    has: Mapping[str, str],
) -> None:
    """Its stream ends in words that it logs, as the driver does, and nothing is kept."""
    monkeypatch.setattr(subscriptions, "MOST_NAMES", 3)
    driver = await stage.driver()

    async with Node.running(stage.port, "a", is_silent=True) as node:
        await node.ask(Kind.ENDPOINTS, *names, has=has)
        status, text = await node.refused()

    async def is_forgotten() -> bool:
        return not list(driver.keeper.fleets)

    assert "RESOURCE_EXHAUSTED" == status
    assert "Envoy a: more than 3 resources of one kind" in text
    assert "envoy.turned_away" in capsys.readouterr().out
    stage.clock.skip(LONG)  # until an Envoy that was connected counts as gone
    await until(is_forgotten)


async def test_one_reason_does_not_hide_another(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two Envoys are turned away within a minute, and the log tells of both."""
    monkeypatch.setattr(module, "MOST_ENVOYS", 1)
    monkeypatch.setattr(subscriptions, "MOST_NAMES", 3)
    known = (await stage.driver()).keeper.fleets

    async def is_there() -> bool:
        return known.known() == {"edge": ["a"]}

    async with Node.running(stage.port, "a", is_silent=True) as greedy:
        await until(is_there)
        async with Node.running(stage.port, "b", is_silent=True) as other:
            await other.refused()
        await greedy.ask(Kind.ENDPOINTS, "a", "b", "c", "d", has={})
        await greedy.refused()

    logged = capsys.readouterr().out
    assert "fleet 'edge' has 1 Envoys, and more are not served" in logged
    assert "Envoy a: more than 3 resources of one kind" in logged


def test_each_reason_is_told_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever words of peers are in it, and nothing of them is kept."""
    clock = Clock()
    management = Management(
        BindAddress("127.0.0.1", 0), fleets(clock), "e", None, lambda _: None
    )

    def told(*errors: tuple[TurnedAwayFor, str]) -> list[str]:
        for reason, text in errors:
            management.complain(TurnedAway(reason, text))
        out = capsys.readouterr().out
        return [text for _, text in errors if text in out]

    greedy = [(TurnedAwayFor.MOST_NAMES, f"from peer {n:03}") for n in range(100)]
    other = (TurnedAwayFor.MOST_ENVOYS, "one too many")
    assert ["from peer 000", "one too many"] == told(*greedy, other)
    clock.time += 59
    assert [] == told(*greedy, other)
    clock.time += 2
    assert ["one too many", "from peer 000"] == told(other, *greedy)


@pytest.mark.envoy
async def test_reports_are_kept_of_load_balancers_alone(stage: Stage) -> None:
    """Of those with a member that drains; an Envoy reports all of its clusters."""
    driver = await stage.driver()
    await stage.envoy()
    other = f"127.0.0.1:{free_ports(1)[0]}"
    for number, listen in enumerate((other, stage.listen)):
        stage.listen = listen
        await driver.create_load_balancer(stage.create(f"lb{number}"))
        await driver.ensure_backend(stage.ensure(f"m{number}", "198.18.0.1:80"))
    await driver.drain_backend(stage.drain("m1", "198.18.0.1:80"))
    known = driver.keeper.fleets.fleet(FLEET)

    def reported() -> set[str]:
        reports = [one for of_one in known.reports.values() for one in of_one]
        return {name for one in reports for name in one.report}

    async def is_reported() -> bool:
        return bool(reported())

    await until(is_reported)
    assert {f"lbcf/{stage.listen}"} == reported()
