"""Guards of locks, permissions, compare-and-swap, and of the two programs."""

from datetime import timedelta

from lbcf.controller import apply as apply_module
from lbcf.controller import groups as service_grace
from lbcf.controller import registrar as registrar_module
from lbcf.controller.apply import WriteBackoff
from lbcf.controller.driver_decisions import Judgements, Validations
from lbcf.controller.groups import GroupReconciler
from lbcf.controller.legacy import LegacyLocks
from lbcf.controller.registrar import Registrar
from lbcf.controller.removal_check import RemovalCheck
from lbcf.controller.removals import Removals
from lbcf.controller.triggers import Triggers
from lbcf.controller.view import View
from lbcf.core.lifecycle.deregistration import DeregistrationState
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model.cluster import Pod
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.selection import plan, replacement
from lbcf.deregistrar.reconciler import Deregistrar
from lbcf.drivers.batches import Batches
from lbcf.executor import perform
from lbcf.executor.locks import AddressLocker
from lbcf.executor.perform import Executor
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.address_locks import AddressLocks
from tests.lab.sweep.edits import Edit, Mutant, Value


_LIFE = ("life", "early", "patient", "register")
_PARAMETERS = ("parameters", "parameters-back", "parameters-and-end")
_LOCKED = ("reuse/backend", "reuse-early/backend", "two-waiters/backend")

