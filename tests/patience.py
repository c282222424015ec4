"""How long tests wait at most for what is to come: the one place to say it.

It bounds only how long a test takes that fails. Machines that are slower than any so far
say by how much: `LBCF_TEST_PATIENCE=3`.
"""

import os


PATIENCE = 180.0 * float(os.environ.get("LBCF_TEST_PATIENCE", "1"))
"""Seconds."""
