"""The guards, each with the edit that takes it out.

Their sources are the rules in the docstrings of `lbcf.core.lifecycle.registration` and
`lbcf.core.lifecycle.deregistration`, the permissions of `lbcf.executor`, and what the sweep
itself has found.
"""

from collections.abc import Mapping

from tests.lab.sweep.edits import Mutant
from tests.lab.sweep.guards_acting import ACTING
from tests.lab.sweep.guards_ending import ENDING
from tests.lab.sweep.guards_gating import GATING
from tests.lab.sweep.guards_registering import REGISTERING
from tests.lab.sweep.guards_sharding import SHARDING


MUTANTS: Mapping[str, Mutant] = {
    **REGISTERING,
    **ACTING,
    **ENDING,
    **GATING,
    **SHARDING,
}
