"""What is kept of Envoys and fleets, for how long, and how much at most."""

import asyncio

from datetime import timedelta

import pytest

from tests.envoy.node import Node
from tests.envoy.stage import Stage
from tests.haproxy.waiting import until
from webhooks.envoy import fleets as module
from webhooks.envoy import messages
from webhooks.envoy.fleets import Fleet, Fleets
from webhooks.envoy.resources import Kind, Resource
from webhooks.envoy.sessions import opened
from webhooks.envoy.subscriptions import Asked


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
    fleet.tell()

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

    assert said in known.refusal(node)
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

    async with Node.running(stage.port, name, fleet) as node:
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
        async with Node.running(stage.port, "b") as other:
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

    async def is_forgotten() -> bool:
        return not list(known) and not store.load_envoys()

    await until(is_forgotten)
