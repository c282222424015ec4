"""What drivers are asked before something is stored, and what follows."""

from datetime import UTC, datetime

import attrs
import pytest

from lbcf.admission import decisions as admission
from lbcf.admission.decisions import (
    Admitted,
    Cause,
    Denied,
    DriverFailurePolicy,
    Intent,
)
from lbcf.core.model.binds import Bind, Entry
from lbcf.core.model.names import LABEL_DRAINING
from lbcf.core.model.resources import (
    BackendGroup,
    LoadBalancer,
    LoadBalancerDriver,
    Meta,
    StaticSelection,
)
from lbcf.core.model.values import ObjectKey, Uid


KEY = ObjectKey("shop", "front")
META = Meta(KEY, Uid("u"), "1")
ENDING = attrs.evolve(META, deleting_since=datetime(2026, 1, 1, tzinfo=UTC))
DRAINING = attrs.evolve(META, labels={LABEL_DRAINING: "true"})
LB = LoadBalancer(META, "memory", {"name": "front"}, {"width": "7"})
GROUP = BackendGroup(META, ("a", "b"), StaticSelection(()), {"weight": "1"})
DRIVER = LoadBalancerDriver(META, "http://driver")
WIDER = attrs.evolve(LB, attributes={"width": "8"})
HEAVIER = attrs.evolve(GROUP, parameters={"weight": "2"})


@pytest.mark.parametrize(
    ("new", "old", "intent"),
    [
        (LB, None, Intent.CREATE),
        (WIDER, LB, Intent.UPDATE),
        (LB, LB, None),
        (attrs.evolve(LB, max_concurrent_calls=1), LB, None),
        (attrs.evolve(WIDER, meta=ENDING), LB, None),
    ],
    ids=["new", "attributes", "nothing", "ours to know", "being deleted"],
)
def test_driver_is_asked_about_attributes_alone(
    new: LoadBalancer, old: LoadBalancer | None, intent: Intent | None
) -> None:
    """A load balancer's driver hears of what it has a say in."""
    assert intent == admission.intent_for_load_balancer(new, old)


@pytest.mark.parametrize(
    ("new", "old", "intents"),
    [
        (GROUP, None, {"a": Intent.CREATE, "b": Intent.CREATE}),
        (HEAVIER, GROUP, {"a": Intent.UPDATE, "b": Intent.UPDATE}),
        (attrs.evolve(GROUP, load_balancers=("b", "c")), GROUP, {"c": Intent.CREATE}),
        (
            attrs.evolve(HEAVIER, load_balancers=("b", "c")),
            GROUP,
            {"b": Intent.UPDATE, "c": Intent.CREATE},
        ),
        (GROUP, GROUP, {}),
        (attrs.evolve(HEAVIER, meta=ENDING), GROUP, {}),
    ],
    ids=["new", "parameters", "another", "both", "nothing", "being deleted"],
)
def test_drivers_are_asked_about_what_is_new_to_them(
    new: BackendGroup, old: BackendGroup | None, intents: dict[str, Intent]
) -> None:
    """Each load balancer of a group is looked at by itself."""
    assert intents == admission.intents_for_group(new, old)


@pytest.mark.parametrize(
    ("driver", "intent", "told"),
    [
        (DRIVER, Intent.CREATE, None),
        (attrs.evolve(DRIVER, meta=ENDING), Intent.CREATE, "being deleted"),
        (attrs.evolve(DRIVER, meta=DRAINING), Intent.CREATE, "is draining"),
        (attrs.evolve(DRIVER, meta=ENDING), Intent.UPDATE, None),
        (attrs.evolve(DRIVER, meta=DRAINING), Intent.UPDATE, None),
    ],
)
def test_driver_on_its_way_out_takes_nothing_new(
    driver: LoadBalancerDriver, intent: Intent, told: str | None
) -> None:
    """What it has may change on."""
    verdict = admission.judge_driver(KEY, driver, "shop", intent)

    if told is None:
        assert verdict is None
    else:
        assert isinstance(verdict, Denied)
        assert told in verdict.message
        assert Cause.FORBIDDEN is verdict.cause


SYSTEM = attrs.evolve(META, key=ObjectKey("kube-system", "lbcf-proxy"))


@pytest.mark.parametrize(
    ("scope", "intent", "is_refused"),
    [
        (None, Intent.CREATE, False),
        ((), Intent.CREATE, True),
        (("stall",), Intent.CREATE, True),
        (("stall", "shop"), Intent.CREATE, False),
        (("*",), Intent.CREATE, False),
        ((), Intent.UPDATE, False),
    ],
)
def test_shared_driver_takes_load_balancers_of_its_scope(
    scope: tuple[str, ...] | None, intent: Intent, *, is_refused: bool
) -> None:
    """Unsaid it takes all, as in LBCF; what is there may change in all its other parts."""
    driver = attrs.evolve(DRIVER, meta=SYSTEM, scope=scope)

    verdict = admission.judge_driver(SYSTEM.key, driver, "shop", intent)

    assert is_refused == isinstance(verdict, Denied)
    if isinstance(verdict, Denied):
        assert "of namespace shop: whoever operates it has to add" in verdict.message
        assert Cause.FORBIDDEN is verdict.cause
    assert None is admission.judge_driver(
        SYSTEM.key, driver, "kube-system", Intent.CREATE
    )


