"""What ends a command: one line for people, and exit status 2."""

from lbcf.core.errors import LbcfError


class CtlError(LbcfError):
    """A command cannot be answered."""


class Unknown(CtlError):  # noqa: N818 - says what the answer is
    """There is no such thing."""
