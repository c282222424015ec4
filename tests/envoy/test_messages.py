"""What the driver keeps of what it has sent."""

import gc
import tracemalloc

from webhooks.envoy import messages
from webhooks.envoy.resources import Json, Kind, Resource
from webhooks.envoy.subscriptions import Offer


NAME = "lbcf/198.18.0.1:80"
MEMBERS = 300


def endpoint(number: int) -> Json:
    """Make a member."""
    address = f"198.18.{number // 250}.{number % 250}"
    where = {"socketAddress": {"address": address, "portValue": 8080}}
    return {"endpoint": {"address": where}}


def sent(version: int) -> int:
    """Send members in another version, and drop them; return the bytes of the message."""
    members = [endpoint(version + number) for number in range(MEMBERS)]
    content: Json = {
        "@type": str(Kind.ENDPOINTS),
        "clusterName": NAME,
        "endpoints": [{"lbEndpoints": members}],
    }
    one = Resource(Kind.ENDPOINTS, NAME, f"e.{version}", content)
    offer = Offer({NAME: one}, frozenset())
    first = messages.response(Kind.ENDPOINTS, offer, "1").SerializeToString()
    again = messages.response(Kind.ENDPOINTS, offer, "1").SerializeToString()
    assert first == again
    return len(first)


def test_members_are_kept_in_no_version_that_is_over() -> None:
    """A large pool whose pods are replaced one by one is sent in a thousand of them."""
    sent(0)
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        size = max(sent(version) for version in range(1, 31))
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert size > 20 * MEMBERS
    assert after - before < 2 * size
