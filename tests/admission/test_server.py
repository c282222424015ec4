"""How long a verdict may take, and what is no question."""

from datetime import timedelta

import pytest

from lbcf.admission.server import time_left
from lbcf.wire.errors import Malformed


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [(None, 9), ("15s", 14), ("30s", 29), ("1s", 0.5), ("2s", 1)],
)
def test_verdict_comes_before_the_api_server_gives_up(
    timeout: str | None, seconds: float
) -> None:
    """A second is kept for the way back; of a short time-out, half of it."""
    assert timedelta(seconds=seconds) == time_left(timeout)


def test_timeout_that_is_none_is_malformed() -> None:
    """Only the API server asks here, and it writes durations."""
    with pytest.raises(Malformed):
        time_left("soon")
