"""`why pod` and `why node`: the checks in their order, and the verdict that counts."""

import attrs
import pytest

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.node_backends import NodeRef
from lbcf.core.model.resources import GroupStatus
from lbcf.core.model.values import DeregisterPolicy, DeregisterWebhook
from lbcf.core.reasons import Reason
from lbcf.core.selection.eligibility import POD_CHECKS
from lbcf.core.selection.node_policy import NODE_CHECKS
from lbcf.ctl.backends import why_node, why_pod
from lbcf.ctl.errors import ObjectNotFound
from lbcf.ctl.groups import why_group
from lbcf.ctl.reading import Reading
from lbcf.ctl.report import WhyReport, check_question
from tests.builders import (
    START,
    a_driver,
    a_group,
    a_key,
    a_load_balancer,
    a_pod,
    a_record,
    a_spec,
)
from tests.controller.views import obscure
from tests.ctl.readings import (
    FORBIDDEN_PODS,
    NOW,
    a_reading,
    bare_reading,
    line_facts,
    text_of,
)
from tests.ctl.test_records import a_status
from tests.node_builders import HTTP, OF_NODES, a_node


def of_pod(reading: Reading, name: str = "web-1") -> WhyReport:
    """Ask about a pod as the command does."""
    key = a_key(name)
    return why_pod(reading, key, reading.view.pods.get(key), NOW)


def test_checks_are_asked_as_the_core_lists_them() -> None:
    """All of them, under their own names; after the one that speaks none is asked."""
    lines = line_facts(of_pod(a_reading(a_pod(ready=False))))
    asked = [(mark, name) for mark, name, _ in lines if name.endswith("?")]

    assert [check_question(check.__name__) for check in POD_CHECKS] == [
        n for _, n in asked
    ]
    assert ["ok", "ok", "NO", "-"] == [mark for mark, _ in asked]
    assert ("NO", "unready?", "PodNotReady") in lines


def test_node_is_asked_the_checks_of_nodes() -> None:
    """In their order, too."""
    reading = a_reading(a_node())
    reading.view.groups.place(a_group("nodes", selection=OF_NODES))
    lines = line_facts(why_node(reading, "n1", NOW))

    names = [name for _, name, _ in lines if name.endswith("?")]
    assert [check_question(check.__name__) for check in NODE_CHECKS] == names
    assert ("wait", "to be created", "") in lines


def test_pod_in_is_answered_in_a_line() -> None:
    """Where it is registered."""
    report = of_pod(a_reading(a_pod(), a_record(registered=True)))

    assert "registered at front" == report.headline
    assert ("ok", "verdict", "") in line_facts(report)
    assert ("ok", "waits for", "") in line_facts(report)


def test_pod_that_is_refused_has_the_driver_s_words_in_front() -> None:
    """And who is waited for."""
    status = a_status(conditions.REGISTERED, Reason.DRIVER_REFUSED)
    report = of_pod(a_reading(a_pod(), a_record(status=status)))

    assert "because (for 1m)" == report.headline
    assert ("NO", "Registered False", "DriverRefused") in line_facts(report)
    assert "  wait  waits for         driver shop/proxy\n" in text_of(report)


def test_pod_that_is_gone_is_on_its_way_out() -> None:
    """Its record tells of it."""
    report = of_pod(a_reading(a_record(registered=True, deleting=True)))

    assert "on its way out of front; there is no pod web-1 now" == report.headline


def test_record_whose_group_has_gone_is_told() -> None:
    """It outlives its group as long as it drains."""
    record = a_record(registered=True, deleting=True)
    gone = why_pod(bare_reading(record), a_key("web-1"), None, NOW)
    here = of_pod(bare_reading(a_pod(), record))
    text = "there is none any more: what it had leaves"

    assert f"on its way out of front; {text}" == gone.headline
    for report in (gone, here):
        assert ("NO", "the group", "") in line_facts(report)
        assert ("wait", "being deleted", "") in line_facts(report)


