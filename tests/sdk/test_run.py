"""A driver as a process: flags, signals, and an end that cuts nothing."""

import asyncio
import contextlib
import json
import resource
import signal
import socket
import sys

from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import cast

import aiohttp
import attrs
import pytest

from tests.sdk.services import Json, call, post


@attrs.frozen
class Running:
    """A driver's process that serves.

    Attributes:
        process: to be sent signals.
        url: where it serves.
    """

    process: Process
    url: str

    async def ended(self) -> tuple[int, list[Json]]:
        """Wait for its end; return its status and what it logged until then."""
        _, text = await self.process.communicate()
        status = self.process.returncode
        assert status is not None
        return status, [json.loads(line) for line in text.splitlines()]


async def started(*flags: str, under: Sequence[str] = ()) -> Process:
    """Start the driver in memory with these flags, by another program if it is named."""
    return await asyncio.create_subprocess_exec(
        *under,
        sys.executable,
        "-m",
        "webhooks.memory",
        *flags,
        cwd=Path(__file__).parents[2],
        stdout=PIPE,
        stderr=PIPE,
    )


async def finished(*flags: str) -> tuple[int | None, str, str]:
    """Run the driver to its end; return its status and both of its outputs."""
    process = await started(*flags)
    assert process.stdout is not None
    assert process.stderr is not None
    told = b""
    try:
        async for line in process.stderr:
            told += line
            if b"driver.serving" in line:
                process.kill()  # nobody else would end it
        shown = await process.stdout.read()
        await process.wait()
    finally:
        # A driver that serves in spite of its flags must not outlive the test.
        if process.returncode is None:
            process.kill()
    return process.returncode, shown.decode(), told.decode()


@contextlib.asynccontextmanager
async def running(*flags: str, under: Sequence[str] = ()) -> AsyncIterator[Running]:
    """Run the driver on a free port until the test ends."""
    process = await started("--bind-address", "127.0.0.1:0", *flags, under=under)
    try:
        assert process.stderr is not None
        first = json.loads(await process.stderr.readline())
        assert "driver.serving" == first["event"]
        yield Running(process, f"http://{first['addresses'][0]}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def behave(url: str, mode: str, seconds: float) -> None:
    """Make the next ensureBackend go so."""
    wish = {"operation": "ensureBackend", "mode": mode, "seconds": seconds}
    status, _ = await post(url, "control/behave", json.dumps(wish).encode())
    assert 200 == status


async def begun(url: str) -> asyncio.Task[Json]:
    """Call ensureBackend; return once the driver is at it."""
    calling = asyncio.create_task(call(url, "ensureBackend"))
    async with aiohttp.ClientSession() as session:
        members: list[Json] = []
        while not members:
            async with session.get(f"{url}/control/members") as answer:
                members = (await answer.json(content_type=None))["members"]
    return calling


async def until_refused(url: str) -> None:
    """Wait until the driver takes no more connections."""
    host, _, port = url.removeprefix("http://").partition(":")
    with contextlib.suppress(ConnectionError):
        while True:
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_an_idle_driver(number: signal.Signals) -> None:
    """Nothing to wait for: the end is clean."""
    async with running() as driver:
        driver.process.send_signal(number)
        status, logged = await driver.ended()

    assert 0 == status
    assert ["shutdown.requested", "driver.stopped"] == [e["event"] for e in logged]


async def test_soft_limit_of_open_files_is_raised() -> None:
    """Containers have little of it: callers and load balancers are connections."""
    async with running(under=("prlimit", "--nofile=256:4096")) as driver:
        limits = resource.prlimit(driver.process.pid, resource.RLIMIT_NOFILE)

    assert (4096, 4096) == limits


async def test_what_has_begun_is_answered_before_the_end() -> None:
    """A rollout of the driver costs no call."""
    async with running("--log-level", "debug") as driver:
        await behave(driver.url, "slow", 10)
        under_way = await begun(driver.url)
        driver.process.send_signal(signal.SIGTERM)
        await until_refused(driver.url)
        assert "Succ" == (await under_way)["status"]
        status, logged = await driver.ended()

    told = [one["event"] for one in logged]
    assert 0 == status
    assert told.index("shutdown.requested") < told.index("operation.ended")


async def test_the_grace_period_ends() -> None:
    """A stuck call is cut, and the log says so."""
    async with running("--grace-period", "0.1") as driver:
        await behave(driver.url, "slow", 600)
        under_way = await begun(driver.url)
        driver.process.send_signal(signal.SIGTERM)
        with pytest.raises(aiohttp.ClientError):
            await under_way
        status, logged = await driver.ended()

    assert 0 == status
    (cut,) = [event for event in logged if event["event"] == "operation.cut"]
    assert ("ensureBackend", 0.1) == (cut["operation"], cut["grace"])


async def test_a_second_signal_ends_at_once() -> None:
    """A person who presses twice does not want to wait."""
    async with running("--grace-period", "600") as driver:
        await behave(driver.url, "slow", 600)
        under_way = await begun(driver.url)
        driver.process.send_signal(signal.SIGTERM)
        await until_refused(driver.url)
        driver.process.send_signal(signal.SIGTERM)
        with pytest.raises(aiohttp.ClientError):
            await under_way
        assert 130 == await driver.process.wait()


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        pytest.param(["--bind-address", "9000"], "HOST:PORT", id="no port"),
        pytest.param(["--bind-address", "a:70000"], "HOST:PORT", id="port too high"),
        pytest.param(["--bind-address", "0"], "must listen", id="off"),
        pytest.param(["--log-level", "loud"], "debug", id="log level"),
        pytest.param(["--log-format", "xml"], "console", id="log format"),
        pytest.param(["--grace-period", "-1"], "0 to 86400", id="negative period"),
        pytest.param(["--grace-period", "nan"], "0 to 86400", id="no number"),
        pytest.param(["--member-key", "Name"], "Record", id="the driver's own flag"),
        pytest.param(["--port", "9000"], "--port", id="unknown flag"),
        pytest.param(["--tls-key-file", "a"], "--tls-cert-file", id="key alone"),
        pytest.param(["--client-ca-file", "a"], "--tls-cert-file", id="no TLS"),
    ],
)
async def test_wrong_flags_are_told_in_one_line(flags: list[str], text: str) -> None:
    """The line names the flag and what it takes; no traceback, no usage."""
    status, _, told = await finished(*flags)

    assert 2 == status
    (line,) = told.splitlines()
    assert line.startswith("memory: ")
    assert flags[0] in line
    assert text in line


