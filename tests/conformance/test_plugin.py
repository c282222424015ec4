"""The pytest plugin: each rule is a test, in a pytest of its own that finds it installed."""

import asyncio

from pathlib import Path

import pytest
import trustme

from aiohttp import web

from lbcf import sdk
from lbcf.conformance.kit import CATALOGUE
from lbcf.runtime.clock import SystemClock
from lbcf.runtime.flags import BindAddress
from lbcf.sdk.credentials import CredentialFiles, Guard
from lbcf.sdk.listener import Listener
from tests.conformance.breaks import Sweeping
from tests.conformance.plain import PlainLbcfDriver
from tests.conformance.stages import a_target, serving
from webhooks.memory import MemoryDriver


async def run(pytester: pytest.Pytester, *flags: str) -> pytest.RunResult:
    """Run pytest in an empty folder, while this loop serves the driver."""
    return await asyncio.to_thread(pytester.runpytest_subprocess, "-v", *flags)


async def test_each_rule_is_a_test(pytester: pytest.Pytester) -> None:
    """What is not about the driver is skipped, all else passes."""
    async with serving(PlainLbcfDriver().application) as served:
        result = await run(pytester, f"--lbcf-driver-url={served.url}")

    outcomes = result.parseoutcomes()
    assert 0 == result.ret
    assert len(CATALOGUE) == outcomes["passed"] + outcomes["skipped"]
    result.stdout.fnmatch_lines([f"*{rule.name}*" for rule in CATALOGUE])


async def test_a_broken_rule_is_a_failed_test(pytester: pytest.Pytester) -> None:
    """The failure shows the rule and the exchange; options reach the kit."""
    async with a_target(Sweeping) as target:
        result = await run(
            pytester,
            f"--lbcf-driver-url={target.url}",
            "--lbcf-driver-operations=listBackends",
            "--lbcf-driver-lb-spec=name=lb",
            *("-k", "others-stay"),
        )

    assert 1 == result.ret
    result.assert_outcomes(failed=1, deselected=len(CATALOGUE) - 1)
    result.stdout.fnmatch_lines(["*request: POST listBackends*"])


async def test_own_tests_run_beside_the_rules(pytester: pytest.Pytester) -> None:
    """An author's tests and the kit's are one run."""
    pytester.makepyfile("def test_mine():\n    pass\n")
    async with a_target(MemoryDriver) as target:
        flags = (f"--lbcf-driver-url={target.url}", "-k", "mine or healthz")
        result = await run(pytester, *flags)

    assert {"passed": 2} == {"passed": result.parseoutcomes()["passed"]}


async def test_a_secured_driver(pytester: pytest.Pytester) -> None:
    """Authorities, certificate with its key apart, and token reach the kit."""
    authority = trustme.CA()
    files = _written(pytester.path, authority)
    guard, clock = Guard(), SystemClock()
    runner = web.AppRunner(sdk.Service(MemoryDriver(), guard=guard).application())
    await runner.setup()
    assert runner.server is not None
    listener = Listener(runner.server, guard, files, clock)
    await listener.open(BindAddress("127.0.0.1", 0))
    port = listener.addresses[0].rpartition(":")[2]
    given = {"ca-file": "ca", "cert-file": "crt", "key-file": "key", "token-file": "t"}
    secrets = [f"--lbcf-driver-{k}={pytester.path / v}" for k, v in given.items()]
    url = f"--lbcf-driver-url=https://localhost:{port}"
    try:
        result = await run(pytester, url, *secrets, "-k", "healthz or ensure-twice")
        bare = await run(pytester, url, secrets[0], "-k", "healthz")
    finally:
        listener.close()
        await runner.cleanup()

    assert 0 == result.ret
    assert 1 == bare.ret
    bare.stdout.fnmatch_lines(["*HTTP 403*client certificate*"])


def _written(folder: Path, authority: trustme.CA) -> CredentialFiles:
    """Write what both sides need; return the driver's files."""
    server, caller = authority.issue_cert("localhost"), authority.issue_cert("me")
    (folder / "ca").write_bytes(authority.cert_pem.bytes())
    (folder / "server").write_bytes(server.private_key_and_cert_chain_pem.bytes())
    (folder / "crt").write_bytes(caller.cert_chain_pems[0].bytes())
    (folder / "key").write_bytes(caller.private_key_pem.bytes())
    (folder / "t").write_text("hush\n")
    return CredentialFiles(
        certificate=folder / "server", clients=folder / "ca", tokens=folder / "t"
    )


async def test_wrong_options(pytester: pytest.Pytester) -> None:
    """A wrong option is a usage error."""
    result = await run(
        pytester, "--lbcf-driver-url=http://h", "--lbcf-driver-operations=drian"
    )

    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(["*--operations 'drian'*"])


async def test_a_flag_that_the_driver_has_no_use_for(
    pytester: pytest.Pytester,
) -> None:
    """What only its answers show is told in one line, too."""
    async with serving(PlainLbcfDriver().application) as served:
        flags = (f"--lbcf-driver-url={served.url}", "--lbcf-driver-lb-spec=name=lb")
        result = await run(
            pytester, *flags, "--lbcf-driver-gone-lb=pool=gone", "-k", "healthz"
        )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["--gone-lb 'pool': the lbInfo of this driver has *"])


async def test_without_a_driver_nothing_is_added(pytester: pytest.Pytester) -> None:
    """Who has the plugin and no driver sees nothing of it."""
    result = await run(pytester)

    assert pytest.ExitCode.NO_TESTS_COLLECTED == result.ret
