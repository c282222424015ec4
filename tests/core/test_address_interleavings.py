"""No address is with two load balancers of different Services, in whatever order things happen.

Two controllers act at once, and either may stop for good between any two requests. One gives
an address to Service `old`, of which it does not know that it ends; the other has it end, and
then gives the only address there is to Service `new`. All interleavings are tried; each rule
of `lbcf.core.lifecycle.addresses` left out is found out.
"""

from collections.abc import Callable, Generator

import attrs
import pytest

from lbcf.core.lifecycle import addresses
from lbcf.core.model.resources import Meta
from lbcf.core.model.services import Exposure, GivenAddress, LoadBalancerClass
from lbcf.core.reasons import Explanation
from tests.builders import a_meta


OLD, NEW = a_meta("old"), a_meta("new")
EXPOSURE = Exposure(is_balanced=True)
EDGE = LoadBalancerClass(
    a_meta("edge", version=0), "proxy", addresses=("192.0.2.1/32",)
)


@attrs.define
class Api:
    """What the API server has.

    Attributes:
        kind: the class, whose resourceVersion counts its writes.
        balancers: by a number that never comes back: whose it is, and its address.
        leaving: those that are being deleted, which takes a while.
    """

    kind: LoadBalancerClass = EDGE
    balancers: dict[int, tuple[str, str]] = attrs.Factory(dict)
    made: int = 0
    leaving: set[int] = attrs.Factory(set)

    def write(self, seen: LoadBalancerClass, given: tuple[GivenAddress, ...]) -> bool:
        """Write the record, if the class is still the version that was seen."""
        if seen.meta.resource_version != self.kind.meta.resource_version:
            return False
        version = str(int(self.kind.meta.resource_version) + 1)
        meta = attrs.evolve(self.kind.meta, resource_version=version)
        self.kind = attrs.evolve(self.kind, meta=meta, given=given)
        return True

    def make(self, owner: Meta, address: str = "") -> int:
        """Make the load balancer of a Service, or find it: its name is taken then."""
        found = [n for n, (whose, _) in self.balancers.items() if whose == owner.uid]
        if found:
            return found[0]
        self.made += 1
        self.balancers[self.made] = (owner.uid, address)
        return self.made

    def delete(self, owner: Meta) -> None:
        """Order the end of a Service's load balancers; the next look finds them gone."""
        mine = {n for n, (whose, _) in self.balancers.items() if whose == owner.uid}
        for number in mine & self.leaving:
            del self.balancers[number]
        self.leaving |= mine

    def check(self) -> None:
        """See that no address is with two."""
        there = [address for _, address in self.balancers.values() if address]
        given = [one.address for one in self.kind.given]
        assert len(set(there)) == len(there), "two load balancers have one address"
        assert len(set(given)) == len(given), "the record gives one address to two"


Actor = Generator[None, None, None]
"""Each step is one request; what was read may be old by the next."""


def give(api: Api, meta: Meta) -> Actor:
    """Take a turn of a Service that is to have an address."""
    yield
    balancer = api.make(meta)
    yield
    address = yield from _ask(api, meta)
    yield
    # By compare-and-swap: only into the load balancer that was there.
    if address and api.balancers.get(balancer) == (meta.uid, ""):
        api.balancers[balancer] = (meta.uid, address)


def give_at_birth(api: Api, meta: Meta) -> Actor:
    """The same without rule 1: asked first, and made with the address."""
    yield
    address = yield from _ask(api, meta)
    yield
    if address:
        api.make(meta, address)


def _ask(api: Api, meta: Meta) -> Generator[None, None, str]:
    kind = api.kind
    found = addresses.address_of(kind, meta.uid)
    if found is not None:
        return "" if found.is_releasing else found.address
    given = addresses.given_to(kind, meta, EXPOSURE)
    if isinstance(given, Explanation):
        return ""
    yield
    return given[-1].address if api.write(kind, given) else ""


def end(api: Api, meta: Meta, *, marks: bool = True, looks: bool = True) -> Actor:
    """Have a Service end: its load balancers, then its address."""
    while True:
        if marks:
            yield
            if not api.write(api.kind, addresses.releasing(api.kind, meta.uid)):
                continue
        kind = api.kind
        yield
        api.delete(meta)
        yield
        left = any(whose == meta.uid for whose, _ in api.balancers.values())
        if looks and left:
            continue
        yield
        if api.write(kind, addresses.released(kind, meta.uid)):
            return


Play = Callable[[Api], list[Actor]]


def _then(*acts: Actor) -> Actor:
    for act in acts:
        yield from act


def begun(api: Api, giving: Callable[[Api, Meta], Actor] = give) -> Api:
    """Give `old` its address, undisturbed."""
    for _ in giving(api, OLD):
        api.check()
    return api


def plays(giving: Callable[[Api, Meta], Actor] = give, **weaker: bool) -> list[Play]:
    """A Service that has its address, and one that gets it, end while it is being given."""

    def known(api: Api) -> list[Actor]:
        begun(api, giving)
        return new(api)

    def new(api: Api) -> list[Actor]:
        ending = end(api, OLD, **weaker)
        return [giving(api, OLD), _then(ending, giving(api, NEW))]

    return [known, new]


def explored(play: Play, depth: int = 24) -> int:
    """Try all orders, each actor stopping anywhere; return how many there are."""
    count = 0
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        order = waiting.pop()
        api = Api()
        actors = play(api)
        alive = [True] * len(actors)
        for which in order:
            alive[which] = next(actors[which], StopIteration) is None
            api.check()
        count += 1
        if len(order) < depth:
            waiting += [(*order, n) for n, is_alive in enumerate(alive) if is_alive]
    return count


@pytest.mark.parametrize("play", plays(), ids=["known", "new"])
def test_no_address_is_with_two(play: Play) -> None:
    """In no order, and wherever either controller stops."""
    assert explored(play) > 1000


@pytest.mark.parametrize(
    "weaker",
    [plays(give_at_birth), plays(marks=False), plays(looks=False)],
    ids=["born with it", "not marked", "not looked for"],
)
def test_each_rule_is_needed(weaker: list[Play]) -> None:
    """Without it, some order gives an address to two."""
    with pytest.raises(AssertionError, match="two load balancers have one address"):
        list(map(explored, weaker))
