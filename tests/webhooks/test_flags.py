"""The shipped drivers as processes: flags that cannot be."""

from collections.abc import Sequence

import pytest

from tests.webhooks.processes import started
from tests.webhooks.rigs import RIGS


@pytest.mark.parametrize(
    ("module", "flags", "message"),
    [(kind.module, *bad) for kind in RIGS.values() for bad in kind.bad_flags],
)
async def test_wrong_flags(module: str, flags: Sequence[str], message: str) -> None:
    """The process ends with one line that says what is wrong."""
    child = await started(module, *flags)

    _, said = await child.communicate()

    assert message in said.decode()
    assert 1 == said.decode().count("\n")
    assert 2 == child.returncode
