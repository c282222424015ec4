"""How long tests wait at most for what another process is to do.

It bounds only how long a test takes that fails. Machines that are slower than any so far
say by how much: `LBCF_TEST_PATIENCE=3`. Runs of hours in `tests/lab`, and tests whose time
stands still with the machine (`tests.steady`), have limits of their own.
"""

import os

from datetime import timedelta


PATIENCE = 180.0 * float(os.environ.get("LBCF_TEST_PATIENCE", "1"))
"""Seconds."""

PATIENT = timedelta(seconds=PATIENCE)
"""The same, for drivers and clients of tests: what they wait for comes in the end."""
