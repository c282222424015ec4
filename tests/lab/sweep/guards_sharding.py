"""Guards of what is divided among shards, and of load balancers of another shard."""

from lbcf.controller import app
from lbcf.controller.member_resync import MemberResync
from lbcf.controller.view import View
from lbcf.core.lifecycle import load_balancer, registration
from lbcf.core.model.shards import Shard
from tests.lab.sweep.edits import Edit, Mutant


SHARDING: dict[str, Mutant] = {
    "unlabelled-are-nobodys": Mutant(
        "the first shard ends what names no bucket",
        (Edit(Shard, "ending_selector", "self.number == 0", "False"),),
        ("shards-begin/record",),
    ),
    "own-records-alone": Mutant(
        "a load balancer waits for records of every shard before it goes",
        (Edit(View, "_at", "return (*own, *others) if others else own", "return own"),),
        ("ends-elsewhere/record",),
    ),
    "load-balancers-are-everybodys": Mutant(
        "one shard alone looks after a load balancer: it knows all of its records",
        (Edit(app, "_of_shard", "if shard.is_whole else look", ""),),
        ("ends-divided/record",),
    ),
    "records-unlisted": Mutant(
        "a load balancer goes when a list shows no record, and not by the watch alone",
        (Edit(load_balancer, "_list_records", "state.has_listed", "state"),),
        ("ends-elsewhere",),
        modes=("gap", "gap-records"),
    ),
    "load-balancer-unread": Mutant(
        "a record is ensured when its load balancer was read, and was not being deleted",
        (Edit(registration, "_read_balancer", "state.balancer_seen", "state"),),
        ("ends-elsewhere-as-pods-come",),
        modes=("lag-load-balancers",),
    ),
    "epoch-before-other-shards": Mutant(
        "a new epoch is written when members of other shards are back, too",
        (
            Edit(
                MemberResync,
                "_is_resetting",
                "return self._registrar.is_resetting(key) or elsewhere",
                "return self._registrar.is_resetting(key)",
            ),
        ),
        ("lost-elsewhere/record", "lost-again-elsewhere/record"),
    ),
    "second-loss-unsaid": Mutant(
        "a record whose loss is written already is written once more for the next one",
        (
            Edit(
                MemberResync,
                "_reset",
                " (epoch {listed.epoch})",
                "",
            ),
        ),
        ("lost-again-elsewhere",),
    ),
}
