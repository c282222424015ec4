"""Places at the API server: so many at a time, ends before completions before begins."""

import asyncio

from lbcf.kube.requests import ApiRequest, Method, namespace_of, rank_of
from lbcf.runtime.semaphore import PrioritySemaphore


class Visits:
    """Requests that hold their place until the test ends them."""

    def __init__(self, places: int, *, kept: int = 0) -> None:
        self.places = PrioritySemaphore(places, kept=kept)
        self.order: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def come(self, name: str, method: Method = "GET", path: str = "/") -> None:
        """Ask for a place."""
        self._ends[name] = asyncio.Event()
        request = ApiRequest(method, path)
        self.tasks[name] = asyncio.create_task(self._visit(name, request))
        await asyncio.sleep(0)

    async def _visit(self, name: str, request: ApiRequest) -> None:
        """Hold a place until told to go."""
        group, rank = namespace_of(request), rank_of(request)
        async with self.places.held(group=group, rank=rank):
            self.order.append(name)
            await self._ends[name].wait()

    async def end(self, name: str) -> None:
        """Leave a place, and let whoever gets it begin."""
        self._ends[name].set()
        await self.tasks[name]
        await asyncio.sleep(0)


async def test_no_more_than_the_places_are_taken() -> None:
    """The third waits until one of two has left."""
    visits = Visits(2)
    for name in "abc":
        await visits.come(name)
    assert ["a", "b"] == visits.order

    await visits.end("a")

    assert ["a", "b", "c"] == visits.order


async def test_what_ends_goes_before_what_completes_and_what_begins() -> None:
    """And among equals who came first."""
    visits = Visits(1)
    await visits.come("first")
    methods: tuple[Method, ...] = ("POST", "PATCH", "GET", "DELETE", "PATCH")
    for number, method in enumerate(methods):
        await visits.come(f"{method}{number}", method)

    while len(visits.order) < 6:
        await visits.end(visits.order[-1])

    expected = ["first", "GET2", "DELETE3", "PATCH1", "PATCH4", "POST0"]
    assert expected == visits.order


async def test_status_goes_before_other_changes() -> None:
    """A finalizer is in no hurry; the clock of a drain must be written down."""
    visits = Visits(1)
    await visits.come("first")
    await visits.come("finalizer", "PATCH", "/records/a")
    await visits.come("status", "PATCH", "/records/a/status")

    await visits.end("first")

    assert ["first", "status"] == visits.order


async def test_places_are_kept_for_what_ends() -> None:
    """Neither a change nor a begin takes them, also when one of them falls free."""
    visits = Visits(1, kept=1)
    await visits.come("begin", "POST")
    await visits.come("change", "PATCH")
    await visits.come("end", "DELETE")
    assert ["begin", "end"] == visits.order

    await visits.end("end")
    assert ["begin", "end"] == visits.order

    await visits.end("begin")
    assert ["begin", "end", "change"] == visits.order


async def test_who_gives_up_waiting_takes_no_place() -> None:
    """The one behind gets it."""
    visits = Visits(1)
    for name in "abc":
        await visits.come(name)
    visits.tasks["b"].cancel()

    await visits.end("a")

    assert ["a", "c"] == visits.order


async def test_place_given_to_one_who_gives_up_at_that_moment_goes_on() -> None:
    """Cancelled after the place was given and before it could be taken."""
    visits = Visits(1)
    for name in "abc":
        await visits.come(name)
    visits.tasks["a"].cancel()
    await asyncio.sleep(0)  # a leaves, b has the place and has not run

    visits.tasks["b"].cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert "c" in visits.order


async def test_namespaces_take_turns() -> None:
    """What one creates by the thousand puts off another's request by one."""
    visits = Visits(1)
    await visits.come("first")
    for name in "abc":
        await visits.come(name, "DELETE", f"/apis/x/namespaces/many/records/{name}")
    await visits.come("X", "POST", "/apis/x/namespaces/few/records")

    while len(visits.order) < 5:
        await visits.end(visits.order[-1])

    assert ["first", "a", "X", "b", "c"] == visits.order


def test_namespace_of_a_request() -> None:
    """Its path names it; a list of all namespaces has none."""
    paths = (
        "/api/v1/namespaces/web/pods/a",
        "/apis/x/namespaces/few/records",
        "/api/v1/pods",
    )
    found = [namespace_of(ApiRequest("GET", path)) for path in paths]

    assert ["web", "few", ""] == found
