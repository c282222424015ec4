"""A Bind in the words of groups and load balancers, and the statuses of the latter."""

from collections.abc import Mapping
from datetime import timedelta

import attrs
import pytest

from lbcf.core.lifecycle import bind_status, load_balancer
from lbcf.core.lifecycle.bind_status import observe_entry, with_outcome
from lbcf.core.lifecycle.call_backoff import UnconfirmedCreates
from lbcf.core.lifecycle.load_balancer import LoadBalancerState
from lbcf.core.lifecycle.load_balancer_steps import (
    Begun,
    Blocked,
    CallFailed,
    CallForLoadBalancer,
    Counted,
    Created,
    CreationUnclear,
    Ensured,
    InUse,
    ListRecords,
    Locked,
    Outcome,
)
from lbcf.core.lifecycle.steps import CallFailure, CallRefused, NoAnswer, StillRunning
from lbcf.core.model import conditions, names
from lbcf.core.model.binds import (
    Bind,
    Entry,
    EntryStatus,
    as_group,
    as_load_balancer,
    as_load_balancers,
    recorded,
)
from lbcf.core.model.names import bind_group_key, bind_of, own_name
from lbcf.core.model.operations import Operation
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.desired import desired_records, judge_all
from tests.builders import (
    START,
    a_driver,
    a_group,
    a_key,
    a_meta,
    a_pod,
    a_snapshot,
    at,
)


SPEC = {"id": "lb-1"}
TIMEOUT = {"timeout": "30"}
FRONT = Entry("front", "proxy", SPEC, TIMEOUT)
DRIVER = attrs.evolve(
    a_driver(), meta=attrs.evolve(a_driver().meta, finalizers=(names.FINALIZER_DRIVER,))
)
WHY = Explanation(Reason.DRIVER_REFUSED, "its words")
CREATE, ENSURE, DELETE, VALIDATE = (
    Operation.CREATE_LOAD_BALANCER,
    Operation.ENSURE_LOAD_BALANCER,
    Operation.DELETE_LOAD_BALANCER,
    Operation.VALIDATE_LOAD_BALANCER,
)
FRESH = EntryStatus("front", "proxy", spec=SPEC)
BEGUN = with_outcome(FRESH, Begun(), START)
CREATED = with_outcome(FRESH, Created({"arn": "7"}, "key:1"), START)
READY = with_outcome(CREATED, Ensured(TIMEOUT), START)


def failed(
    status: EntryStatus,
    operation: Operation,
    trouble: CallFailure,
    *,
    pause: timedelta = timedelta(0),
) -> EntryStatus:
    """Put an answer that is no success into a status."""
    outcome = CallFailed(operation, trouble, WHY, pause)
    return with_outcome(status, outcome, START, generation=3)


REFUSED = failed(BEGUN, CREATE, CallRefused("quota"))


def asked_next(bind: Bind, status: EntryStatus, *, users: int = 0) -> Operation | None:
    """Say what the driver is asked next, None: nothing; one that is let go at once counts so."""
    observed = observe_entry(bind, status, DRIVER, now=START).with_records(users, ())
    life = LoadBalancerState(creates=UnconfirmedCreates(0.0)).begin_turn(
        observed, at(0)
    )
    step = load_balancer.next_step(life, at(0))
    if isinstance(step, ListRecords):
        life = load_balancer.learn(life, step, observed, at(0))
        step = load_balancer.next_step(life, at(0))
    return step.operation if isinstance(step, CallForLoadBalancer) else None


def a_bind(
    *statuses: EntryStatus,
    entries: tuple[Entry, ...] = (FRONT,),
    deleting: bool = False,
) -> Bind:
    """Make a Bind of the everyday pods."""
    meta = a_meta("shop", deleting=deleting)
    group = a_group()
    inner = attrs.evolve(meta, key=bind_group_key(meta.key))
    return Bind(meta, attrs.evolve(group, meta=inner), entries, statuses)


def told_by(status: EntryStatus, kind: str) -> tuple[bool | None, str]:
    """Say status and reason of a condition."""
    found = conditions.find(status.conditions, kind)
    assert found is not None
    return found.status, found.reason


