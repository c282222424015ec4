"""What every process of ours does around its own work, in the right order.

    connect -> informers -> synced -> Lease -> work ... SIGTERM -> no new keys
    -> calls under way finish -> Lease released -> end

Before it: `lbcf.cli` and `lbcf.settings`. Inside it: `lbcf.controller`,
`lbcf.deregistrar` or `lbcf.admission`, which say what to watch and what to do. `parts`
puts together what they work with, `host` runs them.
"""

from lbcf.process.host import Program, run_process, silence_of
from lbcf.process.parts import RELEASES_AT_ONCE, Parts


__all__ = ["RELEASES_AT_ONCE", "Parts", "Program", "run_process", "silence_of"]
