"""`status`: what counts as wrong, and what it looks like."""

from datetime import timedelta

import attrs
import pytest

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.departures import Outcome
from lbcf.core.model.resources import GroupStatus
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.ctl.drains import drains_report
from lbcf.ctl.errors import MissingRight
from lbcf.ctl.leaders import CONTROLLER, Leader
from lbcf.ctl.status import StatusReport, status_report
from tests.builders import (
    START,
    a_driver,
    a_group,
    a_key,
    a_load_balancer,
    a_meta,
    a_record,
    a_spec,
)
from tests.controller.views import Thing, obscure
from tests.ctl.readings import NOW, a_reading, bare_reading, text_of
from tests.ctl.test_departed import CUT, remembering
from tests.ctl.test_records import a_status


LED = Leader(
    "lbcf-system", CONTROLLER, "pod-a", NOW - timedelta(seconds=1), is_alive=True
)
REMOVING = attrs.evolve(LED, name="lbcf-deregistrar")
LOST = attrs.evolve(LED, renewed=NOW - timedelta(minutes=9), is_alive=False)


def status_of(*things: Thing, leader: Leader = LED) -> StatusReport:
    """Look at the everyday objects and these."""
    return status_report(a_reading(*things), (leader, REMOVING), NOW)


def problems_in(found: StatusReport) -> list[tuple[str, str]]:
    """Say what is wrong: subject and reason."""
    return [(problem.subject, problem.reason) for problem in found.problems]


def a_no(
    kind: str, reason: Reason, *, status: bool | None = False
) -> tuple[Condition, ...]:
    """Make one condition."""
    return (Condition(kind, status, reason, "because", 1, START),)


def test_quiet_cluster_has_nothing_wrong() -> None:
    """Registered records, a leader, and conditions that say yes."""
    found = status_of(a_record(registered=True))

    assert [] == problems_in(found)
    assert [(1, 0, 0)] == [
        (row.registered, row.pending, row.ending) for row in found.load_balancers
    ]
    assert text_of(found).startswith("nothing is wrong\n")


def test_lease_that_is_not_renewed_is_wrong() -> None:
    """Unless the same process is led under another namespace's Lease."""
    lost = ("lease/lbcf-controller", "NoLeader")

    assert lost in problems_in(status_of(leader=LOST))
    assert [] == problems_in(status_report(a_reading(), (LOST, LED, REMOVING), NOW))


def test_lease_that_nobody_ever_took_is_wrong() -> None:
    """A process that has never run does nothing; unless we may not know of it."""
    none = ("lease/lbcf-deregistrar", "NoLeader")
    hidden = a_reading()
    hidden.missing_rights["leases", "*"] = MissingRight("list", "leases", "*")
    found = status_report(a_reading(), (LED,), NOW)

    assert [none] == problems_in(found)
    assert "there is no such Lease: has lbcf-deregistrar ever run" in text_of(found)
    assert "lease" not in text_of(status_report(hidden, (), NOW)).split("not read: ")[0]


def test_namespace_without_anything_of_ours_is_told() -> None:
    """Its name may be a wrong one, and nothing can be wrong in it."""
    here, everywhere = bare_reading(), bare_reading(namespace=None)
    told = "nothing is wrong: there is no group, load balancer or driver"

    shop = text_of(status_report(here, (LED, REMOVING), NOW)).splitlines()[0]
    assert f"{told} in namespace shop (-A asks about all of them)" == shop
    cluster = text_of(status_report(everywhere, (LED, REMOVING), NOW)).splitlines()[0]
    assert f"{told} in the cluster" == cluster


def test_places_are_told_unless_they_are_what_was_asked_about() -> None:
    """A lone object has a namespace, too."""
    refused = a_record(
        "a", status=a_status(conditions.REGISTERED, Reason.DRIVER_REFUSED)
    )
    draining = a_record("b", deleting=True)
    everywhere = bare_reading(a_load_balancer(), refused, draining, namespace=None)
    here = a_reading(refused, draining)
    wide, near = (
        text_of(status_report(one, (LED, REMOVING), NOW)) for one in (everywhere, here)
    )

    assert "\n  shop br/a  DriverRefused" in wide
    assert "\nNAMESPACE  LOAD BALANCER" in wide
    assert "\n  br/a  DriverRefused" in near
    assert "\nLOAD BALANCER" in near
    assert "\nNAMESPACE    LEASE" in near
    assert text_of(drains_report(everywhere, NOW)).startswith("NAMESPACE  BACKEND")
    assert text_of(drains_report(here, NOW)).startswith("BACKEND")


def test_what_could_not_be_read_is_not_called_fine() -> None:
    """It may be what is wrong."""
    reading = a_reading()
    reading.missing_rights["backendrecords", "shop"] = MissingRight(
        "list", "backendrecords", "shop"
    )
    told = text_of(status_report(reading, (LED, REMOVING), NOW))

    assert told.startswith("nothing is wrong in what may be read\n")


