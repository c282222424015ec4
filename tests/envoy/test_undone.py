"""A change that is undone while an Envoy has not answered it: what that may take up yet counts.

Versions are digests of the content, so that what is wanted again is what the Envoy said last
that it has.
"""

from functools import partial

import pytest

from tests.envoy.rig import BRIEF
from tests.envoy.stage import Stage
from tests.webhooks.troubled import Ask, settled, told
from webhooks.envoy.driver import EnvoyDriver
from webhooks.envoy.resources import Kind, Resource
from webhooks.envoy.sessions import Session, opened
from webhooks.envoy.subscriptions import Asked, Subscription


A, B = "198.18.0.1:80", "198.18.0.2:80"
LATE = "Envoy envoy-1 has not acknowledged it yet"
LB = "lbcf/10.0.0.1:80"


async def _created(stage: Stage) -> EnvoyDriver:
    """Start an Envoy with a load balancer, and a driver that soon says what that lacks."""
    driver = await stage.driver(patience=BRIEF)
    await stage.envoy()
    await settled(partial(driver.create_load_balancer, stage.create()))
    return driver


async def _undone(stage: Stage, done: Ask, undone: Ask) -> None:
    """Do something and undo it while the Envoy answers nothing; then let it answer."""
    stage.relay.hang()
    said = [await told(done), await told(undone)]
    stage.relay.flow()
    await settled(undone)

    assert [LATE, LATE] == said


@pytest.mark.envoy
async def test_a_member_that_was_sent_is_not_out(stage: Stage) -> None:
    """It is deregistered while the Envoy may yet put it into service."""
    driver = await _created(stage)
    ensure, gone = stage.ensure("a", A), stage.deregister("a", A)

    await _undone(
        stage,
        lambda: driver.ensure_backend(ensure),
        lambda: driver.deregister_backend(gone),
    )

    assert {} == await stage.envoys[0].members(stage.listen)


@pytest.mark.envoy
async def test_a_member_that_was_put_back_does_not_drain(stage: Stage) -> None:
    """It drains again while the Envoy may yet put it back into service."""
    driver = await _created(stage)
    ensure, drain = stage.ensure("a", A), stage.drain("a", A)
    await settled(lambda: driver.ensure_backend(ensure))
    await settled(lambda: driver.drain_backend(drain))

    await _undone(
        stage,
        lambda: driver.ensure_backend(ensure),
        lambda: driver.drain_backend(drain),
    )

    assert {A: "DRAINING"} == await stage.envoys[0].members(stage.listen)


@pytest.mark.envoy
async def test_a_member_that_was_drained_is_not_back(stage: Stage) -> None:
    """It is put back into service while the Envoy may yet have it drain."""
    driver = await _created(stage)
    ensure, drain = stage.ensure("a", A), stage.drain("a", A)
    await settled(lambda: driver.ensure_backend(ensure))

    await _undone(
        stage,
        lambda: driver.drain_backend(drain),
        lambda: driver.ensure_backend(ensure),
    )

    assert {A: "HEALTHY"} == await stage.envoys[0].members(stage.listen)


def _made(kind: Kind, version: str, name: str = LB) -> Resource:
    """Return a resource in some version."""
    return Resource(kind, name, f"e.{version}", {})


def _listening() -> Session:
    """Return a session of an Envoy that has cluster and endpoints, and asked for listeners."""
    session = opened("a", "e")
    for kind in Kind:
        session.subscriptions[kind].take(Asked())
    for kind in (Kind.CLUSTER, Kind.ENDPOINTS):
        session.subscriptions[kind].held[LB] = "e.1"
    return session


def test_a_listener_that_was_sent_is_not_gone() -> None:
    """The load balancer is deleted while the Envoy may yet open its port."""
    session = _listening()
    made = {kind: {LB: _made(kind, "1")} for kind in Kind}
    empty: dict[Kind, dict[str, Resource]] = {kind: {} for kind in Kind}
    nonce = {kind: sent for kind, _, sent in session.owed(made)}[Kind.LISTENER]
    for kind in (Kind.CLUSTER, Kind.ENDPOINTS):
        session.subscriptions[kind].held.clear()

    between = session.has_all(LB, empty)
    session.take(Kind.LISTENER, Asked(nonce=nonce), empty, 1.0)
    (gone,) = [offer.gone for kind, offer, _ in session.owed(empty)]

    assert not between
    assert {LB} == gone


def test_what_is_refused_with_others_may_have_been_taken() -> None:
    """An Envoy takes what it can of a response that it refuses: then no version is certain."""
    subscription, other = Subscription("e"), f"{LB}80"
    subscription.take(Asked(has={LB: "e.1", other: "e.1"}))
    names = (LB, other)
    subscription.owed({name: _made(Kind.LISTENER, "2", name) for name in names})
    subscription.take(Asked(nonce=subscription.nonce, error="no such port"))

    before = {name: _made(Kind.LISTENER, "1", name) for name in names}
    sent: list[str] = []
    while (offer := subscription.owed(before)) is not None:
        sent += offer.resources
        subscription.take(Asked(nonce=subscription.nonce))

    assert [*names] == sent
    assert {LB: "e.1", other: "e.1"} == subscription.held


def test_a_cluster_that_changes_is_sent_its_endpoints_again() -> None:
    """Also where these were on their way: they came to the one before, and it waits for others."""
    session = _listening()
    hosts = session.subscriptions[Kind.ENDPOINTS]
    wanted = {kind: {LB: _made(kind, "1")} for kind in Kind}
    wanted[Kind.ENDPOINTS] = {LB: _made(Kind.ENDPOINTS, "2")}
    sent = {kind: nonce for kind, _, nonce in session.owed(wanted)}
    session.take(Kind.CLUSTER, Asked(nonce=sent[Kind.CLUSTER]), wanted, 1.0)
    wanted[Kind.CLUSTER] = {LB: _made(Kind.CLUSTER, "2")}
    before = {kind for kind, _, _ in session.owed(wanted)}

    session.take(Kind.ENDPOINTS, Asked(nonce=hosts.nonce), wanted, 1.0)
    (again,) = [offer for kind, offer, _ in session.owed(wanted)]

    assert {Kind.CLUSTER} == before
    assert {LB: wanted[Kind.ENDPOINTS][LB]} == again.resources
