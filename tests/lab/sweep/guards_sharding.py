"""Guards of what is divided among shards."""

from lbcf.controller.member_resync import MemberResync
from lbcf.controller.view import View
from lbcf.core.model.shards import Shard
from tests.lab.sweep.edits import Edit, Mutant


SHARDING: dict[str, Mutant] = {
    "unlabelled-are-nobodys": Mutant(
        "the first shard ends what names no bucket",
        (Edit(Shard, "ending_selector", "self.number == 0", "False"),),
        ("shards-begin/record",),
    ),
    "own-records-alone": Mutant(
        "records of every shard are put back where a load balancer has lost its members",
        (Edit(View, "_at", "return (*own, *others) if others else own", "return own"),),
        ("lost-elsewhere/record",),
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
