"""What one stream has subscribed to of one kind, has, and is owed (delta xDS). Pure.

At most one response is on its way, so a slow Envoy makes nobody's memory grow: what changes
meanwhile goes into the next one. A response that an Envoy refuses as a whole does not tell
which resource was wrong; each of them is sent alone then.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import attrs

from webhooks.envoy.errors import TurnedAway, TurnedAwayFor
from webhooks.envoy.resources import Resource, is_of


MOST_NAMES = 20_000
"""Names of one kind that one stream may have; no more load balancers fit into a message."""

LONGEST_NAME = 255
"""Characters of a name, and of a version."""


@attrs.frozen
class Asked:
    """One request of an Envoy.

    Attributes:
        subscribe, unsubscribe: names; `*` is all.
        has: versions that it has from an earlier stream; in the first request alone.
        nonce: of the response that it answers; empty: of none.
        error: why it refuses that one; empty: it does not.
    """

    subscribe: AbstractSet[str] = frozenset()
    unsubscribe: AbstractSet[str] = frozenset()
    has: Mapping[str, str] = {}
    nonce: str = ""
    error: str = ""


@attrs.frozen
class Offer:
    """One response: resources that changed, and names of those that are gone."""

    resources: Mapping[str, Resource]
    gone: AbstractSet[str]

    @property
    def names(self) -> AbstractSet[str]:
        """All that it is about."""
        return {*self.resources, *self.gone}


@attrs.frozen
class Refusal:
    """A version that an Envoy does not take, and why not in its own words."""

    version: str
    text: str


@attrs.define
class Subscription:
    """One stream's resources of one kind.

    Attributes:
        epoch: of the driver's state.
        held: versions that the Envoy has taken up; empty: it asked, and has none.
        refused: what it does not take.
        offered: the response that it has not answered, and its nonce.
        is_open: whether it has asked for anything.
        is_greeted: whether it had something when it came, or was sent a response since.
    """

    epoch: str
    held: dict[str, str] = attrs.field(factory=dict, init=False)
    refused: dict[str, Refusal] = attrs.field(factory=dict, init=False)
    offered: Offer | None = attrs.field(default=None, init=False)
    is_open: bool = attrs.field(default=False, init=False)
    is_greeted: bool = attrs.field(default=False, init=False)
    _all: bool = attrs.field(default=False, init=False)
    _names: set[str] = attrs.field(factory=set, init=False)
    _alone: set[str] = attrs.field(factory=set, init=False)
    _again: set[str] = attrs.field(factory=set, init=False)
    _retried: set[str] = attrs.field(factory=set, init=False)
    _nonce: int = attrs.field(default=0, init=False)

    @property
    def nonce(self) -> str:
        """That of the latest response."""
        return str(self._nonce)

    def excess(self, asked: Asked) -> TurnedAway | None:
        """Return why a request asks for more than is kept of one stream; None: it does not."""
        told = (*asked.subscribe, *asked.has, *asked.has.values())
        if any(len(one) > LONGEST_NAME for one in told):
            return TurnedAway(
                TurnedAwayFor.LONG_NAME,
                f"a resource's name or version has more than {LONGEST_NAME} characters",
            )
        count = len({*asked.subscribe, *asked.has})
        if count + max(len(self.held), len(self._names)) <= MOST_NAMES:
            return None
        names = {*self.held, *self._names, *asked.subscribe, *asked.has}
        if len(names - asked.unsubscribe) <= MOST_NAMES:
            return None
        return TurnedAway(
            TurnedAwayFor.MOST_NAMES,
            f"more than {MOST_NAMES} resources of one kind are subscribed to, which no Envoy "
            "needs that has its load balancers from this driver: find out what it is",
        )

    def take(self, asked: Asked) -> Offer | None:
        """Take a request; return the offer that it accepts."""
        if not self.is_open:
            self.is_open = True
            self._all = not asked.subscribe
            self.held.update(asked.has)
            self.is_greeted = bool(asked.has)
        self._subscribe(asked)
        accepted = self._answered(asked)
        # What was on its way before it was to be sent again does not count.
        for name in self._again & self.held.keys():
            self.held[name] = ""
        return accepted

    def _answered(self, asked: Asked) -> Offer | None:
        """Note what a request says of the response on its way; return that if it accepts it."""
        if self.offered is None or asked.nonce != self.nonce:
            return None
        offer, self.offered = self.offered, None
        if asked.error:
            self._refuse(offer, asked.error)
            return None
        self._accept(offer)
        return offer

    def _subscribe(self, asked: Asked) -> None:
        """Take the names; one that is asked for again is sent again."""
        self._all = (self._all or "*" in asked.subscribe) and (
            "*" not in asked.unsubscribe
        )
        for name in asked.subscribe - {"*"}:
            self._names.add(name)
            self.held[name] = asked.has.get(name, "")
        for name in asked.unsubscribe - {"*"}:
            self._names.discard(name)
            self._retried.discard(name)
            self.held.pop(name, None)
            self.refused.pop(name, None)

    def _accept(self, offer: Offer) -> None:
        """Note what the Envoy has now."""
        for name, resource in offer.resources.items():
            if self._all or name in self._names:
                self.held[name] = resource.version
            self.refused.pop(name, None)
        for name in offer.gone:
            self.held.pop(name, None)
            self.refused.pop(name, None)
        self._alone -= offer.names

    def _refuse(self, offer: Offer, text: str) -> None:
        """Note what the Envoy does not take, or find out which it is.

        It takes what it can of a response that it refuses: which version it has of any is
        unknown until that was sent alone.
        """
        if len(offer.names) > 1:
            self._alone |= offer.names
            for name in offer.names:
                if self._all or name in self._names:
                    self.held[name] = ""
            return
        for name in offer.names:
            resource = offer.resources.get(name)
            self.refused[name] = Refusal(resource.version if resource else "", text)
            self._alone.discard(name)

    def again(self, name: str) -> None:
        """Have a resource sent again that the Envoy has, or will say that it has."""
        self._again.add(name)
        if name in self.held:
            self.held[name] = ""

    def try_refused(self) -> bool:
        """Have what the Envoy does not take sent once more; False: there is nothing.

        A port that was taken may be free by now. Each goes alone, so that what comes of it is
        known of each, and is called refused until it is taken.
        """
        self._retried |= self.refused.keys()
        self._alone |= self.refused.keys()
        return bool(self.refused)

    def is_sent(self, name: str) -> bool:
        """Tell whether the Envoy was sent something about a resource, and has not answered."""
        return self.offered is not None and name in self.offered.names

    def is_foreign(self, name: str) -> bool:
        """Tell whether the Envoy has a resource of a driver with other state."""
        held = self.held.get(name, "")
        return bool(held) and not is_of(held, self.epoch)

    def owed(
        self, wanted: Mapping[str, Resource], held_back: AbstractSet[str] = frozenset()
    ) -> Offer | None:
        """Return the next response, which is on its way from now on; None: none is due.

        What a driver with other state has put there is neither changed nor removed: this
        one does not know what belongs to it.

        Args:
            wanted: all that there is of this kind.
            held_back: names that must wait for resources of other kinds.
        """
        if not self.is_open or self.offered is not None:
            return None
        if self._again:
            self._again &= wanted.keys() | self.held.keys()
        names = wanted if self._all else self._names & wanted.keys()
        changed = {
            name: wanted[name]
            for name in names
            if name not in held_back and self._is_due(name, wanted[name].version)
        }
        gone = {
            name
            for name in self.held
            if name not in wanted and name not in held_back and self._is_due(name, "")
        }
        if not changed and not gone and (self.is_greeted or not self._all):
            return None
        self.is_greeted = True
        self._nonce += 1
        self.offered = self._cut(changed, gone)
        self._again -= self.offered.names
        self._retried -= self.offered.names
        return self.offered

    def _is_due(self, name: str, version: str) -> bool:
        """Tell whether a version is to be sent; empty: the name is to be removed."""
        refused = self.refused.get(name)
        is_refused = refused is not None and refused.version == version
        if self.is_foreign(name) or (is_refused and name not in self._retried):
            return False
        return self.held.get(name) != version or not version

    def _cut(self, changed: dict[str, Resource], gone: set[str]) -> Offer:
        """Return a response with all, or with one of those that are sent alone."""
        suspects = sorted(self._alone & {*changed, *gone})
        if not suspects:
            return Offer(changed, gone)
        one = suspects[0]
        if one in changed:
            return Offer({one: changed[one]}, set())
        return Offer({}, {one})
