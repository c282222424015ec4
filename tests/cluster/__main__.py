"""Entry of `python -m tests.cluster`."""

import sys

from tests.cluster.cli import main


sys.exit(main(sys.argv[1:]))
