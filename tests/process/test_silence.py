"""When a process is to be started again because its watches tell nothing."""

from datetime import timedelta

import pytest

from lbcf.kube.client import KubeClient
from lbcf.kube.connection import Connection
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import DRIVERS
from lbcf.kube.transport import Transport
from lbcf.process import silence_of
from tests.fakes.clock import VirtualClock


@pytest.mark.parametrize(
    ("heard", "passed", "told"),
    [
        (False, 3600, None),
        (True, 299, None),
        (True, 301, "nothing heard from the API server for 301 s"),
    ],
    ids=["never", "lately", "long ago"],
)
def test_silent_watch_fails_the_probe(
    heard: bool, passed: float, told: str | None
) -> None:
    """A watch has bookmarks every minute, and is opened anew after 90 s without one."""
    clock = VirtualClock()
    nowhere = Transport(Connection("http://127.0.0.1:1"), clock)
    informer = Informer(KubeClient(nowhere), DRIVERS, clock)
    informer.last_heard = clock.monotonic() if heard else None
    clock.advance(timedelta(seconds=passed))

    assert told == silence_of(informer, clock)
