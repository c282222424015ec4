"""`why driver/NAME`: whether it can be called, who uses it, and what keeps it."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import ANNOTATION_ABANDON, FINALIZER_DRIVER, LABEL_DRAINING
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver, Security
from lbcf.core.model.values import DeregisterPolicy, DeregisterWebhook, ObjectKey
from lbcf.core.reasons import ConditionReason, ForeignReason, Reason
from lbcf.ctl.drivers import CHECKS, why_driver
from lbcf.ctl.errors import MissingRight, ObjectNotFound
from lbcf.ctl.report import WhyReport
from lbcf.drivers import errors
from tests.builders import (
    NAMESPACE,
    START,
    a_driver,
    a_group,
    a_key,
    a_load_balancer,
    a_record,
    a_spec,
    seconds,
)
from tests.controller.views import obscure
from tests.ctl.readings import NOW, bare_reading, line_facts, text_of
from tests.ctl.test_records import a_status


ACCEPTED = Condition(conditions.ACCEPTED, True, Reason.ACCEPTED, "", 1, START)
USED = (a_load_balancer(), a_group(), a_record(registered=True))


def the_driver(
    *told: Condition, meta: Mapping[str, Any] | None = None, **more: Any
) -> LoadBalancerDriver:
    """Make a driver that lists healthz, of which these conditions have been written."""
    driver = a_driver()
    return attrs.evolve(
        driver,
        meta=attrs.evolve(driver.meta, **(meta or {})),
        conditions=told,
        timeouts={Operation.HEALTHZ.value: seconds(10)},
        **more,
    )


def a_refused_check(reason: ConditionReason, generation: int = 1) -> Condition:
    """Make what the controller writes of a driver that it does not call."""
    return Condition(conditions.ACCEPTED, False, reason, "because", generation, START)


def report_of(driver: LoadBalancerDriver, *things: Any) -> WhyReport:
    """Ask about a driver among these things."""
    return why_driver(bare_reading(driver, *things), driver.meta.key, NOW)


def test_driver_that_is_well_is_answered_in_a_line() -> None:
    """All checks are passed, its health is in its own words, its users are named."""
    well = Condition(conditions.HEALTHY, True, Reason.HEALTHY, "2 of 2 up", 1, START)
    report = report_of(the_driver(ACCEPTED, well), *USED)

    assert "can be called, and nothing is wrong with it" == report.headline
    assert [("ok", "URL", ""), ("ok", "place", "")] == line_facts(report)[:2]
    shown = text_of(report)
    assert "  ok    Healthy True    2 of 2 up (for 1m)\n" in shown
    assert "  -     load balancers  lb/front\n" in shown
    assert "  -     groups          bg/web\n" in shown
    assert (
        "  -     records         1 registered, 0 not yet, 0 on their way out\n" in shown
    )


@pytest.mark.parametrize(
    ("reason", "check"),
    [
        (Reason.URL_UNUSABLE, "URL"),
        (errors.NotAllowed.reason, "place"),
        (errors.SecretMissing.reason, "Secrets"),
        (errors.SecretUnread.reason, "Secrets"),
        (errors.CaUnusable.reason, "authorities"),
        (errors.SecretUnusable.reason, "credentials"),
    ],
)
def test_check_that_was_not_passed_is_named(reason: Reason, check: str) -> None:
    """Those before it were passed, those after it were not asked."""
    report = report_of(the_driver(a_refused_check(reason)))
    lines = [line for line in line_facts(report) if line[1] in CHECKS]
    at = list(CHECKS).index(check)

    assert "because" == report.headline
    assert ("NO", check, reason) == lines[at]
    assert "NO" not in {mark for mark, _, _ in lines[:at]}
    assert {"-"} >= {mark for mark, _, _ in lines[at + 1 :]}


def test_refusal_for_another_reason_is_told_as_it_is() -> None:
    """Whatever a later controller may write."""
    lines = line_facts(report_of(the_driver(a_refused_check(ForeignReason("Odd")))))

    assert ("NO", "Accepted False", "Odd") in lines


def test_driver_that_nobody_has_looked_at_has_no_verdict() -> None:
    """Neither a new one, nor one that has changed since."""
    changed = the_driver(attrs.evolve(ACCEPTED, observed_generation=0))

    assert ("wait", "URL", "") in line_facts(report_of(the_driver()))
    assert ("wait", "its spec", "") in line_facts(report_of(changed))


def test_secrets_are_named_and_never_shown() -> None:
    """One that names none needs none."""
    secured = the_driver(ACCEPTED, security=Security(client_certificate="my-tls"))

    assert "  ok    Secrets         my-tls: read\n" in text_of(report_of(secured))
    assert ("-", "Secrets", "") in line_facts(report_of(the_driver(ACCEPTED)))


def test_unhealthy_driver_is_what_is_wrong() -> None:
    """In its own words; one that is not asked says nothing."""
    sick = Condition(conditions.HEALTHY, False, Reason.UNHEALTHY, "disk full", 1, START)
    silent = attrs.evolve(the_driver(ACCEPTED), timeouts={})

    refused_record = a_record(
        status=a_status(conditions.REGISTERED, Reason.DRIVER_REFUSED)
    )
    report = report_of(the_driver(ACCEPTED, sick), refused_record)

    assert "disk full (for 1m)" == report.headline
    assert ("-", "healthz", "") in line_facts(report_of(silent))
    assert ("wait", "healthz", "") in line_facts(report_of(the_driver(ACCEPTED)))


def test_what_it_last_refused_is_told() -> None:
    """Records that say the same are counted; when it is asked again is in the line."""
    status = a_status(
        conditions.REGISTERED, Reason.DRIVER_REFUSED, next_attempt=NOW + seconds(5)
    )
    well = Condition(conditions.HEALTHY, True, Reason.HEALTHY, "", 1, START)
    records = (a_record(name, status=status) for name in ("a", "b"))
    report = report_of(the_driver(ACCEPTED, well), a_load_balancer(), *records)

    assert "can be called; in trouble: because" == report.headline
    assert ("NO", "br/a and 1 more", "DriverRefused") in line_facts(report)
    assert "because (for 1m); tried again in 5s\n" in text_of(report)


def test_load_balancers_in_trouble_are_told_first_and_not_all() -> None:
    """Ten lines are enough to know."""
    told = (Condition(conditions.CREATED, False, Reason.DRIVER_REFUSED, "quota", 1),)
    balancers = [
        attrs.evolve(a_load_balancer(f"lb-{n:02}"), conditions=told) for n in range(12)
    ]
    record = a_record(status=a_status(conditions.REGISTERED, Reason.DRIVER_REFUSED))
    report = report_of(the_driver(ACCEPTED), *balancers, record)

    lines = [line for line in line_facts(report) if line[0] == "NO"]
    assert [("NO", f"lb/lb-{n:02}", "DriverRefused") for n in range(10)] == lines
    shown = text_of(report)
    assert "DriverRefused: quota\n" in shown
    assert "not shown       3 more\n" in shown


def test_authorities_are_those_that_it_names() -> None:
    """Or the system's; plain http asks for none."""
    named = Security(ca_bundle=b"x")
    secure = the_driver(ACCEPTED, url="https://driver.test")

    assert "authorities     those of spec.tls.caBundle\n" in text_of(
        report_of(the_driver(ACCEPTED, security=named))
    )
    assert ("ok", "authorities", "") in line_facts(report_of(secure))
    assert ("-", "authorities", "") in line_facts(report_of(the_driver(ACCEPTED)))