def test_keys_are_those_of_no_object() -> None:
    """A Bind and a group of one name, and their load balancers, are told apart."""
    bind = a_key("shop")
    [balancer] = as_load_balancers(a_bind(READY))

    assert "bind/shop" == bind_group_key(bind).name
    assert ObjectKey(bind.namespace, "bind/shop/front") == balancer.meta.key
    assert bind == bind_of(balancer.meta.key) == bind_of(bind_group_key(bind))
    assert None is bind_of(bind)
    assert "front" == own_name(balancer.meta.key)
    assert "shop" == own_name(bind)


def test_entry_is_a_load_balancer() -> None:
    """Created or not, with the attributes that its driver last took."""
    [fresh] = as_load_balancers(a_bind())
    [ready] = as_load_balancers(
        a_bind(READY, entries=(attrs.evolve(FRONT, attributes={"timeout": "60"}),))
    )

    assert (None, SPEC, TIMEOUT) == (fresh.info, fresh.spec, fresh.attributes)
    assert ({"arn": "7"}, TIMEOUT) == (ready.info, ready.attributes)
    assert "uid-shop-front" == ready.meta.uid
    assert None is ready.meta.deleting_since


def test_load_balancer_has_all_that_its_status_says() -> None:
    """Since when it leaves, its epoch, lock keys and conditions."""
    status = attrs.evolve(READY, leaving_since=START, epoch="e", lock_keys=("k",))

    [balancer] = as_load_balancers(a_bind(status))

    assert START == balancer.meta.deleting_since
    assert ("e", ("k",)) == (balancer.epoch, balancer.lock_keys)
    assert status.conditions
    assert status.conditions == balancer.conditions


def test_entry_of_lbcf_is_what_its_spec_says() -> None:
    """LBCF in Go wrote no spec into the status."""
    [balancer] = as_load_balancers(a_bind(attrs.evolve(READY, spec=None)))

    assert SPEC == balancer.spec


@pytest.mark.parametrize(
    ("entries", "deleting"),
    [
        ((), False),
        ((FRONT,), True),
        ((attrs.evolve(FRONT, driver="other"),), False),
        ((attrs.evolve(FRONT, spec={"id": "lb-2"}),), False),
    ],
    ids=["taken out", "Bind deleted", "another driver", "another spec"],
)
def test_leaving_entry_is_a_load_balancer_that_is_being_deleted(
    entries: tuple[Entry, ...], *, deleting: bool
) -> None:
    """Its records go, and nothing new comes; the mark is written, once."""
    bind = a_bind(READY, entries=entries, deleting=deleting)

    [balancer] = as_load_balancers(bind)
    [status] = recorded(bind, START)

    assert balancer.meta.deleting_since
    assert () == as_group(bind).load_balancers
    assert None is as_group(bind).meta.deleting_since
    assert START == status.leaving_since
    later = attrs.evolve(bind, statuses=(status,))
    assert (status,) == recorded(later, START + timedelta(1))


def test_entry_put_back_while_leaving_waits_for_its_own_end() -> None:
    """The old one goes first; then the new one is created from nothing."""
    leaving = attrs.evolve(READY, leaving_since=START)

    assert DELETE is asked_next(a_bind(leaving), leaving)
    [begun] = recorded(a_bind(), START)
    assert VALIDATE is asked_next(a_bind(begun), begun)


def test_new_entry_is_written_down_before_its_driver_is_asked() -> None:
    """So that a load balancer that was created can be found again."""
    [status] = recorded(a_bind(), START)

    assert (False, "Creating") == told_by(status, conditions.CREATED)
    assert [START] == [condition.since for condition in status.conditions]
    assert SPEC == status.spec
    assert () == recorded(a_bind(deleting=True), START)


@pytest.mark.parametrize(
    ("status", "asked"),
    [
        (FRESH, VALIDATE),
        (BEGUN, CREATE),
        (CREATED, ENSURE),
        (READY, None),
        (attrs.evolve(READY, synced={"timeout": "60"}), VALIDATE),
        (attrs.evolve(READY, synced=None), ENSURE),
        (attrs.evolve(READY, leaving_since=START), DELETE),
        (attrs.evolve(FRESH, leaving_since=START), None),
        (attrs.evolve(BEGUN, leaving_since=START), DELETE),
        (attrs.evolve(REFUSED, leaving_since=START), DELETE),
        (attrs.evolve(FRESH, spec=None, leaving_since=START), DELETE),
    ],
)
def test_what_is_asked_next(status: EntryStatus, asked: Operation | None) -> None:
    """Create, ensure after a change, delete what was created, or may have been.

    Of what LBCF in Go left, without a spec in its status, nobody knows.
    """
    assert asked is asked_next(a_bind(status), status)


