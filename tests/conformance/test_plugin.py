"""The pytest plugin: each rule is a test, in a pytest of its own."""

import asyncio
import sys

from pathlib import Path

from lbcf.conformance.kit import CATALOGUE
from tests.conformance.breaks import Sweeping
from tests.conformance.plain import PlainLbcfDriver
from tests.conformance.stages import a_target, serving


async def run(folder: Path, *flags: str) -> tuple[int, str]:
    """Run pytest with the plugin in an empty folder; return exit status and output."""
    root = Path(__file__).parents[2]
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "pytest", "-p", "lbcf.conformance.pytest_plugin", "-v", *flags),
        f"--rootdir={folder}",
        *("-c", "/dev/null"),
        str(folder),
        cwd=root,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await child.communicate()
    assert child.returncode is not None
    return child.returncode, out.decode()


async def test_each_rule_is_a_test(tmp_path: Path) -> None:
    """What is not about the driver is skipped, all else passes."""
    async with serving(PlainLbcfDriver().application) as served:
        status, out = await run(tmp_path, f"--driver-url={served.url}")

    assert 0 == status, out
    assert all(rule.name in out for rule in CATALOGUE)
    assert "skipped" in out


async def test_a_broken_rule_is_a_failed_test(tmp_path: Path) -> None:
    """The failure shows the rule and the exchange; options reach the kit."""
    async with a_target(Sweeping) as target:
        status, out = await run(
            tmp_path,
            f"--driver-url={target.url}",
            "--driver-operations=listBackends",
            "--driver-lb-spec=name=lb",
            "-k",
            "others-stay",
        )

    assert 1 == status, out
    assert "request: POST listBackends" in out
    assert "1 failed" in out


async def test_wrong_options(tmp_path: Path) -> None:
    """A wrong option is a usage error."""
    status, out = await run(
        tmp_path, "--driver-url=http://h", "--driver-operations=drian"
    )

    assert 4 == status
    assert "--operations 'drian'" in out


async def test_without_a_driver_nothing_is_added(tmp_path: Path) -> None:
    """Who has the plugin and no driver sees nothing of it."""
    status, _ = await run(tmp_path)

    assert 5 == status
