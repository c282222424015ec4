"""The benchmark's own arithmetic: spreads, ledgers, pairs of moments, limits."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.lab.bench.calls import Call, Spread, between, first_began, spread
from tests.lab.bench.ledger import Ledger, counted
from tests.lab.bench.meters import about_members, samples
from tests.lab.bench.options import Options, parse
from tests.lab.bench.pods import Batch
from tests.lab.bench.stacks import shares
from tests.lab.bench.verdict import Line
from tests.lab.bench.waiting import measure


LINE = (
    '{"verb":"patch","user":{"username":"ours"},"objectRef":{"resource":"pods",'
    '"subresource":"status","name":"%s"},"responseStatus":{"code":200},'
    '"requestReceivedTimestamp":"2025-01-01T00:00:01.000000Z",'
    '"stageTimestamp":"2025-01-01T00:00:01.500000Z"}\n'
)


def a_call(operation: str, second: int) -> Call:
    """A call for one address."""
    moment = datetime.fromtimestamp(second, UTC)
    return Call(operation, "10.0.0.1:80", moment, moment, "Succ")


def test_spread_names_the_middle_and_the_worst() -> None:
    """In any order; nothing has no spread."""
    assert Spread(50, 99, 100, 101) == spread(range(100, -1, -1))
    assert spread([]) is None


def test_only_what_began_and_ended_counts() -> None:
    """Whoever has no second moment is left out."""
    assert Spread(2, 2, 2, 1) == between({"a": 1, "b": 1}, {"a": 3, "c": 9})


def test_first_of_several_calls_counts() -> None:
    """Of the operations that are asked for."""
    calls = [a_call("ensureBackend", 1), a_call("drainBackend", 5)]

    assert {"10.0.0.1:80": 5} == first_began(
        [*calls, a_call("drainBackend", 7)], "drainBackend"
    )


def test_a_batch_is_one_call() -> None:
    """Calls about members count, batches and single ones, and no others."""
    page = """# HELP lbcf_driver_calls_total Calls.
# TYPE lbcf_driver_calls_total counter
lbcf_driver_calls_total{driver="ns/a",operation="ensureBackend",outcome="Succ"} 3.0
lbcf_driver_calls_total{driver="ns/a",operation="ensureBackends",outcome="Succ"} 4.0
lbcf_driver_calls_total{driver="ns/a",operation="listBackends",outcome="Succ"} 50.0
lbcf_driver_batch_items_total{driver="ns/a",operation="ensureBackends"} 400.0
"""
    assert 7 == about_members(samples(page))


def test_ledger_takes_whole_lines_of_its_users_and_goes_on_where_it_was(
    tmp_path: Path,
) -> None:
    """Half a line is read when its rest has come."""
    log = tmp_path / "audit.log"
    log.write_text(LINE % "a" + LINE.replace("ours", "others") % "b" + LINE[:9])
    ledger = Ledger(log, ["ours"])
    assert 1 == ledger.read()

    log.write_text(log.read_text() + (LINE % "c")[9:])

    assert 2 == ledger.read()
    assert ["c"] == [entry.name for entry in ledger.since(1)]
    assert {"patch pods/status": 2} == counted(ledger.entries)
    assert pytest.approx(0.5) == ledger.entries[0].answered - ledger.entries[0].received


def test_pods_of_a_batch_have_addresses_of_their_own() -> None:
    """Over the borders of octets."""
    batch = Batch("a", 250, 20)

    assert 20 == len(set(batch.addresses().values()))
    assert ("10.0.0.250", "10.0.1.13") == (batch.address(0), batch.address(19))


@pytest.mark.parametrize(("figure", "holds"), [(1.3, True), (1.31, False)])
def test_limit_holds_up_to_itself(figure: float, *, holds: bool) -> None:
    """Not beyond."""
    assert holds is Line("x", figure, 1.3).holds


def test_command_line_says_sizes_and_scenarios() -> None:
    """Unsaid, all of them."""
    assert Options() == parse([])
    found = parse(["--sizes", "20,30", "--only", "storm", "--quick"])
    assert ((20, 30), ("storm",), True) == (found.sizes, found.scenarios, found.quick)


@pytest.mark.parametrize("wrong", [["--sizes", "x"], ["--sizes", "1"]])
def test_sizes_that_make_no_sense_are_refused(wrong: list[str]) -> None:
    """With a line on standard error."""
    with pytest.raises(SystemExit):
        parse(wrong)


def test_samples_count_for_who_called_the_library(tmp_path: Path) -> None:
    """And those of a loop that waits for nobody."""
    raw = tmp_path / "raw.txt"
    raw.write_text(
        "main (lbcf/cli.py:1);call (lbcf/drivers/client.py:2);send (aiohttp/x.py:3) 3\n"
        "main (lbcf/cli.py:1);run (lbcf/process/host.py:2);read (ssl.py:3) 1\n"
        "main (lbcf/cli.py:1);EpollSelector.select (selectors.py:468) 96\n"
    )

    assert {"driver calls": 75, "event loop, sockets, TLS": 25} == shares(raw)


async def test_pods_that_wait_for_records_cost_no_request() -> None:
    """Connections alone: while records are known to drain, nobody asks the API server."""
    found = await measure(25, phase=0.5)

    assert (25, 0) == (found.waiting, found.requests)
    assert "25 pods wait" in str(found)
