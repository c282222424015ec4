"""How long our servers keep a connection that asks nothing."""

from datetime import timedelta
from typing import Final


IDLE: Final = timedelta(seconds=30)
"""Without a whole head of a request; more than `lbcf.drivers.client` keeps connections for."""
