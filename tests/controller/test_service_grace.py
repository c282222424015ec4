"""A Service that is not there for a moment keeps its nodes; one that is gone does not."""

import attrs

from lbcf.controller.groups import GRACE, ServiceGrace
from lbcf.controller.view import View
from lbcf.core.model.nodes import NodePortService, ServicePort
from lbcf.core.model.values import Port
from lbcf.core.reasons import Reason
from tests.builders import a_group, a_meta, seconds
from tests.controller.views import show
from tests.fakes.clock import VirtualClock
from tests.node_builders import a_node_group, a_node_record


GROUP = a_node_group()
SERVICE = NodePortService(
    a_meta("web"), "NodePort", (ServicePort("", Port(80), 30080),)
)


class _Clock(VirtualClock):
    """A clock that is set by hand."""

    now_at = 0.0

    def monotonic(self) -> float:
        """Return what it was set to."""
        return self.now_at


def scene(*, with_record: bool = True) -> tuple[ServiceGrace, View, _Clock]:
    """Make a view without the Service."""
    view, clock = View(), _Clock()
    if with_record:
        show(view, a_node_record(1))
    return ServiceGrace(view, clock), view, clock


def test_nodes_stay_for_a_while() -> None:
    """The group says so, and is looked at again when the time has passed."""
    grace, _, clock = scene()
    kept = grace.consider(GROUP)
    assert kept is not None
    assert (Reason.SERVICE_NOT_FOUND, GRACE) == (
        kept.reason,
        grace.rest(GROUP.meta.key),
    )

    clock.now_at = 20.0
    assert kept == grace.consider(GROUP)
    assert grace.rest(GROUP.meta.key) == GRACE - seconds(20)

    clock.now_at = GRACE.total_seconds()
    assert grace.consider(GROUP) is None
    assert grace.rest(GROUP.meta.key) is None


def test_service_that_comes_back_begins_anew() -> None:
    """The next time that it is missed has a grace of its own."""
    grace, view, clock = scene()
    assert grace.consider(GROUP) is not None
    show(view, SERVICE)
    assert grace.consider(GROUP) is None
    view.services.observe_gone(SERVICE.meta)
    clock.now_at = 50.0

    assert grace.consider(GROUP) is not None


def test_group_without_records_has_nothing_to_keep() -> None:
    """It says at once that its Service does not exist."""
    grace, _, _ = scene(with_record=False)

    assert grace.consider(GROUP) is None


def test_other_groups_are_not_concerned() -> None:
    """Pods need no Service."""
    grace, _, _ = scene()

    assert grace.consider(attrs.evolve(a_group(), meta=GROUP.meta)) is None