def test_draining_driver_takes_nothing_new_and_can_be_deleted() -> None:
    """The label is what a deletion needs."""
    draining = the_driver(ACCEPTED, meta={"labels": {LABEL_DRAINING: "true"}})

    assert ("wait", "draining?", "") in line_facts(report_of(draining))
    assert ("ok", "label", "") in line_facts(report_of(draining))
    assert ("wait", "label", "") in line_facts(report_of(the_driver(ACCEPTED)))


def test_deletion_waits_for_whoever_needs_it() -> None:
    """In the words that the controller writes; judges are needed by groups, too."""
    gone = {"deleting_since": START, "finalizers": (FINALIZER_DRIVER,)}
    judged = a_group(
        policy=DeregisterPolicy.WEBHOOK, webhook=DeregisterWebhook("proxy")
    )
    ending = the_driver(ACCEPTED, meta=gone)

    told = "LoadBalancer shop/front; BackendGroup shop/web"
    assert f"being deleted; waits for {told}" == (
        report_of(ending, a_load_balancer(), judged).headline
    )
    assert ("wait", "being deleted", "") in line_facts(report_of(ending))
    assert "being deleted; waits for the controller" == report_of(ending).headline
    assert ("ok", "needed by", "") in line_facts(report_of(ending))
    alone = report_of(ending, judged)
    assert "groups          bg/web\n" in text_of(alone)
    assert ("ok", "needed by", "") not in line_facts(alone)


