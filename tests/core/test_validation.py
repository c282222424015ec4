"""What becomes of a plan whose parameters a driver has not agreed to."""

from collections.abc import Mapping

import attrs
import pytest

from lbcf.core.model.resources import Selection, StaticSelection
from lbcf.core.model.values import DrainPolicy
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.plan import Create, Hold, Plan, Removal, Update
from lbcf.core.selection.plan import plan_group as plan_of
from lbcf.core.selection.validation import (
    ParameterQuestion,
    UnvalidatedParameters,
    backend_type_of,
    changed_by,
    hold_unvalidated,
    question_about,
)
from tests.builders import (
    BY_LABEL,
    a_group,
    a_pod,
    a_record,
    a_snapshot,
    a_spec,
    seconds,
)
from tests.node_builders import OF_NODES, OF_SERVICE


LIGHT, HEAVY = {"weight": "1"}, {"weight": "900"}
DOUBT = Explanation(Reason.DRIVER_REFUSED, "no such weight")
GROUP = a_group(parameters=HEAVY)
OLD = a_record(
    spec=a_spec(parameters=LIGHT, drain_timeout=seconds(30)), registered=True
)


def held(plan: Plan, before: Mapping[str, str] | None, *, there: bool = True) -> Plan:
    """Hold a plan back at the load balancer of all these records."""
    place = OLD.spec.load_balancer
    return hold_unvalidated(
        plan, {place: UnvalidatedParameters(DOUBT, before)}, lambda _record: there
    )


@pytest.mark.parametrize(
    ("selection", "word"),
    [
        (BY_LABEL, "Pod"),
        (OF_SERVICE, "Service"),
        (OF_NODES, "Node"),
        (StaticSelection(("10.0.0.9:80",)), "Static"),
    ],
)
def test_driver_is_told_the_type_of_backends(selection: Selection, word: str) -> None:
    """In the words of the protocol."""
    assert word == backend_type_of(a_group(selection=selection))


def test_first_parameters_are_asked_about_as_new() -> None:
    """There is nothing that they could be compared with."""
    assert ParameterQuestion("Pod", HEAVY) == question_about(GROUP, [])


def test_changed_parameters_are_asked_about_with_those_before() -> None:
    """Those that live records have; what is on its way out does not count."""
    leaving = a_record("leaving", deleting=True)

    assert ParameterQuestion("Pod", HEAVY, LIGHT) == question_about(
        GROUP, [leaving, OLD]
    )


def test_what_is_there_already_is_not_questioned() -> None:
    """A controller that starts anew asks nobody about groups that stay as they are."""
    present = attrs.evolve(OLD, spec=attrs.evolve(OLD.spec, parameters=HEAVY))

    assert None is question_about(GROUP, [OLD, present])


def test_nothing_new_comes_where_nothing_is() -> None:
    """A load balancer that has no backend of the group gets none."""
    plan = plan_of(a_snapshot(a_pod(), group=GROUP))
    assert {OLD.spec.load_balancer} == changed_by(plan)

    assert () == held(plan, None).creates


def test_rollout_goes_on_with_the_parameters_of_before() -> None:
    """Else a change that was refused would empty the load balancer pod by pod."""
    plan = plan_of(a_snapshot(a_pod(), a_pod("web-2"), group=GROUP, records=(OLD,)))

    left = held(plan, LIGHT)

    [create] = left.creates
    assert isinstance(create, Create)
    assert LIGHT == create.desired.spec.parameters
    assert plan.creates[0].name == create.name
    assert ((), [Hold(OLD, *attrs.astuple(DOUBT))]) == (left.updates, [*left.holds])


def test_what_else_changed_is_taken_over() -> None:
    """A driver has no say in how long a drain may take."""
    drain = DrainPolicy(timeout=seconds(60))
    spec = attrs.evolve(OLD.spec, parameters=HEAVY, drain=drain)

    [update] = held(Plan(updates=(Update(OLD, spec),)), LIGHT).updates

    assert attrs.evolve(spec, parameters=LIGHT) == update.spec


@pytest.mark.parametrize(
    ("reason", "there", "leaves"),
    [
        pytest.param(Reason.POD_TERMINATING, True, True, id="ends by itself"),
        pytest.param(Reason.POD_GONE, False, True, id="is gone"),
        pytest.param(Reason.POD_GONE, True, False, id="no longer selected"),
        pytest.param(Reason.UNSELECTED, True, False, id="port no longer listed"),
    ],
)
def test_who_ends_leaves(reason: Reason, there: bool, leaves: bool) -> None:
    """What nothing but the refused group no longer names, stays."""
    plan = Plan(removals=(Removal(OLD, reason, "why"),))

    left = held(plan, LIGHT, there=there)

    assert leaves is bool(left.removals)
    assert leaves is not bool(left.holds)


def test_other_load_balancers_are_not_concerned() -> None:
    """A driver speaks for its own."""
    plan = Plan(removals=(Removal(OLD, Reason.LOAD_BALANCER_DETACHED, "why"),))

    assert plan == hold_unvalidated(
        plan, {"other": UnvalidatedParameters(DOUBT)}, lambda _: True
    )
    assert plan is hold_unvalidated(plan, {}, lambda _: True)