ACTING: dict[str, Mutant] = {
    "empties-first": Mutant(
        "pods that still serve stay until those that replace them are registered",
        (Edit(replacement, "_kept", "and len(kept) < most", "and False"),),
        ("rolled-while-away", "rolled-with-sessions", "held-and-restarted"),
    ),
    "held-until-killed": Mutant(
        "but no longer than until just before they are killed",
        (Edit(replacement, "_leavers", "if now < ends_at:", "if True:"),),
        ("killed-before-replaced",),
    ),
    "held-past-sigterm": Mutant(
        "and of a pod that waits for its records until just before its hook gives up",
        (
            Edit(
                Pod,
                "serves_until",
                "return min(killed_at, requested_at + wait)",
                "return killed_at",
            ),
        ),
        ("refused-while-waiting",),
    ),
    "deadline-unwatched": Mutant(
        "which nobody tells of: a pod is looked at again by then",
        (Edit(GroupReconciler, "_ordered", "if plan.due is not None:", "if False:"),),
        ("refused-replacement",),
    ),
    "held-for-the-deadline": Mutant(
        "and go as soon as the others are registered",
        (
            Edit(
                Triggers,
                "_see_progress",
                "self._queues.departures.add_after(group, _REPLACED)",
                "pass",
            ),
        ),
        ("rolled-while-away", "held-and-restarted"),
    ),
    "replacements-unseen": Mutant(
        "a look at a pod that ends is a look at those that come in, too",
        (
            Edit(
                GroupReconciler,
                "_scope_of",
                "return scope | pending | being_made | self._view.pods_coming(key)",
                "return scope",
            ),
        ),
        ("refused-replacement",),
    ),
    "creates-unseen": Mutant(
        "and at those whose records are being written",
        (Edit(GroupReconciler, "_scope_of", "pending | being_made |", "pending |"),),
        ("made-slowly",),
    ),
    "no-room": Mutant(
        "where there is no room, new ones wait for those that leave",
        (Edit(replacement, "_postpone", "if leaving[target] > 0:", "if False:"),),
        ("deregistered-first",),
    ),
    "drain-forgotten": Mutant(
        "a drain begins in time to be complete where nobody is about to be registered",
        (
            Edit(
                replacement,
                "_leavers",
                "ends_at - _drain_of(record, snapshot)",
                "ends_at",
            ),
        ),
        ("refused-with-sessions",),
    ),
    "service-at-once": Mutant(
        "nodes stay while their NodePortService is being replaced",
        (Value(service_grace, "GRACE", timedelta(0)),),
        ("service-replaced",),
    ),
    "identity-unseen": Mutant(
        "a record ends when its load balancer has another identity, or driver",
        (Edit(plan, "_replaced", "if now.is_of(spec)", "if True"),),
        ("load-balancer-elsewhere", "load-balancer-of-another"),
    ),
    "moves-unseen": Mutant(
        "a record ends when its backend is elsewhere, whoever spells addresses",
        (Edit(plan, "has_moved", "now.host and spec.host != now.host", "False"),),
        ("moved/driver", "moved-unseen/driver"),
    ),
    "no-quarantine": Mutant(
        "a lock is taken over only when its last holder's calls are over",
        (
            Edit(
                AddressLocker,
                "_judged",
                "rest = wait - gone_for",
                "rest = timedelta(0)",
            ),
        ),
        ("two-deregistrars/backend", "reuse/backend", "drain-in-vain/backend"),
    ),
    "counts-anew": Mutant(
        "Δ counts from when it began, also where a process begins anew",
        (Edit(Now, "began_at", "min(began, written.seconds)", "began"),),
        ("taken-in-spite-of-kills", "let-go-in-spite-of-kills"),
    ),
    "clock-of-another-machine": Mutant(
        "but a moment of another machine's clock says nothing",
        (Edit(Now, "began_at", " or written.boot != self.boot", ""),),
        ("taken-in-spite-of-kills", "let-go-in-spite-of-kills"),
        modes=("old-list",),
    ),
    "inherits-no-doubt": Mutant(
        "calls that the deregistrar before had out count from when this one began",
        (
            Edit(
                Deregistrar,
                "inherit",
                "late=late",
                "late=state.late",
            ),
        ),
        ("taken-after-a-lost-call",),
    ),
    "call-not-noted": Mutant(
        "a call is noted before it is made, for whoever begins in its caller's place",
        (
            Edit(
                Deregistrar,
                "_note",
                "self._noted.before(uid, late, settling)",
                "pass",
            ),
        ),
        ("taken-after-a-lost-call",),
    ),
    "answer-not-noted": Mutant(
        "what came of it is noted, too: an answer ends the wait for it",
        (Edit(Deregistrar, "_turn", "self._noted.after(uid, learnt.late)", "pass"),),
        ("taken-after-a-kill-in-between",),
    ),
    "finds-no-notes": Mutant(
        "and found by whoever begins there",
        (Edit(Deregistrar, "inherit", "unknown if left is None else", "unknown or"),),
        ("taken-after-a-kill-in-between",),
    ),
    "inherits-nothing": Mutant(
        "a deregistrar in the place of one that ended keeps its name",
        (Edit(Deregistrar, "inherit", "self._incarnation = name", "pass"),),
        ("taken-after-a-restart",),
    ),
    "lock-without-a-key": Mutant(
        "no lock is taken before the load balancer's key is written down",
        (
            Edit(
                LegacyLocks,
                "take",
                "if self._view.lacks_lock_key(step.record):",
                "if False:",
            ),
        ),
        ("driver-twice/driver",),
        modes=("timeout-late",),
    ),
    "lock-by-spelling": Mutant(
        "one physical load balancer has one lock for an address, however it is spelled",
        (
            Edit(
                AddressLocker,
                "_names_of",
                "tuple(_named(key, address) for key in keys)",
                "()",
            ),
        ),
        ("driver-twice", "pool-twice"),
    ),
    "lock-by-the-newest-key": Mutant(
        "and one more under each key that it had before",
        (Edit(AddressLocker, "take", "keyed or", "keyed[-1:] or"),),
        ("key-of-a-new-one/backend",),
    ),
    "lock-by-keys-of-one-object": Mutant(
        "those of the other objects that are it to its driver, too",
        (
            Edit(
                View,
                "lock_keys",
                "self.shared_lock_keys(found.driver_key, found.info)",
                "found.lock_keys",
            ),
            Edit(View, "shared_lock_keys", "if info is None:", "if True:"),
        ),
        ("key-of-a-new-one/backend",),
    ),
    "drain-not-quarantined": Mutant(
        "nor before a late drain is over",
        (
            Edit(
                LoadBalancerDriver,
                "end_settling",
                "if self.declares(Operation.DRAIN_BACKEND):",
                "if False:",
            ),
        ),
        ("slow-drain",),
        modes=("crash-late",),
    ),
    "holder-by-name": Mutant(
        "a lock's holder is one record, not whoever has its name",
        (Edit(AddressLocker, "_exists", "record.meta.uid == holder.uid", "True"),),
        ("static-again/backend",),
    ),
    "takeover-unguarded": Mutant(
        "a lock is taken over from exactly the version that was seen",
        (Edit(AddressLocks, "take_over", "cas=lease.meta", "cas=None"),),
        ("late-take-over",),
        modes=("timeout-late", "cancel-late"),
    ),
    "ensures-from-the-cache": Mutant(
        "an ensure needs a quorum read or a write of one's own",
        (
            Edit(
                Registrar,
                "_turn",
                "permission = self._kept_permission(record)",
                "permission = Permission(record, self._executor.now().monotonic)",
            ),
        ),
        ("always-orphaned-unseen",),
    ),
    "deregisters-from-the-cache": Mutant(
        "where addresses have next owners, a deregistration needs a quorum read",
        (Edit(DeregistrationState, "begin_turn", "seen if named else None", "seen"),),
        ("taken-meanwhile",),
    ),
    "reads-any-namesake": Mutant(
        "a namesake of another uid is another record",
        (Edit(Executor, "_read", " or record.meta.uid != subject.uid", ""),),
        ("behind",),
        modes=("lost", "timeout-now", "5xx-now"),
    ),
    "permission-for-ever": Mutant(
        "a permission that waited for its turn is renewed",
        (
            Value(perform, "_USE_WITHIN", timedelta(days=1)),
            Edit(Executor, "_sent", "until=until", "until=None"),
        ),
        ("crowd-orphaned",),
    ),
    "sent-too-late": Mutant(
        "and one that ran out while it was renewed permits nothing",
        (Edit(Executor, "_sent", "until=until", "until=None"),),
        ("looked-at",),
        modes=("slow",),
    ),
    "batch-permission-for-ever": Mutant(
        "an item's permission is judged when its batch has a place",
        (
            Edit(
                Executor,
                "_call_in_batch",
                "found = await self._permission(subject, step, held)",
                "found = held",
            ),
            Edit(Batches, "_permitted", "now > permitted.good_until", "False"),
            Edit(Batches, "_call", "until=until", "until=None"),
        ),
        ("batch-orphaned",),
    ),
    "batch-as-one": Mutant(
        "what is said of one item is not said of another",
        (
            Edit(
                Batches,
                "_call",
                "result = results.get(item.record_id)",
                "result = next(iter(results.values()), None)",
            ),
        ),
        ("batch-answered-in-part",),
    ),
    "silence-in-a-batch-is-an-answer": Mutant(
        "an item without a result may have taken effect",
        (
            Edit(
                Batches,
                "_call",
                "_fail(item, BadAnswer(text))",
                "_fail(item, NotSent(text))",
            ),
        ),
        ("batch-done-late-in-part",),
    ),
    "renewed-unseen": Mutant(
        "a renewed permission counts for the same version only",
        (
            Edit(
                Executor,
                "_permission",
                "if before.resource_version != now.resource_version:",
                "if False:",
            ),
        ),
        ("crowd-orphaned",),
    ),
    "status-without-cas": Mutant(
        "a status is written to the version that was read, or not at all",
        (Edit(ObjectWriter, "patch", "cas=meta,", "cas=None,"),),
        ("static-again",),
        modes=("crash-late", "cancel-late", "timeout-late", "reset-late", "5xx-late"),
    ),
    "release-without-cas": Mutant(
        "the finalizer goes from the version that was read, or not at all",
        (
            Edit(
                Executor,
                "_release",
                "self._records.patch(record.meta, body, observe=False)",
                "self._client.patch(RECORDS, record.meta.key, body)",
            ),
        ),
        ("static-returns",),
        modes=("crash-late", "cancel-late", "timeout-late", "reset-late", "5xx-late"),
    ),
    "deletes-any-namesake": Mutant(
        "a record is deleted by its uid",
        (Edit(ObjectWriter, "delete", "uid=meta.uid", "uid=None"),),
        ("static-returns",),
        modes=("crash-late", "cancel-late", "timeout-late", "reset-late", "5xx-late"),
    ),
    "refused-is-gone": Mutant(
        "a refused deletion is not the end of a record",
        (
            Edit(
                Removals,
                "_remove",
                "await self._records.refresh(meta.key)",
                "self._records.store.observe_gone(meta)\n        return",
            ),
        ),
        ("life",),
    ),
    "cut-write-forgotten": Mutant(
        "a write that was cut off below us has failed",
        (
            Edit(
                apply_module.Applier,
                "_all",
                "isinstance(r, BaseException)",
                "isinstance(r, Exception)",
            ),
        ),
        ("register", "parameters"),
        modes=("cancel",),
    ),
    "static-asks-the-driver": Mutant(
        "a static address is its user's to say",
        (Edit(Registrar, "_address", "and not is_static", ""),),
        ("static-again/driver",),
    ),
    "undoes-at-once": Mutant(
        "what another controller changed is not undone again and again",
        (
            Edit(
                WriteBackoff,
                "rest",
                "return self._left(write)",
                "return None",
            ),
        ),
        ("at-odds",),
    ),
    "removes-unread": Mutant(
        "what a removal was decided by is read once more before the record is deleted",
        (Edit(Removals, "reconcile", "not await self._check.holds(decided)", "False"),),
        ("pod-unheard-of", "group-unheard-of"),
    ),
    "removes-by-the-backend-alone": Mutant(
        "not only its backend, but the group that selects it, too",
        (
            Edit(
                RemovalCheck,
                "_read_groups",
                "await self._groups.since_now(record.group.namespace)",
                "pass",
            ),
        ),
        ("group-unheard-of",),
    ),
    "creates-again-at-once": Mutant(
        "nor is a record that somebody else deletes created again and again",
        (
            Edit(
                WriteBackoff,
                "rest_before",
                "return None if write is None else self._left(write)",
                "return None",
            ),
        ),
        ("records-deleted-again",),
    ),
    "brakes-itself": Mutant(
        "and one that this controller deleted itself is created again at once",
        (
            Edit(
                apply_module.Applier,
                "withdraw",
                "self._backoff.withdrawn(removal.record for removal in removals)",
                "pass",
            ),
        ),
        ("flapping",),
    ),
    "believes-an-older-view": Mutant(
        "what a turn has read is seen by the view",
        (Edit(Registrar, "_catch_up", "if permission is not None:", "if False:"),),
        ("parameters-later/backend",),
        modes=("old-list",),
    ),
    "believes-the-view": Mutant(
        "a turn that found its record ended waits for the watch",
        (
            Edit(
                registrar_module,
                "_has_ended",
                "if state is None or state.is_over:",
                "return False\n    if state is None or state.is_over:",
            ),
        ),
        ("always-orphaned-unseen",),
    ),
    "old-doubt-answers": Mutant(
        "a driver that could not be asked once more about parameters is asked later",
        (
            Edit(
                Validations,
                "_look",
                "self._known[group_key].pop(name, None)",
                "pass",
            ),
        ),
        ("mended-meanwhile/record",),
    ),
    "old-judgement-answers": Mutant(
        "and so is one that could not be asked about pods",
        (
            Edit(
                Judgements,
                "_look",
                "keep them for good.\n        self._known.pop(key, None)",
                "keep them for good.",
            ),
        ),
        ("judge-mended-meanwhile/record",),
    ),
}
