"""Batches at a served driver: an answer for each item, whatever becomes of the others."""

import asyncio
import json

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from lbcf import sdk
from lbcf.sdk import EnsureBackendRequest, Running, Succ
from lbcf.sdk.server import Service
from tests.sdk.services import Json, PlainDriver, call, post, serving, settle


LONG_AGO = "2020-01-01T00:00:00Z"


def an_item(name: str, **fields: object) -> Json:
    """Return the body of a call about a member of its own."""
    said: Json = {"recordID": name, "retryID": name, "backendAddr": f"{name}:80"}
    return said | fields


async def batch(url: str, operation: str, *items: Json) -> dict[str, Json]:
    """Call a batch; return the results by recordID."""
    status, answer = await post(url, operation, json.dumps({"items": items}).encode())
    assert 200 == status, answer
    results = answer["results"]
    assert isinstance(results, list)
    return {one["recordID"]: one for one in results}


def statuses(results: Mapping[str, Json]) -> dict[str, object]:
    """Return how items ended."""
    return {name: one["status"] for name, one in results.items()}


class Picky(PlainDriver):
    """Refuses one member, breaks on another; all others are put there."""

    async def ensure_backend(self, request: EnsureBackendRequest) -> Succ | Running:
        """Look at who it is."""
        if request.record_id == "refused":
            raise sdk.Permanent("never")
        if request.record_id == "breaks":
            raise ValueError("a mistake")
        return Succ(injected_info={"was": request.record_id}, in_service=False)

    async def drain_backend(self, request: sdk.DrainBackendRequest) -> Running:
        """Count as many connections as the name has letters."""
        return Running(active_connections=len(request.record_id))


async def test_a_driver_for_single_members_serves_batches() -> None:
    """Its author has written nothing for it: each item has the answer of a call alone."""
    async with serving(Service(Picky())) as url:
        items = [an_item(name) for name in ("a", "refused", "breaks", "b")]
        results = await batch(url, "ensureBackends", *items)
        drains = await batch(url, "drainBackends", an_item("abc"), an_item("ab"))
        ended = await batch(url, "deregisterBackends", an_item("a", drained=True))

    assert {"a": "Succ", "refused": "Fail", "breaks": "Fail", "b": "Succ"} == statuses(
        results
    )
    assert {"was": "b"} == results["b"]["injectedInfo"]
    assert False is results["b"]["inService"]
    assert ("never", 3600) == (
        results["refused"]["msg"],
        results["refused"]["minRetryDelayInSeconds"],
    )
    assert {"abc": 3, "ab": 2} == {
        name: one["activeConnections"] for name, one in drains.items()
    }
    assert {"a": "Succ"} == statuses(ended)


async def test_batches_are_served_where_their_operation_is() -> None:
    """Who drains nobody has no batch of it either."""
    async with serving(Service(PlainDriver())) as url:
        body = json.dumps({"items": [an_item("a")]}).encode()
        status, answer = await post(url, "drainBackends", body)

    assert 404 == status
    assert "deregisterBackends" in str(answer["error"])


@pytest.mark.parametrize(
    ("items", "told"),
    [
        pytest.param([], "1 to 1000", id="none"),
        pytest.param([an_item("a"), an_item("a")], "each recordID once", id="twice"),
        pytest.param([an_item("a"), {"recordID": "b"}], "backendAddr", id="no address"),
    ],
)
async def test_a_batch_that_cannot_be_answered_is_refused(
    items: list[Json], told: str
) -> None:
    """Before anything is done of it: results are told apart by recordID."""
    driver = PlainDriver()
    async with serving(Service(driver)) as url:
        body = json.dumps({"items": items}).encode()
        status, answer = await post(url, "ensureBackends", body)

    assert 400 == status
    assert told in str(answer["error"])
    assert [] == driver.begun


