"""Addresses of classes: which one a Service gets, and when it gets none."""

import attrs
import pytest

from lbcf.core.lifecycle.addresses import (
    address_of,
    given_to,
    networks,
    overlapping,
    released,
    releasing,
)
from lbcf.core.model import names
from lbcf.core.model.resources import Meta
from lbcf.core.model.services import Exposure, GivenAddress, LoadBalancerClass
from lbcf.core.reasons import Explanation, Reason
from tests.builders import a_meta


EDGE = LoadBalancerClass(
    a_meta("edge", namespace=""),
    "proxy",
    addresses=("192.0.2.0/30", "2001:db8::/64"),
)
PLAIN = Exposure(is_balanced=True)
IPV6 = Exposure(is_balanced=True, options={"ipFamilies": "IPv6"})


def sharing(name: str, key: str = "front", namespace: str = "shop") -> Meta:
    """Say that a Service shares its address."""
    said = {names.ANNOTATION_SHARED: key}
    return a_meta(
        name, namespace=namespace, annotations=said, uid=f"{namespace}-{name}"
    )


def giving(
    kind: LoadBalancerClass, meta: Meta, exposure: Exposure = PLAIN
) -> LoadBalancerClass:
    """Give a Service its address."""
    found = given_to(kind, meta, exposure)
    assert not isinstance(found, Explanation)
    return attrs.evolve(kind, given=found)


def addresses(kind: LoadBalancerClass) -> list[str]:
    """The addresses in the order in which they were given."""
    return [one.address for one in kind.given]


def test_each_service_gets_the_first_that_is_free() -> None:
    """The first and the last of a network, too; then there is none."""
    kind = EDGE
    for number in range(4):
        kind = giving(kind, a_meta(f"web-{number}"))
    assert [f"192.0.2.{n}" for n in range(4)] == addresses(kind)

    none = given_to(kind, a_meta("late"), PLAIN)
    assert isinstance(none, Explanation)
    assert Reason.ADDRESSES_EXHAUSTED == none.reason
    freed = attrs.evolve(kind, given=released(kind, a_meta("web-2").uid))
    assert "192.0.2.2" == addresses(giving(freed, a_meta("late")))[-1]


def test_family_is_the_first_of_the_service() -> None:
    """A network of 2^64 addresses is not counted through."""
    both = Exposure(is_balanced=True, options={"ipFamilies": "IPv6,IPv4"})

    assert ["2001:db8::"] == addresses(giving(EDGE, a_meta("web"), IPV6))
    assert ["2001:db8::"] == addresses(giving(EDGE, a_meta("web"), both))
    only_4 = attrs.evolve(EDGE, addresses=("192.0.2.0/30",))
    none = given_to(only_4, a_meta("web"), IPV6)
    assert isinstance(none, Explanation)
    assert "no IPv6 address left" in none.message


def test_shared_by_those_of_a_namespace_that_say_the_same() -> None:
    """Nobody of another namespace gets in, whatever they say."""
    kind = EDGE
    for meta in (
        sharing("a"), sharing("b"), sharing("c", "back"), sharing("d", namespace="other"),
    ):  # fmt: skip
        kind = giving(kind, meta)

    assert ["192.0.2.0", "192.0.2.0", "192.0.2.1", "192.0.2.2"] == addresses(kind)


def test_address_that_is_being_released_is_given_to_nobody() -> None:
    """It is taken until it is out of the record; who shared it keeps it."""
    kind = giving(EDGE, sharing("a"))
    kind = attrs.evolve(kind, given=releasing(kind, sharing("a").uid))
    found = address_of(kind, sharing("a").uid)
    assert found is not None
    assert found.is_releasing

    assert "192.0.2.1" == addresses(giving(kind, sharing("b")))[-1]
    assert "192.0.2.1" == addresses(giving(kind, a_meta("c")))[-1]


def test_release_is_of_one_service_alone() -> None:
    """By uid: a namesake has another."""
    kind = giving(giving(EDGE, a_meta("web")), a_meta("api"))

    assert kind.given == releasing(kind, a_meta("web", uid="anew").uid)
    assert kind.given[1:] == released(kind, a_meta("web").uid)
    assert (
        GivenAddress("192.0.2.1", a_meta("api").key, a_meta("api").uid) == kind.given[1]
    )


@pytest.mark.parametrize(
    ("network", "is_shared"),
    [
        ("192.0.2.0/24", True),
        ("192.0.2.3/32", True),
        ("192.0.2.4/30", False),
        ("none", False),
    ],
)
def test_classes_with_an_address_in_common_give_none(
    network: str, is_shared: bool
) -> None:
    """Each for itself could give it."""
    other = LoadBalancerClass(a_meta("z", namespace=""), "p", addresses=(network,))
    why = overlapping(EDGE, [EDGE, other])

    assert is_shared == (why is not None)
    assert why is None or Reason.POOLS_OVERLAP == why.reason


def test_shared_address_is_of_the_family_that_a_service_has_first() -> None:
    """Each family has one that is shared."""
    kind = EDGE
    for name, exposure in (("a", PLAIN), ("b", IPV6), ("c", IPV6), ("d", PLAIN)):
        kind = giving(kind, sharing(name), exposure)

    assert ["192.0.2.0", "2001:db8::", "2001:db8::", "192.0.2.0"] == addresses(kind)


def test_what_others_have_is_given_to_nobody_by_another_record() -> None:
    """A network that came from another class, or to a class that was made anew."""
    kind = giving(EDGE, a_meta("web"))
    found = given_to(kind, a_meta("api"), PLAIN, elsewhere={"192.0.2.1"})

    assert not isinstance(found, Explanation)
    assert "192.0.2.2" == found[-1].address


@pytest.mark.parametrize(
    ("own", "given"),
    [
        ("192.0.2.3", "192.0.2.3"),
        ("192.0.2.0", "192.0.2.2"),
        ("192.0.2.1", "192.0.2.2"),
        ("203.0.113.9", "192.0.2.2"),
        ("none", "192.0.2.2"),
        ("2001:db8::1", "192.0.2.2"),
    ],
)
def test_service_gets_back_what_its_load_balancers_have(own: str, given: str) -> None:
    """If that is of its class and family, and nobody else has it."""
    kind = giving(EDGE, a_meta("web"))
    found = given_to(kind, a_meta("api"), PLAIN, elsewhere={"192.0.2.1"}, own={own})

    assert not isinstance(found, Explanation)
    assert given == found[-1].address


def test_class_gives_what_can_be_understood() -> None:
    """An address within a network stands for all of it; what is none hides no other."""
    kind = attrs.evolve(EDGE, addresses=("no network", "192.0.2.3/30", "fd00::/126"))

    assert ["192.0.2.0/30", "fd00::/126"] == [str(one) for one in networks(kind)]
