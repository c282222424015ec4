"""The command as people run it: flags, exit status, reports, a driver that is killed."""

import asyncio
import contextlib
import json
import os
import signal
import sys

from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree as ET

import pytest

from aiohttp import web

from lbcf import sdk
from lbcf.conformance.flags import read_connect
from tests.conformance.breaks import Sweeping
from tests.conformance.plain import PlainLbcfDriver
from tests.conformance.stages import Served, a_target, serving
from tests.lab.cluster.ports import free_ports
from webhooks.memory import MemoryDriver


_DECLARED = ("--operations", "drainBackend,listBackends", "--lb-spec", "name=lb")

_RESTART = """\
import os, pathlib, signal, subprocess, sys
port, noted = sys.argv[1], pathlib.Path(sys.argv[2])
os.kill(int(noted.read_text()), signal.SIGKILL)
child = subprocess.Popen(
    [sys.executable, "-m", "webhooks.memory", "--bind-address", f"127.0.0.1:{port}"],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
noted.write_text(str(child.pid))
"""


async def run(*flags: str) -> tuple[int, str, str]:
    """Run the command; return exit status, output, and what it complained of."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "lbcf",
        "conformance",
        *flags,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, complaint = await child.communicate()
    assert child.returncode is not None
    return child.returncode, out.decode(), complaint.decode()


@pytest.fixture(name="plain")
async def _plain() -> AsyncIterator[Served]:
    """Serve a plain driver."""
    async with serving(PlainLbcfDriver().application) as served:
        yield served


async def test_a_good_driver(plain: Served, tmp_path: Path) -> None:
    """Exit status 0, a line for each rule, and reports that machines can read."""
    written = tmp_path / "report.json", tmp_path / "report.xml"
    status, out, _ = await run(
        plain.url, "--json", str(written[0]), "--junit", str(written[1])
    )

    report = json.loads(written[0].read_text())
    suite = ET.fromstring(written[1].read_text()).find("testsuite")  # noqa: S314
    assert 0 == status
    assert "ok    ensure-twice: Ensuring what is ensured is Succ" in out
    assert 0 == report["summary"]["failed"]
    assert suite is not None
    assert ("0", str(len(report["rules"]))) == (
        suite.get("failures"),
        suite.get("tests"),
    )
    assert str(report["summary"]["not applicable"]) == suite.get("skipped")


async def test_a_broken_driver(tmp_path: Path) -> None:
    """Exit status 1; text, JSON and JUnit show the rule and the exchange."""
    written = tmp_path / "report.json", tmp_path / "report.xml"
    async with a_target(Sweeping) as target:
        status, out, _ = await run(
            target.url,
            *_DECLARED,
            "--rule=others-stay",
            f"--json={written[0]}",
            f"--junit={written[1]}",
        )

    (rule,) = json.loads(written[0].read_text())["rules"]
    failure = ET.fromstring(written[1].read_text()).find(".//failure")  # noqa: S314
    assert 1 == status
    assert "FAIL  others-stay" in out
    assert "request: POST listBackends" in out
    assert ("others-stay", "failed") == (rule["id"], rule["outcome"])
    assert "listBackends" == rule["shownBy"]["operation"]
    assert "deregisterBackend" in [one["operation"] for one in rule["exchanges"]]
    assert failure is not None
    assert rule["text"] == failure.get("message")


async def test_a_reader_that_has_seen_enough(plain: Served) -> None:
    """Under `| head` it ends quietly."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lbcf", "conformance", plain.url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    await child.stdout.readline()
    # Closes the pipe, as `head` does at its end.
    child.stdout._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001
    complaint = await child.stderr.read()
    await child.wait()

    assert (1, b"") == (child.returncode, complaint)


@pytest.mark.parametrize("colours", [True, False])
async def test_colours_are_for_a_terminal(plain: Served, *, colours: bool) -> None:
    """Unless NO_COLOR is set."""
    reader, writer = os.openpty()
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lbcf", "conformance", plain.url, "--rule=healthz"),
        stdout=writer,
        env=environment if colours else environment | {"NO_COLOR": "1"},
    )
    assert 0 == await child.wait()
    os.close(writer)
    out = os.read(reader, 4096).decode()
    os.close(reader)

    assert ("\x1b[32mok  \x1b[0m  healthz" in out) is colours
    assert "healthz" in out


async def test_load(plain: Served) -> None:
    """After the rules, load is put on it; what it bore is told."""
    status, out, _ = await run(plain.url, "--rule=healthz", "--load=40", "--seed=7")

    assert 0 == status
    assert "load  seed 7: bore 16 lifecycles at a time" in out
    assert "p99" in out


async def test_a_killed_process(tmp_path: Path) -> None:
    """The restart command kills a real process in the middle of its work."""
    (port,) = free_ports(1)
    noted, script = tmp_path / "pid", tmp_path / "restart.py"
    script.write_text(_RESTART)
    url = f"http://127.0.0.1:{port}"
    first = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "webhooks.memory",
        f"--bind-address=127.0.0.1:{port}",
        stderr=asyncio.subprocess.PIPE,
    )
    noted.write_text(str(first.pid))
    try:
        assert first.stderr is not None
        await first.stderr.readline()
        command = f"{sys.executable} {script} {port} {noted}"
        flags = (*_DECLARED, "--rule=restart-in-the-middle", "--patience=300")
        status, out, _ = await run(url, *flags, "--restart-command", command)
    finally:
        second = int(noted.read_text())
        _kill(second)
        await first.wait()

    assert (0, -signal.SIGKILL) == (status, first.returncode), out
    assert second != first.pid
    assert "1 passed" in out


