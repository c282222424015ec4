"""What the wire layer raises; drivers, SDK and informers turn it into a reason."""

from lbcf.core.errors import LbcfError


class Malformed(LbcfError, ValueError):  # noqa: N818  (it says what the input is)
    """The bytes are not the message they should be; the text says where and why."""
