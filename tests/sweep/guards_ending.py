"""Guards of `lbcf.core.deregistration`, of load balancers and their resets."""

from lbcf.controller import apply as apply_module
from lbcf.controller.load_balancers import LoadBalancers
from lbcf.controller.survey import Survey
from lbcf.core import deregistration, epochs, registration
from lbcf.core.resources import BackendRecord
from tests.sweep.edits import Edit, Mutant


_LIFE = ("life", "early", "patient", "register")
_PARAMETERS = ("parameters", "parameters-back", "parameters-and-end")
_LOCKED = ("reuse/backend", "reuse-early/backend", "two-waiters/backend")

ENDING: dict[str, Mutant] = {
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
                "_rest_of_confirming",
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
                "_called",
                "return _succeeded(ending, step)",
                "return _succeeded(ending, attrs.evolve(step, final=is_final("
                "ending, step.permission.record, moment)))",
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
    "drain-in-memory": Mutant(
        "a drain's clock is the one that is written down",
        (
            Edit(
                deregistration,
                "drain_progress",
                "record.status.drain or ending.drain",
                "ending.drain",
            ),
        ),
        ("drain-in-vain/record",),
    ),
    "drains-once": Mutant(
        "a drain goes on until it is over",
        (
            Edit(
                deregistration,
                "_drain",
                "if moment.now >= progress.deadline:",
                "if ending.drain is not None:",
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
                "if moment.now >= progress.deadline:",
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
                "and not self.spec.ensure_policy.is_always",
                "",
            ),
        ),
        ("always",),
    ),
    "epoch-first": Mutant(
        "a new epoch is written when all lost members are written down as lost",
        (
            Edit(
                Survey,
                "_is_new",
                "if not self._registrar.is_resetting(key):",
                "if True:",
            ),
        ),
        ("reset/record",),
    ),
    "resets-what-is-written": Mutant(
        "what is being registered may be lost, too",
        (Edit(epochs, "lost_members", "and r.address", "and r.is_registered"),),
        ("reset-early",),
    ),
    "resets-what-it-sees": Mutant(
        "and so may be what the view does not show yet",
        (Edit(Survey, "_is_new", "or not await self._catch_up(key)", ""),),
        ("reset/backend", "reset/driver"),
        modes=("old-list",),
    ),
    "first-epoch-believed": Mutant(
        "before the first epoch members may have been lost as well",
        (
            Edit(
                epochs,
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
                epochs,
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
                Survey,
                "_is_new",
                "self._epochs.get(key) or epochs.Epochs(load_balancer.epoch)",
                "epochs.Epochs(load_balancer.epoch)",
            ),
        ),
        ("reset/record",),
    ),
    "epochs-unbraked": Mutant(
        "epochs that change all the time are acted on less and less often",
        (Edit(Survey, "_is_new", "known.rest(now) or", ""),),
        ("two-epochs/record",),
    ),
    "reset-untold": Mutant(
        "a lost member is written down as lost before it is put back",
        (
            Edit(
                registration,
                "_confess_reset",
                "if not e.reset or not record.is_registered:",
                "if True:",
            ),
        ),
        ("reset-in-vain",),
    ),
    "load-balancer-first": Mutant(
        "a load balancer stays as long as records need it",
        (Edit(LoadBalancers, "_end", "self._needed(found)", "None"),),
        ("load-balancer-gone/record",),
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
