"""Guards of `lbcf.core.lifecycle.registration`, and of whoever writes records."""

from lbcf.controller import registrar as registrar_module
from lbcf.controller.registrar import Registrar
from lbcf.core.lifecycle import registration
from lbcf.deregistrar import reconciler
from lbcf.executor import perform
from lbcf.executor.perform import Executor
from tests.lab.sweep.edits import Edit, Mutant, Value


_LIFE = ("life", "early", "patient", "register")
_PARAMETERS = ("parameters", "parameters-back", "parameters-and-end")
_LOCKED = ("reuse/backend", "reuse-early/backend", "two-waiters/backend")

REGISTERING: dict[str, Mutant] = {
    "unmarked": Mutant(
        "whoever takes a record over marks it before its first call",
        (
            Edit(
                registration,
                "_write_marker",
                "return WriteStatus(record, attrs.evolve(record.status, ensuring=wanted))",
                "return None",
            ),
        ),
        ("both-at-once",),
        modes=("crash-late", "timeout-late", "reset-late", "5xx-late"),
    ),
    "signs-for-others": Mutant(
        "another incarnation's mark is never replaced by one's own",
        (
            Edit(
                registration,
                "marker",
                "is_of_line(record.status.ensuring, state.incarnation)",
                "True",
            ),
        ),
        ("two-registrars", *_LIFE),
    ),
    "signs-off-in-doubt": Mutant(
        "whoever had a call without an answer does not sign off",
        (
            Edit(
                registration,
                "_write_registered",
                "mark == state.incarnation and not state.is_uncertain",
                "mark == state.incarnation",
            ),
        ),
        _LIFE,
        modes=("timeout-late", "reset-late", "5xx-late"),
    ),
    "signs-off-too-soon": Mutant(
        "whoever had one signs off after an ensure that was sent when it was over",
        (Edit(registration, "_are_all_over", "return step.final and", "return"),),
        _LIFE,
        modes=("timeout-late", "reset-late", "5xx-late"),
    ),
    "waiting-unseen": Mutant(
        "a pod that waits for its records is read before the first ensure of each",
        (
            Edit(
                registration,
                "_read_pod",
                "return ReadPod(ObjectKey(record.meta.key.namespace, backend.name), backend.uid)",
                "return None",
            ),
        ),
        ("waiting-for-records",),
    ),
    "unheard-write-forgotten": Mutant(
        "whoever may have signed off unheard marks the record before its next call",
        (
            Edit(
                registration,
                "_after_failed_write",
                "if step.status.ensuring:",
                "if True:",
            ),
        ),
        ("slow-life",),
        modes=("timeout-late",),
    ),
    "unheard-write-untold": Mutant(
        "the core is told of a write that had no answer",
        (
            Edit(
                perform,
                "_unconfirmed",
                "return None if is_definite else WriteUnconfirmed()",
                "return None",
            ),
        ),
        ("slow-life",),
        modes=("timeout-late", "reset-late", "5xx-late"),
    ),
    "silence-is-an-answer": Mutant(
        "a call that timed out may still land",
        (
            Edit(
                Executor,
                "_answered",
                "may_land=not error.definite",
                "may_land=False",
            ),
        ),
        _LIFE,
        modes=("timeout-late", "reset-late", "5xx-late"),
    ),
    "cut-call-forgotten": Mutant(
        "a call that was cut off below us may still land",
        (Edit(Executor, "_answered", "if is_ending():", "if True:"),),
        _LIFE,
        modes=("cancel-late",),
    ),
    "never-again": Mutant(
        "after a mark of * the ensure is sent once more",
        (
            Edit(
                registration,
                "next_ensure",
                "if mark and (unconfirmed or is_of_line(mark, state.incarnation)):",
                "if False:",
            ),
        ),
        _PARAMETERS,
        modes=("crash-late", "timeout-late", "reset-late", "5xx-late"),
    ),
    "again-too-soon": Mutant(
        "that ensure waits until all older incarnations' are over",
        (
            Edit(
                registration,
                "_rest_to_confirm",
                "until = max(until, state.first_seen + settling.total_seconds())",
                "until += 0.0",
            ),
        ),
        (*_PARAMETERS, "two-registrars"),
        modes=("crash-late",),
    ),
    "own-doubt-forgotten": Mutant(
        "and until one's own with other parameters are over",
        (
            Edit(
                registration,
                "_rest_to_confirm",
                "until = max(until, call.until)",
                "until += 0.0",
            ),
        ),
        ("parameters-later",),
        modes=("timeout-late", "reset-late", "5xx-late"),
    ),
    "confirmed-by-the-answer": Mutant(
        "whether those are over is asked when the ensure is sent",
        (
            Edit(
                registration,
                "_succeeded",
                "if step.final else",
                "if _rest_to_confirm(state, record, now) <= timedelta(0) else",
            ),
        ),
        ("parameters-slowly",),
        modes=("crash-late",),
    ),
    "older-doubt-forgotten": Mutant(
        "also those before the latest one in doubt",
        (
            Edit(
                registration,
                "_with_ensure_out",
                "stale = max(stale, state.uncertain_call.until)",
                "stale += 0.0",
            ),
        ),
        ("parameters-in-doubt",),
        modes=("suspend",),
    ),
    "claims-what-it-found": Mutant(
        "only whoever wrote a record's spec may claim it",
        (
            Edit(
                registration,
                "_is_claimed",
                "state.claimed == record.spec_generation and not",
                "not",
            ),
        ),
        (*_LIFE, *_PARAMETERS),
        modes=("crash-late",),
    ),
    "claims-after-any-update": Mutant(
        "an update claims only what was settled or claimed before",
        (
            Edit(
                registrar_module,
                "claim_after_update",
                "if before.is_settled:",
                "if True:",
            ),
        ),
        ("unread",),
        modes=("crash-late",),
    ),
    "unlocked": Mutant(
        "an address is locked before it is registered",
        (
            Edit(
                registration,
                "_take_lock",
                "if driver.member_key is MemberKey.RECORD:",
                "if True:",
            ),
        ),
        ("two-groups-end/backend", "reuse/backend", "reuse-early/backend"),
    ),
    "address-before-lock": Mutant(
        "the address is written once the lock is held, not before",
        (
            Value(
                registration,
                "STAGES",
                tuple(
                    sorted(
                        registration.STAGES,
                        key=lambda s: (
                            registration.STAGES.index(s)
                            - 1.5 * (s.__name__ == "_write_address")
                        ),
                    )
                ),
            ),
        ),
        ("two-groups-end/backend", "two-groups/backend", "reuse/backend"),
    ),
    "signed-off-while-out": Mutant(
        "what ends is signed off once no ensure of it is out",
        (
            Edit(
                registration,
                "rest_to_sign_off",
                "state.out_until - now.monotonic",
                "0.0",
            ),
        ),
        ("let-go-in-spite-of-kills",),
    ),
    "signed-off-for-others": Mutant(
        "and only where nobody else may have called",
        (
            Edit(
                registration,
                "rest_to_sign_off",
                "if not (mine or _is_claimed(state, record)) or",
                "if",
            ),
        ),
        ("two-registrars", "both-at-once"),
        modes=("crash-late", "timeout-late", "reset-late", "5xx-late"),
    ),
    "sign-off-unheard": Mutant(
        "a deregistrar looks at what was signed off",
        (Edit(reconciler, "_orders", ", record.is_settled", ""),),
        ("taken-when-signed-off-late",),
    ),
    "marks-not-inherited": Mutant(
        "a controller in the place of one that ended signs its records off",
        (
            Edit(
                Registrar,
                "inherit",
                'self._incarnation = f"{name}/{self._incarnation}"',
                "pass",
            ),
        ),
        ("taken-when-signed-off-by-an-heir",),
    ),
    "heir-expects-nothing": Mutant(
        "and expects its ensures where that one has left no notes of them",
        (Edit(Registrar, "inherit", "elif not record.is_settled:", "elif False:"),),
        ("let-go-after-two-kills/unjournaled",),
    ),
    "ensure-not-noted": Mutant(
        "an ensure is noted before it is made",
        (
            Edit(
                Registrar,
                "_note",
                "self._noted.before(uid, state.out_until, settling)",
                "pass",
            ),
        ),
        ("let-go-after-two-kills/backend",),
    ),
    "answered-ensure-not-noted": Mutant(
        "and so is its answer",
        (
            Edit(
                Registrar,
                "_turn",
                "self._noted.after(uid, learnt.out_until)",
                "pass",
            ),
        ),
        ("taken-when-signed-off-by-an-heir",),
    ),
    "ensures-unwritten": Mutant(
        "the address is in the record before the first ensure",
        (
            Edit(
                registration,
                "_write_address",
                "return WriteStatus(record, status)",
                "return None if status else None",
            ),
            Edit(
                registration,
                "_ensure",
                "        record.address,",
                "        record.address or state.address,",
            ),
        ),
        ("life/backend",),
    ),
}
