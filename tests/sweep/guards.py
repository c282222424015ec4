"""The guards, each with the edit that takes it out.

Their sources are the rules in the docstrings of `lbcf.core.registration` and
`lbcf.core.deregistration`, the permissions of `lbcf.interpreter`, and what the sweep
itself has found.
"""

from collections.abc import Mapping

from tests.sweep.edits import Mutant
from tests.sweep.guards_acting import ACTING
from tests.sweep.guards_ending import ENDING
from tests.sweep.guards_registering import REGISTERING


MUTANTS: Mapping[str, Mutant] = {**REGISTERING, **ACTING, **ENDING}
