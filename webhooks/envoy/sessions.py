"""One stream of one Envoy: its subscriptions in the order that loses no request. Pure.

A listener comes after its cluster and endpoints, and goes before them (make before break,
as Envoy's documentation of xDS asks for).
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

import attrs

from webhooks.envoy.resources import Kind, Resource, Snapshot
from webhooks.envoy.subscriptions import Asked, Offer, Refusal, Subscription


@attrs.frozen(eq=False)
class Session:
    """One stream of one Envoy.

    Attributes:
        envoy: `node.id`.
        subscriptions: by kind.
        drained_since: by load balancer and address, the moment since which this Envoy is
            known to send nothing new there, in seconds of the monotonic clock.
    """

    envoy: str
    subscriptions: dict[Kind, Subscription]
    drained_since: dict[str, dict[str, float]] = attrs.field(factory=dict, init=False)

    def take(self, kind: Kind, asked: Asked, snapshot: Snapshot, now: float) -> None:
        """Take a request."""
        subscription = self.subscriptions[kind]
        is_first = not subscription.is_open
        accepted = subscription.take(asked)
        if kind is not Kind.ENDPOINTS:
            return
        for name in self.drained_since.keys() - subscription.held.keys():
            del self.drained_since[name]
        if accepted is not None:
            self._note(accepted.resources.values(), now)
        elif is_first:
            # What it had when it came back, it has at least since now.
            wanted = snapshot[kind].items()
            same = (r for n, r in wanted if subscription.held.get(n) == r.version)
            self._note(same, now)

    def _note(self, resources: Iterable[Resource], now: float) -> None:
        """Note since when members are sent nothing new."""
        for one in resources:
            before = self.drained_since.get(one.name, {})
            since = {address: before.get(address, now) for address in one.draining}
            self.drained_since[one.name] = since

    def owed(self, snapshot: Snapshot) -> Iterator[tuple[Kind, Offer, str]]:
        """Return the responses that are due, each with its nonce."""
        for kind, subscription in self.subscriptions.items():
            held_back = self._held_back(kind, snapshot)
            if kind is Kind.LISTENER and self._is_early(held_back, snapshot):
                continue
            offer = subscription.owed(snapshot[kind], held_back)
            if offer is None:
                continue
            if kind is Kind.CLUSTER:
                # A cluster that changes warms up again, and waits for its endpoints.
                for name in offer.resources:
                    self.subscriptions[Kind.ENDPOINTS].again(name)
            yield kind, offer, subscription.nonce

    def _held_back(self, kind: Kind, snapshot: Snapshot) -> AbstractSet[str]:
        """Return names of a kind that must wait for another kind."""
        clusters, hosts, listeners = (self.subscriptions[one] for one in Kind)
        if kind is Kind.LISTENER:
            return {
                name
                for name in snapshot[kind]
                if not (clusters.held.get(name) and hosts.held.get(name))
            }
        if kind is Kind.CLUSTER:
            return clusters.held.keys() & listeners.held.keys() - snapshot[kind].keys()
        return frozenset()

    def _is_early(self, held_back: AbstractSet[str], snapshot: Snapshot) -> bool:
        """Tell whether an Envoy that starts is to be told of listeners later.

        It begins to serve, and says that it is ready, with the first response about them: one
        with none, or a part of them, would have it be ready with ports closed.
        """
        needs = (Kind.CLUSTER, Kind.ENDPOINTS)
        return not self.subscriptions[Kind.LISTENER].is_greeted and any(
            self.refusal(name, snapshot, needs) is None for name in held_back
        )

    def has_all(self, name: str, snapshot: Snapshot) -> bool:
        """Tell whether the Envoy has a load balancer as it shall be, or has it no more."""
        return all(self._has(kind, name, snapshot) for kind in Kind)

    def has_members(self, name: str, snapshot: Snapshot) -> bool:
        """Tell whether the Envoy has the members as they shall be, or sends nobody there.

        An Envoy that cannot open the listener has the members all the same.
        """
        clusters = self.subscriptions[Kind.CLUSTER]
        is_nowhere = name not in clusters.held and not clusters.is_sent(name)
        return self._has(Kind.ENDPOINTS, name, snapshot) or (
            clusters.is_open and is_nowhere
        )

    def _has(self, kind: Kind, name: str, snapshot: Snapshot) -> bool:
        """Tell whether the Envoy has one resource as it shall be.

        What was sent and is not answered yet may be taken up at any moment. A change that is
        undone meanwhile makes the version that is held the one that is wanted, once more.
        """
        subscription, wanted = self.subscriptions[kind], snapshot[kind].get(name)
        if subscription.is_sent(name):
            return False
        if wanted is None:
            return name not in subscription.held
        return subscription.held.get(name) == wanted.version

    @property
    def has_any(self) -> bool:
        """Whether the Envoy has anything of a driver, or was just sent it."""
        return any(
            one.offered is not None or any(one.held.values())
            for one in self.subscriptions.values()
        )

    def refusal(
        self, name: str, snapshot: Snapshot, kinds: Iterable[Kind] = Kind
    ) -> Refusal | None:
        """Return why the Envoy does not take what is wanted; None: it did not say no."""
        for kind in kinds:
            refused = self.subscriptions[kind].refused.get(name)
            wanted = snapshot[kind].get(name)
            if refused and wanted and refused.version == wanted.version:
                return refused
        return None

    def try_refused(self) -> bool:
        """Have what the Envoy does not take sent once more; False: there is nothing."""
        tried = [one.try_refused() for one in self.subscriptions.values()]
        return any(tried)

    def is_foreign(self, name: str) -> bool:
        """Tell whether the Envoy has a load balancer of a driver with other state."""
        return any(one.is_foreign(name) for one in self.subscriptions.values())


def opened(envoy: str, epoch: str) -> Session:
    """Return a session that has asked for nothing yet."""
    return Session(envoy, {kind: Subscription(epoch) for kind in Kind})