async def test_connections_are_made_by_a_command(tmp_path: Path) -> None:
    """The command is told the member and the number."""
    seen = tmp_path / "seen"
    script = f"echo $LBCF_BACKEND_ADDR $LBCF_RECORD_ID $LBCF_CONNECTIONS > {seen}"
    connect = read_connect(f"sh -c '{script}'")
    assert connect is not None

    await connect("198.18.0.1:80", "record", 3)

    assert "198.18.0.1:80 record 3\n" == seen.read_text()


async def test_what_a_command_writes_is_not_in_the_report(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It goes to standard error."""
    connect = read_connect("echo opening")
    assert connect is not None

    await connect("198.18.0.1:80", "record", 3)

    assert ("", "opening\n") == capfd.readouterr()


async def test_a_command_that_fails_is_told(plain: Served) -> None:
    """The rule that needs it fails, and says which command it was."""
    status, out, _ = await run(
        plain.url, "--rule=restart-in-the-middle", "--restart-command=false"
    )

    assert 1 == status
    assert "a command of the kit failed: false ended with status 1" in out


async def test_the_token_is_sent(tmp_path: Path) -> None:
    """A driver that wants a bearer token gets that of the file."""
    token = tmp_path / "token"
    token.write_text("secret\n")

    async def healthz(request: web.Request) -> web.Response:
        fine = "Bearer secret" == request.headers.get("Authorization")
        return web.json_response({"healthy": fine})

    def make() -> web.Application:
        app = web.Application()
        app.router.add_post("/healthz", healthz)
        return app

    async with serving(make) as served:
        told = await run(served.url, "--rule=healthz", f"--token-file={token}")
        untold = await run(served.url, "--rule=healthz")

    assert (0, 1) == (told[0], untold[0])
    assert "secret" not in told[1] + told[2]


def _kill(pid: int) -> None:
    """End a process."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("ftp://there",), "URL 'ftp://there': write http://"),
        (("http://h", "--lb-spec", "x"), "--lb-spec 'x': write KEY=VALUE"),
        (("http://h", "--operations", "drian"), "--operations 'drian': write of"),
        (("http://h", "--patience", "0"), "--patience '0'"),
        (("http://h", "--rule", "none"), "--rule 'none': write one of valid-answers"),
        (("http://h", "--ca-file", "/nowhere"), "--ca-file"),
        (("http://h", "--token-file", "/nowhere"), "--token-file /nowhere"),
        (("http://h", "--token-file", "/dev/null"), "there is no token in it"),
        (("http://h", "--key-file", "/dev/null"), "needs --cert-file"),
        (("http://h", "--cert-file", "/dev/null"), "no PEM certificate with its"),
        (("http://h", "--member-key", "Name"), "--member-key"),
        (("http://127.0.0.1:9",), "no driver at http://127.0.0.1:9"),
        ((), "URL"),
    ],
)
async def test_wrong_flags(flags: tuple[str, ...], message: str) -> None:
    """Exit status 2, and one line that says what is wrong."""
    status, out, complaint = await run(*flags)

    assert (2, "") == (status, out)
    assert message in complaint
    assert 1 == complaint.count("\n")


class Pools(MemoryDriver):
    """Has one pool, whose identity is another map than its lbSpec; deletes what is named.

    What else the identity says is skipped, as foreign fields are.
    """

    deleted: ClassVar[list[str]] = []

    async def create_load_balancer(
        self, _request: sdk.CreateLoadBalancerRequest
    ) -> sdk.Succ:
        """Name the pool."""
        return sdk.Succ(lb_info={"pool": "mine"})

    async def delete_load_balancer(
        self, request: sdk.DeleteLoadBalancerRequest
    ) -> sdk.Succ:
        """Note it."""
        self.deleted.append(request.lb_info["pool"])
        return sdk.Succ()


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("name=gone", "--gone-lb 'name': the lbInfo of this driver has pool"),
        (
            "pool=mine",
            "--gone-lb: lbInfo pool='mine' is the load balancer that is used",
        ),
    ],
)
async def test_a_gone_load_balancer_is_never_the_one_in_use(
    gone: str, message: str
) -> None:
    """What does not change the identity is refused before anything is deleted."""
    Pools.deleted.clear()
    async with a_target(Pools) as target:
        flags = (target.url, "--lb-spec=name=lb", "--rule=delete-gone-load-balancer")
        status, out, complaint = await run(*flags, f"--gone-lb={gone}")
        good, _, _ = await run(*flags, "--gone-lb=pool=gone")

    assert (2, "") == (status, out)
    assert message in complaint
    assert (0, ["gone"]) == (good, Pools.deleted)


async def test_what_has_no_identity_is_not_deleted(plain: Served) -> None:
    """Without lbSpec and lbInfo each load balancer would be this one."""
    status, out, _ = await run(plain.url, "--rule=delete-gone-load-balancer")

    assert 0 == status
    assert "n/a   delete-gone-load-balancer" in out
    assert "--gone-lb" in out
