"""`python -m lbcf`, and the command `lbcf`."""

import sys

from lbcf.runtime import garbage


garbage.collect_seldom()

from lbcf.cli import main  # noqa: E402 - what it imports is most of what is allocated


if __name__ == "__main__":
    sys.exit(main())