def test_group_not_looked_at_is_wrong_while_nobody_leads() -> None:
    """A controller that leads looks at a change within seconds."""
    unseen = a_group(generation=2)

    assert [] == problems_in(status_of(unseen))
    assert ("bg/web", "NotLookedAt") in problems_in(status_of(unseen, leader=LOST))


@pytest.mark.parametrize(
    ("kind", "reason", "status", "is_wrong"),
    [
        (conditions.READY, Reason.LOAD_BALANCER_NOT_FOUND, False, True),
        (conditions.READY, Reason.RECONCILED, True, False),
        (conditions.READY, Reason.DRIVER_RUNNING, False, False),
        (conditions.REMOVALS_HELD, Reason.TOO_MANY_UNREADY, True, True),
        (conditions.REMOVALS_HELD, Reason.KEPT_BY_DRIVER, True, False),
        (conditions.REMOVALS_HELD, Reason.NOT_HELD, False, False),
    ],
)
def test_conditions_of_groups(
    kind: str, reason: Reason, *, status: bool, is_wrong: bool
) -> None:
    """A guard that only does its work is not wrong, nor a judge that is at it."""
    written = GroupStatus(
        observed_generation=1, conditions=a_no(kind, reason, status=status)
    )
    found = status_of(attrs.evolve(a_group(version=2), status=written))

    assert ([("bg/web", reason)] if is_wrong else []) == problems_in(found)


def test_group_that_has_a_record_selects_something() -> None:
    """Its status says otherwise for some seconds: it is not written at each change."""
    said = a_no(conditions.SERVING, Reason.NOTHING_SELECTED)
    written = GroupStatus(observed_generation=1, conditions=said)
    idle = attrs.evolve(a_group(version=2), status=written)

    assert [("bg/web", "NothingSelected")] == problems_in(status_of(idle))
    record = attrs.evolve(a_record(registered=True), group=a_key("web"))
    assert [] == problems_in(status_of(idle, record))


@pytest.mark.parametrize(
    ("kind", "reason", "status", "is_wrong"),
    [
        (conditions.CREATED, Reason.DRIVER_REFUSED, False, True),
        (conditions.CREATED, Reason.DRIVER_RUNNING, False, False),
        (conditions.CREATED, Reason.IN_USE, False, False),
        (conditions.CREATED, Reason.DRIVER_REFUSED, None, True),
        (conditions.CREATED, Reason.CREATING, None, False),
        (conditions.CREATED, Reason.CREATION_UNCLEAR, None, False),
        (conditions.CREATED, Reason.CREATED, True, False),
        (conditions.CREATED, Reason.DRIVER_TIMED_OUT, True, True),
        (conditions.DRIFTED, Reason.MEMBERS_MISSING, True, True),
        (conditions.DRIFTED, Reason.IN_STEP, False, False),
        (conditions.ORPHANED, Reason.MEMBERS_ORPHANED, True, True),
        (conditions.ORPHANED, Reason.NO_ORPHANS, False, False),
        (conditions.REACHABLE, Reason.DRIVER_REFUSED, False, True),
        (conditions.REACHABLE, Reason.EPOCH_CHANGING, False, True),
        (conditions.REACHABLE, Reason.REACHABLE, True, False),
        (conditions.REACHABLE, Reason.NOT_LISTED, None, False),
    ],
)
def test_conditions_of_load_balancers(
    kind: str, reason: Reason, *, status: bool | None, is_wrong: bool
) -> None:
    """To wait for a busy driver, or for records to end, is in order.

    Created is Unknown from the first call on, and True while the end is tried.
    """
    told = a_no(kind, reason, status=status)
    balancer = attrs.evolve(a_load_balancer(), conditions=told)
    newer = attrs.evolve(balancer, meta=a_meta("front", version=2))

    assert ([("lb/front", reason)] if is_wrong else []) == problems_in(status_of(newer))


@pytest.mark.parametrize(
    ("status", "reason", "ago", "is_told"),
    [
        (True, Reason.MEMBERS_PUT_BACK, timedelta(minutes=59), True),
        (True, Reason.MEMBERS_PUT_BACK, timedelta(hours=1), False),
        (False, Reason.LOAD_BALANCER_RESET, timedelta(hours=1), True),
    ],
)
def test_load_balancer_that_lost_its_members_is_told_for_an_hour(
    reason: Reason, ago: timedelta, *, status: bool, is_told: bool
) -> None:
    """Beside what is wrong, since nobody has to mend it."""
    told = (Condition(conditions.RESTORED, status, reason, "3 of 3", 1, NOW - ago),)
    balancer = attrs.evolve(a_load_balancer(), conditions=told)
    found = status_of(attrs.evolve(balancer, meta=a_meta("front", version=2)))

    assert [] == problems_in(found)
    assert ([("lb/front", reason)] if is_told else []) == [
        (one.subject, one.reason) for one in found.lately
    ]
    shown = text_of(found)
    assert shown.startswith("nothing is wrong\n")
    assert is_told == ("\nLATELY (1)\n  lb/front" in shown)
    assert is_told == ("to do: does it restart" in shown)


