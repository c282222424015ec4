"""What an Envoy that starts is told of listeners, and when."""

from webhooks.envoy.resources import Kind, Resource
from webhooks.envoy.sessions import Session, opened
from webhooks.envoy.subscriptions import Asked


LB, OTHER = "lbcf/10.0.0.1:80", "lbcf/10.0.0.1:81"


def _wanted(*names: str) -> dict[Kind, dict[str, Resource]]:
    """Return load balancers in their first version."""
    return {kind: {n: Resource(kind, n, "e.1", {}) for n in names} for kind in Kind}


def _starting() -> Session:
    """Return a session of an Envoy that has nothing, and asked for all."""
    session = opened("a", "e")
    for kind in Kind:
        session.subscriptions[kind].take(Asked())
    return session


def _sent(session: Session, wanted: dict[Kind, dict[str, Resource]]) -> dict[Kind, str]:
    """Have what is owed be sent; return the nonces."""
    return {kind: nonce for kind, _, nonce in session.owed(wanted)}


def test_an_envoy_that_starts_is_told_no_listeners_before_all_of_them() -> None:
    """It serves from the first response about them on, and says that it is ready."""
    session, wanted = _starting(), _wanted(LB, OTHER)
    nonces = _sent(session, wanted)

    session.take(Kind.CLUSTER, Asked(nonce=nonces[Kind.CLUSTER]), wanted, 1.0)
    between = _sent(session, wanted)
    session.take(Kind.ENDPOINTS, Asked(nonce=nonces[Kind.ENDPOINTS]), wanted, 1.0)
    ((kind, offer, _),) = session.owed(wanted)

    assert {Kind.CLUSTER, Kind.ENDPOINTS} == {*nonces}
    assert {} == between
    assert Kind.LISTENER is kind
    assert {LB, OTHER} == {*offer.resources}


def test_what_an_envoy_refuses_holds_up_no_listeners() -> None:
    """One load balancer of many that it does not take leaves it the others."""
    session, wanted = _starting(), _wanted(LB, OTHER)
    del wanted[Kind.CLUSTER][OTHER], wanted[Kind.ENDPOINTS][OTHER]
    nonces = _sent(session, wanted)
    session.take(Kind.ENDPOINTS, Asked(nonce=nonces[Kind.ENDPOINTS]), wanted, 1.0)
    wanted = _wanted(LB, OTHER)
    refused = Asked(nonce=nonces[Kind.CLUSTER], error="no such filter")

    session.take(Kind.CLUSTER, refused, wanted, 1.0)
    nonces = _sent(session, wanted)
    for kind in (Kind.CLUSTER, Kind.ENDPOINTS):
        session.take(kind, Asked(nonce=nonces[kind]), wanted, 1.0)
    ((kind, offer, _),) = session.owed(wanted)

    assert Kind.LISTENER not in nonces
    assert Kind.LISTENER is kind
    assert {OTHER} == {*offer.resources}


def test_an_envoy_without_load_balancers_is_told_so() -> None:
    """Else it would never serve what it has in its own configuration."""
    assert {*Kind} - {Kind.ENDPOINTS} <= {*_sent(_starting(), _wanted())}
