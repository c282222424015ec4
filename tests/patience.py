"""How long tests wait at most for what another process is to do.

It bounds only how long a test takes that fails. Machines that are slower than any so far
say by how much: `LBCF_TEST_PATIENCE=3`. Runs of hours in `tests/lab`, and tests whose time
stands still with the machine (`tests.steady`), have limits of their own.
"""

import os


PATIENCE = 180.0 * float(os.environ.get("LBCF_TEST_PATIENCE", "1"))
"""Seconds."""