def test_node_that_is_gone_is_called_a_node() -> None:
    """Its record tells of it; a pod of that name is another thing."""
    group = a_group("nodes", selection=OF_NODES)
    backend = NodeRef("n1", HTTP)
    record = attrs.evolve(
        a_record(spec=a_spec(backend=backend), deleting=True),
        group=group.meta.key,
    )
    reading = bare_reading(a_driver(), a_load_balancer(), group, record)

    told = why_node(reading, "n1", NOW).headline
    assert "on its way out of front; there is no node n1 now" == told
    with pytest.raises(ObjectNotFound, match="there is no pod/n1"):
        of_pod(reading, "n1")


def test_pod_that_is_about_to_get_a_record_is_told_so() -> None:
    """Its name is no answer."""
    told = of_pod(a_reading(a_pod())).headline

    assert told.startswith("the controller is to make record web-web-1-8080-")


def test_pod_that_nothing_means_shows_what_there_is() -> None:
    """The groups of its namespace, with what they mean."""
    report = of_pod(a_reading(a_pod(labels={"app": "other"})))

    assert "no BackendGroup and no Bind means this pod" == report.headline
    assert "  -     bg/web    means pods with app=web\n" in text_of(report)


def test_pod_of_which_nothing_is_known_is_unknown() -> None:
    """A wrong name is told as such."""
    with pytest.raises(ObjectNotFound, match="there is no pod/web-1 in namespace shop"):
        of_pod(a_reading())
    with pytest.raises(
        ObjectNotFound, match="there is no node/n1, and no BackendRecord of one"
    ):
        why_node(a_reading(), "n1", NOW)


def test_load_balancer_that_is_missing_is_the_answer() -> None:
    """Whatever the pod is like."""
    report = of_pod(bare_reading(a_group(), a_pod()))

    assert ("NO", "lb/front", "LoadBalancerNotFound") in line_facts(report)
    assert report.headline.startswith("LoadBalancer shop/front does not exist")


def test_guard_keeps_a_record_and_says_so() -> None:
    """The verdict is one thing, the plan another."""
    reading = bare_reading(
        *(a_driver(), a_load_balancer(), a_group(max_unready_percent=0)),
        *(a_pod(ready=False), a_record(registered=True)),
    )

    assert ("wait", "kept as it is", "TooManyUnready") in line_facts(of_pod(reading))


def test_driver_that_judges_is_named_with_what_the_controller_wrote() -> None:
    """Its ruling is with the controller alone."""
    held = Condition(
        conditions.REMOVALS_HELD,
        True,
        Reason.KEPT_BY_DRIVER,
        "proxy keeps it",
        1,
        START,
    )
    group = attrs.evolve(
        a_group(policy=DeregisterPolicy.WEBHOOK, webhook=DeregisterWebhook("proxy")),
        status=GroupStatus(conditions=(held,)),
    )
    reading = bare_reading(
        *(a_driver(), a_load_balancer(), group),
        *(a_pod(ready=False), a_record(registered=True)),
    )

    report = of_pod(reading)
    assert ("wait", "judged by", "KeptByDriver") in line_facts(report)
    assert "the controller wrote: proxy keeps it" in text_of(report)


def test_pods_that_may_not_be_read_leave_the_verdict_open() -> None:
    """No check is guessed from what was not read."""
    reading = a_reading(a_record(registered=True))
    reading.missing_rights["pods", "shop"] = FORBIDDEN_PODS
    group = reading.view.groups.get(a_key("web"))
    assert group is not None
    report = why_group(reading, group, NOW)

    assert ("?", "all of it", "NotRead") in line_facts(report)
    assert ("?", "plan", "") in line_facts(report)
    assert ("may not list pods in namespace shop",) == report.unread


def test_unreadable_neighbour_holds_the_whole_group() -> None:
    """As it does for the controller."""
    reading = a_reading(a_pod(), a_record(registered=True))
    obscure(reading.view.records, a_key("odd"))

    assert ("?", "all of it", "RecordUnreadable") in line_facts(of_pod(reading))


def test_words_are_folded_and_never_cut_in_a_narrow_terminal() -> None:
    """Each line begins below the one before it."""
    report = of_pod(
        a_reading(
            a_pod(), a_record(status=a_status("Registered", Reason.DRIVER_REFUSED))
        )
    )
    narrow = text_of(report, width=40)

    assert max(len(line) for line in narrow.splitlines()) <= 40
    assert "…" not in narrow
