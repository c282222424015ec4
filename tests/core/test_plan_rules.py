"""What holds of every plan, whatever the cluster looks like."""

import attrs

from hypothesis import given
from hypothesis import strategies as st

from lbcf.core.model.cluster import Snapshot
from lbcf.core.model.resources import BackendRecord
from lbcf.core.selection.desired import identity_of
from lbcf.core.selection.plan import Plan, hold_readiness_removals, plan_group
from tests.builders import a_record
from tests.strategies import POD_NAMES, is_about, restricted, snapshots


SCOPES = st.sets(st.sampled_from(POD_NAMES))


def result_of(plan: Plan, snapshot: Snapshot) -> Snapshot:
    """Write a plan, as the API server would be left by it."""
    ending = {r.record.meta.uid for r in plan.removals}
    changed = {u.record.meta.uid: u.spec for u in plan.updates}
    after: list[BackendRecord] = []
    for record in snapshot.records:
        meta, uid = record.meta, record.meta.uid
        if uid in ending:
            meta = a_record(meta.key.name, deleting=True).meta
        after.append(
            attrs.evolve(record, meta=meta, spec=changed.get(uid, record.spec))
        )
    for create in plan.creates:
        made = a_record(create.name, spec=create.desired.spec)
        after.append(made)
    return attrs.evolve(snapshot, records=tuple(after))


@given(snapshots())
def test_planning_on_the_result_of_a_plan_is_empty(snapshot: Snapshot) -> None:
    """A plan is made once; nothing swings to and fro."""
    after = result_of(plan_group(snapshot), snapshot)

    assert plan_group(after).is_empty


@given(snapshots())
def test_each_live_record_has_exactly_one_fate(snapshot: Snapshot) -> None:
    """Kept, updated, removed or held; those that drain have none."""
    plan = plan_group(snapshot)
    fated = [
        *(u.record for u in plan.updates),
        *(r.record for r in plan.removals),
        *(h.record for h in plan.holds),
    ]
    named = [record.meta.uid for record in fated]
    live = [r for r in snapshot.records if not r.is_deleting]

    assert len(live) == len(named) + plan.kept
    assert len(set(named)) == len(named)
    assert all(not record.is_deleting for record in fated)


@given(snapshots())
def test_no_plan_leaves_two_live_records_of_one_backend_it_wants(
    snapshot: Snapshot,
) -> None:
    """After a plan each desired identity has one record."""
    plan = plan_group(snapshot)
    wanted = {c.desired.identity for c in plan.creates}
    after = result_of(plan, snapshot)
    live = [identity_of(r) for r in after.records if not r.is_deleting]

    assert all(1 == live.count(identity) for identity in wanted)


@given(snapshots())
def test_name_of_a_new_record_is_free(snapshot: Snapshot) -> None:
    """Also beside those that were made by plans before and still drain."""
    made: set[str] = set()
    for _ in range(4):
        plan = plan_group(snapshot)
        names = {c.name for c in plan.creates}
        assert len(names) == len(plan.creates)
        assert not names & made
        made |= names
        after = result_of(plan, snapshot)
        ended = (
            attrs.evolve(r, meta=a_record(r.meta.key.name, deleting=True).meta)
            for r in after.records
        )
        snapshot = attrs.evolve(snapshot, records=tuple(ended))


@given(snapshots())
def test_doubt_writes_nothing(snapshot: Snapshot) -> None:
    """No record of an undecided load balancer is written in any way."""
    plan = plan_group(snapshot)
    touched = {c.desired.spec.load_balancer for c in plan.creates}
    touched |= {u.record.spec.load_balancer for u in plan.updates}
    touched |= {r.record.spec.load_balancer for r in plan.removals}

    assert not touched & snapshot.undecided.keys()


@given(snapshots(), SCOPES)
def test_scoped_plan_is_a_part_of_the_whole(
    snapshot: Snapshot, scope: set[str]
) -> None:
    """Looking at the changed pods alone decides about them as a look at all does."""
    whole = plan_group(snapshot)
    part = plan_group(restricted(snapshot, scope))

    assert part.creates == tuple(
        c for c in whole.creates if getattr(c.desired.spec.backend, "name", "") in scope
    )
    assert part.updates == tuple(u for u in whole.updates if is_about(u.record, scope))
    assert part.holds == tuple(h for h in whole.holds if is_about(h.record, scope))
    assert part.removals == tuple(
        r for r in whole.removals if is_about(r.record, scope)
    )


@given(snapshots())
def test_guard_moves_removals_and_changes_nothing_else(snapshot: Snapshot) -> None:
    """What it holds was to be removed by readiness; nothing gets lost."""
    plan = plan_group(snapshot)
    guarded = hold_readiness_removals(plan, snapshot.group.max_unready_percent)
    held = {h.record.meta.uid for h in guarded.holds}
    moved = [r for r in plan.removals if r.record.meta.uid in held]

    assert all(r.by_readiness for r in moved)
    assert len(plan.removals) + len(plan.holds) == len(guarded.removals) + len(
        guarded.holds
    )
    assert (plan.creates, plan.updates) == (guarded.creates, guarded.updates)
