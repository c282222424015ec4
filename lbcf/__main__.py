"""`python -m lbcf`: the same as the command `lbcf`."""

import sys

from lbcf.cli import main


if __name__ == "__main__":
    sys.exit(main())