@pytest.mark.parametrize(
    ("found", "namespace", "intent", "told"),
    [
        (LB, "shop", Intent.CREATE, None),
        (attrs.evolve(LB, meta=ENDING), "shop", Intent.CREATE, "being deleted"),
        (LB, "stall", Intent.CREATE, "may not be used from namespace stall"),
        (attrs.evolve(LB, scope=("stall",)), "stall", Intent.CREATE, None),
        (attrs.evolve(LB, scope=("*",)), "stall", Intent.CREATE, None),
        (LB, "stall", Intent.UPDATE, None),
        (attrs.evolve(LB, meta=ENDING), "shop", Intent.UPDATE, None),
    ],
)
def test_load_balancer_takes_groups_of_its_scope(
    found: LoadBalancer, namespace: str, intent: Intent, told: str | None
) -> None:
    """A group that is there already is not refused for what happens to it."""
    verdict = admission.judge_load_balancer(KEY, found, namespace, intent)

    if told is None:
        assert verdict is None
    else:
        assert isinstance(verdict, Denied)
        assert told in verdict.message


@pytest.mark.parametrize("intent", list(Intent))
def test_what_does_not_exist_yet_brings_a_warning(intent: Intent) -> None:
    """Objects may be applied in any order."""
    driver = admission.judge_driver(KEY, None, "shop", intent)
    load_balancer = admission.judge_load_balancer(KEY, None, "shop", intent)

    for verdict in (driver, load_balancer):
        assert isinstance(verdict, Admitted)
        assert "does not exist yet" in verdict.warnings[0]


def test_refusal_of_the_driver_carries_its_words() -> None:
    """Which driver, what about, and why; also where it does not say why."""
    told = admission.judge_answer(KEY, False, "weight 900", "spec")
    silent = admission.judge_answer(KEY, False, "", "spec")

    assert Denied("spec: driver shop/front refuses: weight 900") == told
    assert isinstance(silent, Denied)
    assert "gave no reason" in silent.message
    assert Admitted() == admission.judge_answer(KEY, True, "fine", "spec")


def test_silence_is_judged_by_the_policy() -> None:
    """Fail refuses as something that will pass; Ignore warns."""
    failed = admission.judge_silence("nobody there", DriverFailurePolicy.FAIL)
    ignored = admission.judge_silence("nobody there", DriverFailurePolicy.IGNORE)

    assert isinstance(failed, Denied)
    assert Cause.UNAVAILABLE is failed.cause
    assert isinstance(ignored, Admitted)
    assert "nobody there" in ignored.warnings[0]


def test_sum_tells_everything_once() -> None:
    """All refusals together, else all warnings."""
    warned, refused = Admitted(("slow",)), Denied("no", Cause.FORBIDDEN)

    assert Admitted(("slow",)) == admission.sum_up([warned, Admitted(), warned])
    assert refused == admission.sum_up([warned, refused, refused])
    assert Denied("no; never", Cause.FORBIDDEN) == admission.sum_up(
        [refused, Denied("never")]
    )


ENTRY = Entry("a", "memory", {"n": "1"}, {"width": "7"})
BIND = Bind(META, GROUP, (ENTRY,))


@pytest.mark.parametrize(
    ("new", "old", "intents"),
    [
        (BIND, None, {"a": (Intent.CREATE, Intent.CREATE)}),
        (BIND, BIND, {"a": (None, None)}),
        (
            attrs.evolve(BIND, entries=(attrs.evolve(ENTRY, attributes={}),)),
            BIND,
            {"a": (Intent.UPDATE, None)},
        ),
        (attrs.evolve(BIND, group=HEAVIER), BIND, {"a": (None, Intent.UPDATE)}),
        (
            attrs.evolve(BIND, entries=(ENTRY, attrs.evolve(ENTRY, name="b"))),
            BIND,
            {"a": (None, None), "b": (Intent.CREATE, Intent.CREATE)},
        ),
        (
            attrs.evolve(BIND, entries=(attrs.evolve(ENTRY, driver="other"),)),
            BIND,
            {"a": (Intent.CREATE, Intent.CREATE)},
        ),
        (attrs.evolve(BIND, meta=ENDING), None, {}),
    ],
    ids=["new", "nothing", "attributes", "parameters", "another", "driver", "ending"],
)
def test_each_entry_of_a_bind_is_looked_at(
    new: Bind,
    old: Bind | None,
    intents: dict[str, tuple[Intent | None, Intent | None]],
) -> None:
    """About the load balancer, and about the backends at it."""
    assert intents == admission.intents_for_bind(new, old)