def test_drains_that_were_cut_are_told_for_an_hour() -> None:
    """By their group, which remembers them for a day, with the connections that were left."""
    hour = timedelta(hours=1)
    two = attrs.evolve(CUT, backend="web-2:80", connections=4)
    unknown = attrs.evolve(two, backend="web-3:80", connections=None)
    old = attrs.evolve(CUT, backend="web-4:80", time=NOW - hour)
    drained = attrs.evolve(CUT, backend="web-5:80", outcome=Outcome.DRAINED)
    group = remembering(CUT, two, unknown, old, drained)
    found = status_of(attrs.evolve(group, meta=a_meta("web", version=2)))
    shown = text_of(found)

    assert [] == problems_in(found)
    assert [("bg/web", "DrainsCut", CUT.time)] == [
        (one.subject, one.reason, one.since) for one in found.lately
    ]
    assert shown.startswith("nothing is wrong\nLATELY (1)\n  bg/web  DrainsCut  20s\n")
    cut = "3 drains were cut at the deadline, with 7 connections by the last count"
    names = "web-1:80 at front, web-2:80 at front, web-3:80 at front"
    assert f"      {cut}: {names}\n" in shown
    assert "to do: if clients minded: a longer drain.timeoutSeconds" in shown


def test_drain_that_was_cut_long_ago_is_no_news() -> None:
    """An hour is as long as Events are kept."""
    old = attrs.evolve(CUT, time=NOW - timedelta(hours=1), connections=None)
    young = attrs.evolve(old, time=NOW - timedelta(minutes=59))
    for one, lately in ((old, []), (young, ["1 drain was cut at the deadline: "])):
        group = attrs.evolve(remembering(one), meta=a_meta("web", version=2))
        told = [
            p.message.removesuffix("web-1:80 at front") for p in status_of(group).lately
        ]

        assert lately == told


def test_unhealthy_driver_is_wrong() -> None:
    """Its condition is told in its words."""
    driver = attrs.evolve(
        a_driver(version=2), conditions=a_no(conditions.HEALTHY, Reason.UNHEALTHY)
    )

    assert [("driver/proxy", "Unhealthy")] == problems_in(status_of(driver))


def test_records_that_say_the_same_are_told_once() -> None:
    """They are counted by load balancer; drains that go on are no trouble."""
    refused = a_status(conditions.REGISTERED, Reason.DRIVER_REFUSED)
    draining = a_status(conditions.DRAINED, Reason.DRAINING)
    found = status_of(
        a_record("a", status=refused),
        a_record("b", status=refused),
        a_record("c", status=refused, spec=a_spec(load_balancer="back")),
        a_record("d", status=draining, deleting=True),
    )

    assert [("br/a", 2), ("br/c", 1)] == [
        (problem.subject, problem.count) for problem in found.problems
    ]
    assert "br/a and 1 more  DriverRefused  1m\n      because\n" in text_of(found)


def test_what_cannot_be_understood_is_wrong() -> None:
    """Nothing is decided from it."""
    reading = a_reading()
    obscure(reading.view.records, a_key("odd"))

    assert [("br/odd", "Unreadable")] == problems_in(
        status_report(reading, (LED, REMOVING), NOW)
    )


def test_other_namespaces_and_what_they_share_are_left_out() -> None:
    """Of kube-system only what the namespace uses is listed."""
    shared = a_load_balancer("lbcf-used", namespace="kube-system")
    unused = a_load_balancer("lbcf-other", namespace="kube-system")
    group = a_group(load_balancers=("lbcf-used",))
    reading = bare_reading(group, shared, unused)

    names = [row.name for row in status_report(reading, (), NOW).load_balancers]
    assert ["lb/lbcf-used"] == names


def test_what_may_not_be_read_is_said_below() -> None:
    """What is shared counts only where something refers to it."""
    reading = a_reading()
    reading.missing_rights["pods", "shop"] = MissingRight("list", "pods", "shop")
    reading.missing_rights["loadbalancers", "kube-system"] = MissingRight(
        "list", "loadbalancers.lbcf.tkestack.io", "kube-system"
    )
    told = text_of(status_report(reading, (), NOW))

    assert told.endswith("\n\nnot read: may not list pods in namespace shop\n")


def test_hidden_load_balancer_is_unread_and_not_wrong() -> None:
    """Its namespace is none of the caller's."""
    reading = bare_reading(a_group(load_balancers=("lbcf-far",)))
    gap = MissingRight("list", "loadbalancers.lbcf.tkestack.io", "kube-system")
    reading.missing_rights["loadbalancers", "kube-system"] = gap
    reading.mark_forbidden()
    found = status_report(reading, (LED, REMOVING), NOW)

    assert ([], (str(gap),)) == (problems_in(found), found.unread)
    far = ObjectKey("kube-system", "lbcf-far")
    assert far in reading.view.load_balancers.unreadable