def test_leaving_entry_waits_for_its_records() -> None:
    """Deleted while they live, a load balancer would take their traffic along."""
    leaving = attrs.evolve(READY, leaving_since=START)

    assert None is asked_next(a_bind(leaving), leaving, users=1)
    told = with_outcome(leaving, InUse(1), START)
    assert (False, "InUse") == told_by(told, conditions.READY)


def test_status_of_lbcf_without_attributes_is_as_it_should_be() -> None:
    """Go leaves out a map that is empty: that is no change."""
    plain = attrs.evolve(FRONT, attributes={})
    status = attrs.evolve(READY, spec=None, synced=None)
    bind = a_bind(status, entries=(plain,))

    assert None is asked_next(bind, status)
    assert (status,) == recorded(bind, START)


@pytest.mark.parametrize(
    ("operation", "trouble", "kind", "reason"),
    [
        (CREATE, StillRunning(), "Created", "Creating"),
        (CREATE, CallRefused("quota"), "Created", "CreateFailed"),
        (ENSURE, StillRunning(), "Ready", "Ensuring"),
        (ENSURE, CallRefused("quota"), "Ready", "EnsureFailed"),
        (DELETE, StillRunning(), "Ready", "Deleting"),
        (DELETE, CallRefused("busy"), "Ready", "DeleteFailed"),
        (
            CREATE,
            NoAnswer(Reason.DRIVER_TIMED_OUT, "", may_land=True),
            "Created",
            "WebhookError",
        ),
        (
            ENSURE,
            NoAnswer(Reason.DRIVER_BAD_ANSWER, "", may_land=True),
            "Ready",
            "InvalidResponse",
        ),
    ],
)
def test_trouble_has_the_reasons_of_lbcf(
    operation: Operation, trouble: CallFailure, kind: str, reason: str
) -> None:
    """And says when the driver is asked again."""
    before = FRESH if operation is CREATE else READY
    status = failed(before, operation, trouble, pause=timedelta(seconds=10))

    assert (False, reason) == told_by(status, kind)
    assert timedelta(seconds=10) == bind_status.rest_of(status, START)
    assert timedelta(0) == bind_status.rest_of(status, START + timedelta(seconds=11))
    done = with_outcome(status, Ensured(TIMEOUT), START)
    assert timedelta(0) == bind_status.rest_of(done, START)


def test_nobody_knows_whether_what_was_begun_exists() -> None:
    """Whatever is told with it, until it is created."""
    absent = with_outcome(
        BEGUN, Blocked(CREATE, Explanation(Reason.DRIVER_NOT_FOUND, "create it")), START
    )

    assert [None, None] == [
        told_by(found, conditions.CREATED)[0] for found in (BEGUN, absent)
    ]
    created = with_outcome(absent, Created({}, "key:1"), START)
    assert (True, "Created") == told_by(created, conditions.CREATED)


@pytest.mark.parametrize(
    ("away", "rest"),
    [
        pytest.param(timedelta(hours=1), timedelta(hours=1), id="as a driver may wish"),
        pytest.param(timedelta(days=365), timedelta(0), id="of a clock far ahead"),
    ],
)
def test_rest_is_no_longer_than_a_driver_may_wish(
    away: timedelta, rest: timedelta
) -> None:
    """A clock that was a year ahead does not keep a driver from being asked for one."""
    status = attrs.evolve(CREATED, retry_after=START + away)

    assert rest == bind_status.rest_of(status, START)


@pytest.mark.parametrize("trouble", [StillRunning("soon"), CallRefused("quota")])
def test_driver_that_has_answered_says_that_it_is_not_created(
    trouble: CallFailure,
) -> None:
    """As LBCF in Go shows it; and yet it may have begun, and is deleted in the end."""
    status = failed(BEGUN, CREATE, trouble)
    found = conditions.find(status.conditions, conditions.CREATED)

    assert found is not None
    assert (False, "its words") == (found.status, found.message)
    assert status.may_exist
    leaving = attrs.evolve(status, leaving_since=START)
    assert DELETE is asked_next(a_bind(leaving), leaving)


