"""What every process does around its own work, in the right order.

    connect -> informers -> synced -> Lease -> work ... SIGTERM -> no new keys
    -> calls under way finish -> Lease released -> end

`dependencies` makes the clients, metrics and recorders from `lbcf.settings`, `host` runs
the program of `lbcf.controller`, `lbcf.deregistrar` or `lbcf.admission` with them.
"""

from lbcf.process.dependencies import RELEASES_AT_ONCE, Dependencies
from lbcf.process.host import (
    Build,
    Follower,
    Program,
    StandBy,
    idle,
    run_process,
    silence_of,
)
from lbcf.process.losses import Losses


__all__ = [
    "RELEASES_AT_ONCE",
    "Build",
    "Dependencies",
    "Follower",
    "Losses",
    "Program",
    "StandBy",
    "idle",
    "run_process",
    "silence_of",
]