async def test_a_member_that_hangs_keeps_nobody_waiting() -> None:
    """It is answered Running, goes on, and its next attempt comes after it."""
    driver, gate = PlainDriver(), asyncio.Event()

    async def hold(request: EnsureBackendRequest) -> Succ:
        """Hang for one member, until the test has seen the answer."""
        if request.record_id == "hangs":
            await gate.wait()
        return Succ()

    driver.on_ensure = hold
    async with serving(Service(driver)) as url:
        names = ["a", "hangs", "b"]
        results = await batch(url, "ensureBackends", *map(an_item, names))
        ended = list(driver.ended)
        again = asyncio.create_task(
            call(url, "ensureBackend", **an_item("hangs", retryID="again"))
        )
        await settle()
        begun = list(driver.begun)
        gate.set()
        await again

    assert {"a": "Succ", "hangs": "Running", "b": "Succ"} == statuses(results)
    assert ["a", "b"] == ended
    assert "again" not in begun
    assert ["a", "b", "hangs", "again"] == driver.ended


async def test_so_many_at_a_time() -> None:
    """A batch is no storm for the load balancer behind."""
    driver, inside, most = PlainDriver(), 0, 0
    driver.batch_concurrency = 3

    async def count(_request: EnsureBackendRequest) -> Succ:
        """Take note of how many are inside."""
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        return Succ()

    driver.on_ensure = count
    async with serving(Service(driver)) as url:
        items = [an_item(f"r{number}") for number in range(20)]
        results = await batch(url, "ensureBackends", *items)

    assert (20, 3) == (len(results), most)


async def test_a_late_item_is_refused_alone() -> None:
    """Each has its own notAfter."""
    driver = PlainDriver()
    async with serving(Service(driver)) as url:
        late = an_item("late", notAfter=LONG_AGO)
        results = await batch(url, "ensureBackends", late, an_item("a"))

    assert {"late": "Fail", "a": "Succ"} == statuses(results)
    assert ["a"] == driver.ended


async def test_a_driver_that_stops_refuses_each_item() -> None:
    """It begins nothing, and says so of each."""
    driver = PlainDriver()
    service = Service(driver)
    async with serving(service) as url:
        await service.drain(timedelta())
        results = await batch(url, "ensureBackends", an_item("a"), an_item("b"))

    assert {"a": "Fail", "b": "Fail"} == statuses(results)
    assert "stopping" in str(results["a"]["msg"])
    assert [] == driver.begun


async def test_items_are_counted_as_operations() -> None:
    """Each by its own outcome, and batches by their size."""
    async with serving(Service(Picky())) as url:
        await batch(url, "ensureBackends", an_item("a"), an_item("refused"))
        page = await _metrics(url)

    assert (
        'lbcf_sdk_operations_total{operation="ensureBackend",outcome="Fail"} 1' in page
    )
    assert (
        'lbcf_sdk_operations_total{operation="ensureBackend",outcome="Succ"} 1' in page
    )
    assert 'lbcf_sdk_batch_items_sum{operation="ensureBackends"} 2.0' in page


