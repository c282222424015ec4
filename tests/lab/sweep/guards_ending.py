"""Guards of `lbcf.core.lifecycle.deregistration`, of load balancers and their resets."""

import time

from datetime import timedelta

from lbcf.controller import apply as apply_module
from lbcf.controller.member_resync import MemberResync
from lbcf.core.lifecycle import deregistration, listing, load_balancer, registration
from lbcf.core.model import resources
from lbcf.core.model.resources import BackendRecord
from lbcf.core.selection import location
from lbcf.deregistrar import orphans
from lbcf.executor.locks import AddressLocker
from lbcf.runtime import clock
from lbcf.wire import fields, records
from tests.lab.sweep.edits import Edit, Mutant, Value


_LIFE = ("life", "early", "patient", "register")
_PARAMETERS = ("parameters", "parameters-back", "parameters-and-end")
_LOCKED = ("reuse/backend", "reuse-early/backend", "two-waiters/backend")

_LATE = ("timeout-late", "reset-late", "5xx-late", "cancel-late")
_TAKEN = ("taken-at-once/backend", "taken-from-two/backend", "taken-slowly/backend")

ENDING: dict[str, Mutant] = {
    "orphans-with-records": Mutant(
        "no member is an orphan whose record exists",
        (Edit(orphans, "removable", " and m[1] not in present", ""),),
        ("confirmed-by-mistake",),
    ),
    "drains-the-gone": Mutant(
        "a drain ends when its backend does not exist any more",
        (
            Edit(
                deregistration, "_drain", "if record.status.backend_gone:", "if False:"
            ),
        ),
        ("gone-while-draining", "gone-at-once"),
    ),
    "gone-while-terminating": Mutant(
        "a pod that terminates is not gone",
        (
            Edit(
                location,
                "is_pod_gone",
                "or pod.has_finished",
                "or pod.is_terminating",
            ),
        ),
        ("gone-while-draining",),
    ),
    "quarantined-anyway": Mutant(
        "an address is free at once after an end of which every call had its answer",
        (
            Edit(
                deregistration,
                "_is_clean",
                'return record.status.deregistrar == state.incarnation != ""',
                "return False",
            ),
        ),
        ("blink", "taken-at-once"),
    ),
    "unanswered-is-clean": Mutant(
        "an address is free only when each call for its end had an answer, or is over",
        (
            Edit(
                deregistration,
                "_learn_answer",
                "state = attrs.evolve(state, late=_with_late_call(state.late, step, reply, now))",
                "pass",
            ),
        ),
        _TAKEN,
        modes=_LATE,
    ),
    "late-call-over-at-once": Mutant(
        "a call without an answer may take effect for Δ",
        (
            Edit(
                deregistration.LateCalls,
                "over_at",
                "self.since + max(self.settling, settling)",
                "self.since",
            ),
        ),
        _TAKEN,
        modes=_LATE,
    ),
    "unsigned-end": Mutant(
        "who is not the deregistrar that a record names says so before it calls",
        (
            Edit(
                deregistration,
                "_write_marker",
                "    if named in",
                "    if True or named in",
            ),
        ),
        ("taken-from-two/backend", "two-deregistrars/backend"),
        modes=(*_LATE, "crash-late"),
    ),
    "anothers-end-is-clean": Mutant(
        "only an end of one's own hand says that nobody else has called",
        (
            Edit(
                deregistration,
                "_is_clean",
                'return record.status.deregistrar == state.incarnation != ""',
                "return True",
            ),
        ),
        ("taken-from-two/backend", "taken-after-a-start/backend"),
        modes=(*_LATE, "crash-late"),
    ),
    "unconfirmed": Mutant(
        "a record that is not settled is deregistered once more",
        (Edit(deregistration, "is_final", "record.is_settled or", "True or"),),
        _LIFE,
        modes=("crash-late", "timeout-late", "reset-late", "5xx-late"),
    ),
    "confirmed-too-soon": Mutant(
        "and not before the last ensure is over",
        (
            Edit(
                deregistration,
                "_rest_to_confirm",
                "settling.total_seconds()",
                "driver.window(Operation.ENSURE_BACKEND).total_seconds()",
            ),
        ),
        _LIFE,
        modes=("crash-late", "timeout-late", "reset-late", "5xx-late"),
    ),
    "final-by-the-answer": Mutant(
        "whether a deregistration counts is decided when it is sent",
        (
            Edit(
                deregistration,
                "_learn_answer",
                "return _succeeded(state, step, now)",
                "return _succeeded(state, attrs.evolve(step, final=is_final("
                "state, step.permission.record, now)), now)",
            ),
        ),
        ("late-answer",),
        modes=("crash-late", "timeout-late", "reset-late", "5xx-late"),
    ),
    "unregistered-is-out": Mutant(
        "only a record without an address was never registered",
        (
            Edit(
                deregistration,
                "_never_registered",
                "None if record.address else",
                "None if record.is_registered else",
            ),
        ),
        ("early",),
    ),
    "abandoned-unasked": Mutant(
        "what goes without its driver is what a person has let go of",
        (
            Edit(
                deregistration,
                "_abandon",
                "why = record.meta.abandoned",
                'why = record.meta.abandoned or "it ends"',
            ),
        ),
        ("life", "abandoned"),
    ),
    "abandoned-for-no-reason": Mutant(
        "and has said why",
        (Edit(resources.Meta, "abandoned", ".strip()", ""),),
        ("abandoned",),
    ),
    "drain-in-memory": Mutant(
        "a drain's clock is the one that is written down",
        (
            Edit(
                deregistration,
                "drain_progress",
                "record.status.drain or state.drain",
                "state.drain",
            ),
            Edit(
                deregistration,
                "_time_left_by",
                "return min(deadline - now.wall, whole)",
                "return whole",
            ),
        ),
        ("drain-goes-on/record",),
    ),
    "drains-by-the-wall-clock": Mutant(
        "an incarnation counts its drains by the monotonic clock",
        (
            Edit(
                deregistration,
                "drain_time_left",
                "if state.drain_until is not None:",
                "if False:",
            ),
        ),
        ("drain-set-ahead", "drain-set-back"),
    ),
    "drains-longer-than-whole": Mutant(
        "what another clock has written leaves no more than one whole drain",
        (Edit(deregistration, "_time_left_by", "return min(", "return max("),),
        ("drain-begun-ahead", "drain-goes-on-behind"),
    ),
    "drain-before-its-deletion": Mutant(
        "no drain was over before its record's deletion",
        (
            Edit(
                deregistration,
                "_time_left_by",
                "max(written.deadline, (record.meta.deleting_since or now.wall) + whole)",
                "written.deadline",
            ),
        ),
        ("drain-begun-behind",),
    ),
    "drain-of-a-tenth": Mutant(
        "a drain is as long as its record says",
        (
            Edit(
                deregistration,
                "drain_time_left",
                "record.spec.drain.longest",
                "record.spec.drain.longest / 10",
            ),
        ),
        ("drain-in-vain/record", "drain/record"),
    ),
    "drain-times-ten": Mutant(
        "and not longer",
        (
            Edit(
                deregistration,
                "drain_time_left",
                "record.spec.drain.longest",
                "record.spec.drain.longest * 10",
            ),
        ),
        ("drain-in-vain/record",),
    ),
    "drain-of-three-seconds": Mutant(
        "whatever it says",
        (
            Edit(
                deregistration,
                "drain_time_left",
                "record.spec.drain.longest",
                "timedelta(seconds=3)",
            ),
        ),
        ("drain-in-vain/record", "drain/record"),
    ),
    "drained-whatever-is-left": Mutant(
        "only what was drained to the end is called drained",
        (
            Edit(
                deregistration,
                "_deregister",
                "drained=state.drained and _is_in_time(state, now),",
                "drained=True,",
            ),
        ),
        ("drain-in-vain/record",),
    ),
    "cut-after-an-empty-drain": Mutant(
        "sessions that return after a drain are spared until its deadline",
        (
            Edit(
                deregistration,
                "_deregister",
                "drained=state.drained and _is_in_time(state, now),",
                "drained=False,",
            ),
        ),
        ("sessions-return",),
    ),
    "spared-for-ever": Mutant(
        "and no longer",
        (
            Edit(
                deregistration,
                "_deregister",
                "drained=state.drained and _is_in_time(state, now),",
                "drained=state.drained,",
            ),
        ),
        ("sessions-stay",),
    ),
    "counted-from-the-decision": Mutant(
        "a drain begins when its first call is answered, not when it waits for its turn",
        (
            Edit(
                deregistration,
                "_learn_answer",
                "return _report_drain(state, step, reply, now)",
                "return attrs.evolve(_report_drain(state, step, reply, now), "
                "drain_until=state.drain_until or (now.monotonic + ("
                "(step.drain.deadline if step.drain else now.wall) - now.wall)"
                ".total_seconds()))",
            ),
        ),
        ("drain-in-turn",),
    ),
    "deadline-rounded-down": Mutant(
        "a deadline is written in the first whole second that is not before it",
        (
            Value(deregistration, "_ALMOST_A_SECOND", timedelta(0)),
            Value(records, "render_time_after", fields.render_time),
        ),
        ("short-drain", "drain"),
    ),
    "no-margin": Mutant(
        "to confirm waits for what clocks differ by, too",
        (Value(resources, "_SKEW_AND_TRUNCATION", timedelta(0)),),
        ("late-in-permission", "early"),
    ),
    "little-margin": Mutant(
        "all of it",
        (Value(resources, "_SKEW_AND_TRUNCATION", timedelta(seconds=1.5)),),
        ("late-in-permission", "early"),
    ),
    "waits-by-the-driver-of-now": Mutant(
        "to confirm waits for calls under the driver as it was, or will be seen to be",
        (
            Edit(
                deregistration,
                "_rest_to_confirm",
                "max(driver.settling(Operation.ENSURE_BACKEND), record.settling)",
                "driver.settling(Operation.ENSURE_BACKEND)",
            ),
        ),
        ("bounds-lowered", "bounds-raised-unseen"),
    ),
    "taken-over-by-the-driver-of-now": Mutant(
        "and so does whoever takes a lock over",
        (
            Edit(
                AddressLocker,
                "_judged",
                "max(step.takeover_after, said)",
                "step.takeover_after",
            ),
        ),
        ("bounds-lowered-at-the-end",),
    ),
    "longer-ends-unannounced": Mutant(
        "a call for an end that lives longer than the lock says is announced before",
        (
            Edit(
                deregistration,
                "_cover_end",
                "driver.end_settling <= covered",
                "True",
            ),
        ),
        ("bounds-raised-for-an-end", "bounds-raised-for-a-drain"),
    ),
    "longer-ends-unread": Mutant(
        "and that is read before the lock is taken over",
        (
            Edit(
                AddressLocker,
                "_judged",
                "longer.lease.duration if longer else 0",
                "0",
            ),
        ),
        ("bounds-raised-for-an-end", "bounds-raised-for-a-drain"),
    ),
    "settling-unwritten": Mutant(
        "a record says how long an ensure may take effect before it is sent",
        (
            Edit(
                registration,
                "_write_settling",
                "if settling > record.settling else None",
                "if False else None",
            ),
        ),
        ("bounds-raised-unseen",),
    ),
    "suspended-unnoticed": Mutant(
        "a permission runs out while the machine is suspended",
        (Value(clock, "_ELAPSED", time.CLOCK_MONOTONIC),),
        ("suspended",),
    ),
    "drains-once": Mutant(
        "a drain goes on until it is over",
        (
            Edit(
                deregistration,
                "_drain",
                "if left <= timedelta(0):",
                "if state.drain is not None:",
            ),
        ),
        ("drain/record",),
    ),
    "drains-for-ever": Mutant(
        "a drain ends at its deadline",
        (
            Edit(
                deregistration,
                "_drain",
                "if left <= timedelta(0):",
                "if False:",
            ),
        ),
        ("drain-in-vain/record",),
    ),
    "always-is-settled": Mutant(
        "under policy Always no record is settled",
        (
            Edit(
                BackendRecord,
                "is_settled",
                "if self.spec.ensure_policy.is_always:",
                "if False:",
            ),
        ),
        ("always",),
    ),
    "epoch-first": Mutant(
        "a new epoch is written when all lost members are written down as lost",
        (
            Edit(
                MemberResync,
                "_is_new",
                "if not self._is_resetting(key):",
                "if True:",
            ),
        ),
        ("reset/record",),
    ),
    "resets-what-is-written": Mutant(
        "what is being registered may be lost, too",
        (Edit(listing, "lost_members", "and r.address", "and r.is_registered"),),
        ("reset-early",),
    ),
    "resets-what-it-sees": Mutant(
        "and so may be what the view does not show yet",
        (Edit(MemberResync, "_is_new", "or not await self._has_listed(key)", ""),),
        ("reset/backend", "reset/driver"),
        modes=("old-list",),
    ),
    "first-epoch-believed": Mutant(
        "before the first epoch members may have been lost as well",
        (
            Edit(
                listing,
                "lost_members",
                "return missing_members(may_be_in, listed, member_key)",
                "return ()",
            ),
        ),
        ("unknown-epoch/record", "newly-listed/record"),
    ),
    "first-epoch-of-the-registered": Mutant(
        "and such a one may be on its way in",
        (
            Edit(
                listing,
                "lost_members",
                "missing_members(may_be_in, listed",
                "missing_members([r for r in may_be_in if r.is_registered], listed",
            ),
        ),
        ("unknown-epoch-early/record",),
    ),
    "epochs-forgotten": Mutant(
        "an epoch that was acted on is known before it is written down",
        (
            Edit(
                MemberResync,
                "_is_new",
                "self._epochs.get(key) or Epochs(load_balancer.epoch)",
                "Epochs(load_balancer.epoch)",
            ),
        ),
        ("reset/record",),
    ),
    "epochs-unbraked": Mutant(
        "epochs that change all the time are acted on less and less often",
        (Edit(MemberResync, "_is_new", "known.rest(now) or", ""),),
        ("two-epochs/record",),
    ),
    "unlisted-untold": Mutant(
        "members that cannot be listed are told of",
        (
            Edit(
                MemberResync,
                "_look",
                "await self._reachable.failed(key, driver, listed)",
                "pass",
            ),
        ),
        ("unlisted/record",),
    ),
    "counts-at-once": Mutant(
        "two that count members differently do not write one after the other for ever",
        (Value(load_balancer, "_COUNTS_APART", timedelta(0)),),
        ("two-counters",),
    ),
    "reset-untold": Mutant(
        "a lost member is written down as lost before it is put back",
        (
            Edit(
                registration,
                "_record_reset",
                "if not state.reset or not record.is_registered:",
                "if True:",
            ),
        ),
        ("reset-in-vain",),
    ),
    "load-balancer-first": Mutant(
        "a load balancer stays as long as records need it",
        (
            Edit(load_balancer, "_needed", "if seen.users:", "if False:"),
            Edit(load_balancer, "_written", "not seen.may_be_needed", "True"),
        ),
        ("load-balancer-gone/record",),
    ),
    "records-unlisted": Mutant(
        "a load balancer goes when a list shows no record, and not by the watch alone",
        (Edit(load_balancer, "_list_records", "state.has_listed", "state"),),
        ("load-balancer-gone",),
        modes=("old-list",),
    ),
    "load-balancer-unread": Mutant(
        "a record is ensured when its load balancer was read, and was not being deleted",
        (Edit(registration, "_read_balancer", "state.balancer_seen", "state"),),
        ("load-balancer-gone",),
        modes=_LATE,
    ),
    "finalizer-later": Mutant(
        "the finalizer is in the create",
        (
            Edit(
                apply_module,
                "render_new_record",
                '"finalizers": [names.FINALIZER_RECORD],',
                '"finalizers": [],',
            ),
        ),
        ("life/record",),
    ),
}