def test_driver_that_objected_was_not_asked_to_create() -> None:
    """There is nothing to delete."""
    status = failed(FRESH, CREATE, CallRefused("not that"))

    assert not status.may_exist


def test_what_has_no_place_in_a_status_changes_nothing() -> None:
    """Members of a Bind's load balancer are not counted; its key is as of others."""
    assert READY == with_outcome(READY, Counted(3), START)
    locked = with_outcome(READY, Locked("key:shared"), START)
    assert ("key:shared", "key:1") == locked.lock_keys


def test_changes_are_put_into_what_is_there_now() -> None:
    """What else was written meanwhile stays; who is gone is left out."""
    other = EntryStatus("back", "proxy")
    changes: Mapping[str, bind_status.Change] = {
        "front": bind_status.without_entry,
        "back": lambda status: bind_status.with_news(
            status, news=(), epoch="e-1", now=START
        ),
    }

    assert (attrs.evolve(other, epoch="e-1"),) == bind_status.changed(
        (READY, other), changes
    )


def test_records_are_named_and_labelled_for_the_bind() -> None:
    """Readable in front; the labels are LBCF's of v1."""
    bind = a_bind(READY)
    snapshot = attrs.evolve(
        a_snapshot(
            a_pod(),
            group=as_group(bind),
            load_balancers=(as_load_balancer(bind, READY),),
        )
    )

    [record] = desired_records(snapshot, judge_all(snapshot))

    assert "front" == record.spec.load_balancer
    assert {"arn": "7"} == record.spec.lb_info
    assert TIMEOUT == record.spec.lb_attributes
    assert record.name().startswith("shop-web-1-8080-")
    assert {
        "lbcf.tkestack.io/bind": "shop",
        "lbcf.tkestack.io/lb": "front",
        "lbcf.tkestack.io/driver": "proxy",
        "lbcf.tkestack.io/pod": "web-1",
        "lbcf.tkestack.io/backend-pod-uid": "uid-web-1",
    } == record.labels()


@pytest.mark.parametrize(
    ("status", "kind", "standing"),
    [
        pytest.param(FRESH, conditions.CREATED, False, id="never asked for"),
        pytest.param(BEGUN, conditions.CREATED, None, id="may be there"),
        pytest.param(CREATED, conditions.READY, False, id="there"),
    ],
)
def test_obstacle_is_told_of_what_comes_next(
    status: EntryStatus, kind: str, *, standing: bool | None
) -> None:
    """Of its creation until it is created, then of its attributes."""
    status = attrs.evolve(status, conditions=status.conditions[:1])
    told = with_outcome(status, Blocked(Operation.VALIDATE_LOAD_BALANCER, WHY), START)

    assert (standing, WHY.reason) == told_by(told, kind)


@pytest.mark.parametrize("outcome", [Created({"arn": "8"}, "key:1"), Ensured({})])
def test_success_ends_the_pause(outcome: Created | Ensured) -> None:
    """Its driver may be asked again."""
    told = with_outcome(attrs.evolve(READY, retry_after=START), outcome, START)

    assert None is told.retry_after


def test_load_balancer_is_locked_under_each_key_that_it_ever_had() -> None:
    """Its records hold their locks under the older ones, too."""
    told = with_outcome(READY, Created({"arn": "8"}, "key:a"), START)

    assert ("key:a", "key:1") == told.lock_keys


@pytest.mark.parametrize("outcome", [Created({"arn": "8"}, "key:a"), Locked("key:a")])
def test_load_balancer_is_locked_under_the_keys_of_all_that_are_the_same(
    outcome: Outcome,
) -> None:
    """They come along in their order, below the one that it has from now on."""
    told = with_outcome(READY, outcome, START, shared=("key:3", "key:2"))

    assert ("key:a", "key:3", "key:2", "key:1") == told.lock_keys


@pytest.mark.parametrize(
    "outcome", [Begun(), InUse(1), CreationUnclear(), Blocked(CREATE, WHY)]
)
def test_what_is_waited_for_has_words(outcome: Outcome) -> None:
    """A condition without any helps nobody."""
    told = with_outcome(FRESH, outcome, START)

    assert all(one.message for one in told.conditions)
