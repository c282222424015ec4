"""Schemathesis against drivers: no server error, and answers as the contract has them."""

import asyncio
import json
import sys

from pathlib import Path
from typing import cast

import pytest

from lbcf.conformance.openapi import document
from lbcf.core.model.operations import Operation
from lbcf.sdk import Driver, Service
from lbcf.sdk.replies import served_operations
from tests.conformance.stages import Twist, serving, twisted
from webhooks.memory import MemoryDriver


pytestmark = pytest.mark.long

Json = dict[str, "Json"]

_CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance"
)
_EXAMPLES = 20


async def run(folder: Path, url: str, contract: Json) -> tuple[int, str]:
    """Run it, seeded and short; return exit status and output."""
    file = folder / "driver.json"
    file.write_text(json.dumps(contract))
    child = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("schemathesis")),
        *("run", str(file), "--url", url, "--checks", _CHECKS, "--seed", "1"),
        *("--phases", "coverage,fuzzing", "--max-examples", str(_EXAMPLES)),
        *("--no-color", "--warnings", "off", "--generation-database", "none"),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await child.communicate()
    assert child.returncode is not None
    return child.returncode, out.decode()


def contract_with(lb_info: dict[str, str], *operations: Operation) -> Json:
    """Return the contract for operations on this load balancer alone."""
    contract = cast("Json", document())
    for kind, schema in contract["components"]["schemas"].items():
        properties = schema.get("properties", {}) if kind.endswith("Request") else {}
        for name in {"lbInfo", "lbSpec"} & set(properties):
            properties[name] = {"const": lb_info}  # type: ignore[dict-item]
    paths = {f"/{operation}" for operation in operations}
    for path in set(contract["paths"]) - paths:
        del contract["paths"][path]
    return contract


async def keeps(
    folder: Path, driver: Driver, lb_info: dict[str, str] | None = None
) -> None:
    """Put a shipped driver under test: all that it serves, on this load balancer.

    Where there is no identity it is asked about any load balancer.
    """
    contract = cast("Json", document())
    if lb_info is not None:
        contract = contract_with(lb_info, *served_operations(driver))
    async with serving(lambda: Service(driver).application()) as served:
        status, out = await run(folder, served.url, contract)

    assert 0 == status, out


async def test_the_memory_driver(tmp_path: Path) -> None:
    """All operations, whatever they are asked."""
    await keeps(tmp_path, MemoryDriver())


async def test_a_driver_that_does_not_keep_to_it(tmp_path: Path) -> None:
    """An answer without its healthy field is found."""
    mute = Twist(answer=lambda _name, _body: b"{}")
    async with (
        serving(lambda: Service(MemoryDriver()).application()) as served,
        twisted(served.url, mute) as url,
    ):
        contract = contract_with({}, Operation.HEALTHZ)
        status, out = await run(tmp_path, url, contract)

    assert 1 == status, out
    assert "healthy" in out