async def test_credentials_that_are_not_there_are_told_in_one_line() -> None:
    """A driver is not served in another way than it was told to."""
    status, _, told = await finished("--token-file", "/nowhere/tokens")

    assert (2, 1) == (status, len(told.splitlines()))
    assert "/nowhere/tokens: No such file" in told


async def test_an_address_in_use_is_told_in_one_line() -> None:
    """The line names the address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:{}".format(cast("tuple[str, int]", taken.getsockname())[1])
        status, _, told = await finished("--bind-address", address)

    assert 1 == status
    (line,) = told.splitlines()
    assert f"memory: cannot serve on {address}" in line
    assert "in use" in line


EXPOSED = [":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "somewhere.test:0"]


@pytest.mark.parametrize("address", EXPOSED)
async def test_nobody_listens_beyond_loopback_without_credentials(address: str) -> None:
    """A certificate of the driver's own tells nothing of its callers."""
    status, _, told = await finished("--bind-address", address)

    assert 2 == status
    assert 1 == told.count("\n")
    for word in ("--token-file", "--client-ca-file", "--insecure-no-credentials"):
        assert word in told


async def test_the_default_address_needs_credentials() -> None:
    """It is every interface."""
    status, _, told = await finished()

    assert (2, True) == (status, "--bind-address 127.0.0.1:9000" in told)


@pytest.mark.parametrize("way", ["loopback", "token", "told"])
async def test_ways_to_listen(way: str, tmp_path: Path) -> None:
    """On loopback, with a token, or where the operator says that it is wanted."""
    tokens = tmp_path / "token"
    tokens.write_text("one-of-32-letters-or-so-0123456789\n")
    flags = {
        "loopback": ("--bind-address", "[::1]:0"),
        "token": ("--bind-address", ":0", "--token-file", str(tokens)),
        "told": ("--bind-address", "0.0.0.0:0", "--insecure-no-credentials"),
    }[way]
    process = await started(*flags)
    try:
        assert process.stderr is not None
        event = json.loads(await process.stderr.readline())
    finally:
        process.kill()
        await process.communicate()

    assert "driver.serving" == event["event"]


async def test_help_names_every_flag() -> None:
    """What can be said is found by asking."""
    status, shown, _ = await finished("--help")

    assert 0 == status
    for flag in ("--bind-address", "--log-level", "--grace-period", "--member-key"):
        assert flag in shown
