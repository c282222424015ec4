"""`plan`: each write, each hold, and why nothing is decided."""

from datetime import timedelta

import attrs

from lbcf.core.model.values import DeregisterPolicy, DeregisterWebhook
from lbcf.ctl.plan import plan_report
from lbcf.ctl.reading import Reading
from tests.builders import (
    a_backend,
    a_driver,
    a_group,
    a_key,
    a_load_balancer,
    a_pod,
    a_record,
    a_spec,
)
from tests.ctl.readings import NOW, a_reading, bare_reading, text_of


def changes_of(reading: Reading) -> list[tuple[str, str, str]]:
    """Plan the everyday group: what, backend, reason."""
    group = reading.view.groups.get(a_key("web"))
    assert group is not None
    changes = plan_report(reading, group, NOW).changes
    return [(one.what, one.backend, one.reason) for one in changes]


def test_plan_shows_each_write_and_each_hold() -> None:
    """In the order in which they are written."""
    old = a_record("old", spec=a_spec(backend=a_backend("gone")), registered=True)
    reading = bare_reading(
        *(a_driver(), a_load_balancer(), old),
        a_group(parameters={"weight": "2"}, max_unready_percent=0),
        *(a_pod(), a_pod("web-2"), a_pod("web-3", ready=False)),
        a_record(registered=True, spec=a_spec(drain_timeout=None)),
        a_record("held", spec=a_spec(backend=a_backend("web-3")), registered=True),
    )

    assert [
        ("delete", "gone:8080", "PodGone"),
        ("update", "web-1:8080", ""),
        ("create", "web-2:8080", ""),
        ("hold", "web-3:8080", "TooManyUnready"),
    ] == changes_of(reading)


def test_plan_with_nothing_to_do_says_so() -> None:
    """Numbers in front."""
    reading = a_reading()
    group = reading.view.groups.get(a_key("web"))
    assert group is not None

    assert "bg/web: 0 selected, 0 unready, 0 kept\nnothing would change\n" == text_of(
        plan_report(reading, group, NOW)
    )


def test_undecided_plan_says_why() -> None:
    """A load balancer that is missing holds its records."""
    reading = bare_reading(a_group(), a_pod(), a_record(registered=True))
    group = reading.view.groups.get(a_key("web"))
    assert group is not None
    told = text_of(plan_report(reading, group, NOW))

    assert "undecided: LoadBalancerNotFound: LoadBalancer shop/front" in told
    assert (
        "hold  web-1:8080  front  10.0.0.1:8080  web-1   LoadBalancerNotFound" in told
    )


def test_judge_is_told_of_only_where_there_is_something_to_judge() -> None:
    """A group of pods that are all ready is planned like any other."""
    judged = a_group(
        policy=DeregisterPolicy.WEBHOOK, webhook=DeregisterWebhook("proxy")
    )
    things = (a_driver(), a_load_balancer(), judged)
    ready = text_of(plan_report(bare_reading(*things), judged, NOW))
    unready = text_of(
        plan_report(bare_reading(*things, a_pod(ready=False)), judged, NOW)
    )

    assert "nothing would change\n" in ready
    assert "undecided" not in ready
    assert "undecided: driver proxy says what becomes of unready pods" in unready


def test_plan_shows_who_waits_for_a_replacement() -> None:
    """And who is made in its place."""
    old = a_pod("old", deleting=True)
    ends = NOW + timedelta(seconds=30)
    old = attrs.evolve(old, meta=attrs.evolve(old.meta, deleting_since=ends))
    record = a_record("old", spec=a_spec(backend=a_backend("old")), registered=True)

    changes = changes_of(a_reading(old, a_pod(), record))

    assert [
        ("create", "web-1:8080", ""),
        ("hold", "old:8080", "AwaitingReplacement"),
    ] == changes
