"""What an outage's figures are made of."""

import time

from tests.haproxy.reloads import SteadyTraffic
from tests.lab.soak.outage import PRE_STOP, Deployment, Pod
from tests.lab.soak.web import WebServer


def deployment(*pods: Pod) -> Deployment:
    """Make one of these pods."""
    made = Deployment("web", SteadyTraffic("http://127.0.0.1:1/", 1))
    made.pods = {pod.address: pod for pod in pods}
    return made


def a_pod(name: str, **state: object) -> Pod:
    """Make a pod."""
    return Pod(name, WebServer(name), f"{name}:80", **state)  # type: ignore[arg-type]


def test_member_counts_while_its_pod_serves() -> None:
    """Nobody serves where the pods of all members have ended, nor where there is none."""
    web = deployment(a_pod("a"), a_pod("b", serves=False))

    web.look(["a:80", "b:80"])
    assert 1 == web.fewest
    web.look(["b:80", "c:80"])
    assert 0 == web.fewest


def test_old_pod_that_is_still_a_member_has_less_and_less_time() -> None:
    """Below zero, requests were sent to a pod that had ended."""
    now = time.monotonic()
    web = deployment(a_pod("a", deleted_at=now - 40), a_pod("b", deleted_at=now - 99))

    web.look(["a:80"])
    assert web.spared <= PRE_STOP - 40
    web.look(["a:80", "b:80"])
    assert web.spared <= PRE_STOP - 99