async def _metrics(url: str) -> str:
    """Read /metrics."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    page = await reader.read()
    writer.close()
    return page.decode()


class Gathering(PlainDriver):
    """Has a method for many; says of each what the test wants.

    Attributes:
        calls: the records of each call.
        outcomes: by record; Succ where nothing is said, None: the record is left out.
        raised: what the method raises, instead of all that.
    """

    batch = sdk.Batch()

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[str]] = []
        self.outcomes: dict[str, sdk.Outcome | None] = {}
        self.raised: BaseException | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def ensure_backends(
        self, requests: Sequence[EnsureBackendRequest]
    ) -> Mapping[str, sdk.Outcome]:
        """Take note of the call."""
        self.calls.append([one.record_id for one in requests])
        await self.gate.wait()
        if self.raised is not None:
            raise self.raised
        said = {one.record_id: Succ() for one in requests} | self.outcomes
        return {name: one for name, one in said.items() if one is not None}


async def test_a_method_for_many_is_called_once() -> None:
    """With all items; its values are outcomes, as a method for one would raise them."""
    driver = Gathering()
    driver.outcomes = {
        "refused": sdk.Fail("no"),
        "alone": sdk.RetrySingly(),
        "silent": None,
    }
    async with serving(Service(driver)) as url:
        names = ["a", "refused", "alone", "silent"]
        results = await batch(url, "ensureBackends", *map(an_item, names))

    assert [names] == driver.calls
    assert {"a": "Succ", "refused": "Fail", "alone": "Fail"} == statuses(results)
    assert ["alone"] == [name for name, one in results.items() if one["retrySingly"]]
    assert "is to be asked for alone" in str(results["alone"]["msg"])


class Ending(Gathering):
    """Takes note of how its calls for many end, and of its own end."""

    def __init__(self) -> None:
        super().__init__()
        self.gate.clear()
        self.told: list[str] = []

    async def ensure_backends(
        self, requests: Sequence[EnsureBackendRequest]
    ) -> Mapping[str, sdk.Outcome]:
        """Take a moment to put things right where it is cut."""
        try:
            return await super().ensure_backends(requests)
        finally:
            await settle()
            self.told.append("ended")

    async def stop(self) -> None:
        """Take note."""
        self.told.append("stopped")


async def test_a_method_for_many_is_cut_with_its_items() -> None:
    """Nothing is changed any more once the driver has stopped."""
    driver = Ending()
    service = Service(driver)
    async with serving(service) as url:
        calling = asyncio.create_task(
            batch(url, "ensureBackends", an_item("a"), an_item("b"))
        )
        while not driver.calls:
            await settle()
        await service.drain(timedelta())
        cut = list(driver.told)
        await asyncio.gather(calling, return_exceptions=True)
    driver.gate.set()
    await settle()

    assert ["ended"] == cut
    assert ["ended", "stopped"] == driver.told


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        pytest.param(sdk.Fail("down"), {"a": "Fail", "b": "Fail"}, id="a refusal"),
        pytest.param(
            sdk.RetryAfter(timedelta(seconds=1)),
            {"a": "Running", "b": "Running"},
            id="not yet",
        ),
        pytest.param(ValueError("a mistake"), {}, id="a mistake"),
    ],
)
async def test_what_a_method_for_many_raises(
    raised: Exception, expected: dict[str, str]
) -> None:
    """A refusal is each item's; after a mistake nobody knows what became of any."""
    driver = Gathering()
    driver.raised = raised
    async with serving(Service(driver)) as url:
        results = await batch(url, "ensureBackends", an_item("a"), an_item("b"))

    assert expected == statuses(results)


async def test_a_method_for_many_that_is_cut_off_below_keeps_no_member() -> None:
    """Nobody knows what became of any; the next call has its turn."""
    driver = Gathering()
    driver.raised = asyncio.CancelledError()
    async with serving(Service(driver)) as url, asyncio.timeout(20):
        cut = await batch(url, "ensureBackends", an_item("a"), an_item("b"))
        driver.raised = None
        results = await batch(url, "ensureBackends", an_item("a"), an_item("b"))

    assert {} == cut
    assert {"a": "Succ", "b": "Succ"} == statuses(results)


async def test_a_busy_member_comes_in_a_later_call() -> None:
    """What its member has under way keeps one item back, and no other."""
    driver = Gathering()
    driver.gate.clear()
    async with serving(Service(driver)) as url:
        first = asyncio.create_task(batch(url, "ensureBackends", an_item("a")))
        await settle()
        names = ["a", "b", "c"]
        second = asyncio.create_task(batch(url, "ensureBackends", *map(an_item, names)))
        await settle()
        before = list(driver.calls)
        driver.gate.set()
        results = await second
        await first

    assert [["a"], ["b", "c"]] == before
    assert ["a"] == driver.calls[2]
    assert dict.fromkeys(names, "Succ") == statuses(results)


def test_an_outcome_for_batches_is_a_failure_elsewhere() -> None:
    """A caller that asks for one member already asks singly."""
    assert isinstance(sdk.RetrySingly("why"), sdk.Fail)