def test_deleted_driver_tells_who_else_holds_it_and_why_it_was_abandoned() -> None:
    """A finalizer of somebody else's is not ours to take off."""
    meta = {
        "deleting_since": START,
        "finalizers": (FINALIZER_DRIVER, "example.com/x"),
        "annotations": {ANNOTATION_ABANDON: "burnt down"},
    }
    report = report_of(the_driver(ACCEPTED, meta=meta))

    assert report.headline.endswith("whoever holds the finalizer example.com/x")
    assert "  wait  abandoned       burnt down\n" in text_of(report)


def test_what_cannot_be_read_may_need_it() -> None:
    """It is no proof that nobody does."""
    reading = bare_reading(the_driver(ACCEPTED))
    obscure(reading.view.records, a_key("odd"))
    reading.missing_rights["backendgroups", NAMESPACE] = MissingRight(
        "list", "backendgroups", NAMESPACE
    )
    shown = text_of(why_driver(reading, a_key("proxy"), NOW))

    assert "needed by       unreadable BackendRecord shop/odd\n" in shown
    assert "NotRead: we may not list backendgroups in namespace shop\n" in shown


def test_shared_driver_is_used_from_other_namespaces() -> None:
    """Which are named beside their objects."""
    key = ObjectKey("kube-system", "lbcf-x")
    driver = a_driver("lbcf-x", namespace=key.namespace)
    spec = attrs.evolve(a_spec(), driver="lbcf-x")
    record = a_record(spec=spec)
    balancer = a_load_balancer(driver="lbcf-x")
    reading = bare_reading(driver, balancer, a_group(), record, namespace=None)
    shown = text_of(why_driver(reading, key, NOW))

    assert "load balancers  lb/front in shop\n" in shown
    assert "groups          bg/web in shop\n" in shown
    assert "0 registered, 1 not yet, 0 on their way out\n" in shown


def test_there_is_no_such_driver() -> None:
    """Or it cannot be understood, or read."""
    reading = bare_reading()
    hidden = bare_reading()
    hidden.missing_rights["loadbalancerdrivers", NAMESPACE] = MissingRight(
        "list", "drivers", NAMESPACE
    )
    with pytest.raises(
        ObjectNotFound, match="driver/x: may not list drivers in namespace shop"
    ):
        why_driver(hidden, a_key("x"), NOW)
    with pytest.raises(ObjectNotFound, match="there is no driver/x in namespace shop"):
        why_driver(reading, a_key("x"), NOW)
    obscure(reading.view.drivers, a_key("x"))
    with pytest.raises(
        ObjectNotFound, match=r"driver/x cannot be understood: spec\.lbName"
    ):
        why_driver(reading, a_key("x"), NOW)
