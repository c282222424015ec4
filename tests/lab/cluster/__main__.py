"""Entry of `python -m tests.lab.cluster`."""

import sys

from tests.lab.cluster.cli import main


sys.exit(main(sys.argv[1:]))
