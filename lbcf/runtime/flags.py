"""The command lines of all processes: what is wrong is said in one line.

`lbcf.cli` and `lbcf.sdk.run` describe their flags to it.
"""

import argparse

from typing import NoReturn


WRONG_USAGE = 2
"""Exit status after a flag that cannot be used, as argparse has it."""


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """End the process."""
        self.exit(WRONG_USAGE, f"{self.prog}: {message} (--help lists the flags)\n")
