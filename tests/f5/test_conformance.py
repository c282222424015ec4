"""The F5 driver keeps the protocol's rules, on an emulated unit."""

import asyncio

from pathlib import Path

import attrs
import pytest

from lbcf.conformance.findings import Outcome
from lbcf.conformance.target import OPTIONAL, Target
from lbcf.sdk import Service
from tests.conformance.stages import complaints, ended, results_of, serving
from tests.conformance.test_schemathesis import keeps
from tests.f5.drivers import a_driver
from tests.f5.requests import WEB, an_identity
from tests.f5.server import Bigip


NOT_OFFERED = {
    "both-spellings",
    "judged-pods-were-asked-for",
    "records-share-an-address",
}
"""Addresses and judgements are not this driver's; members go by address."""


async def test_the_driver_passes(bigip: Bigip, secret: Path) -> None:
    """All rules that concern it; nothing is left, and nobody else was touched."""
    bigip.unit.running.add_member(WEB, {"name": "198.18.1.1:80", "description": "me"})
    before = bigip.unit.members(WEB)

    def connect(address: str, _record: str, number: int) -> asyncio.Future[None]:
        """Let a member have so many connections."""
        bigip.unit.connections[WEB, f"/Common/{address}"] = number
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async with serving(lambda: Service(a_driver(secret)).application()) as served:
        target = Target(
            url=served.url,
            lb_spec=an_identity(bigip),
            gone={"pool": "/Common/nowhere"},
            parameters={"ratio": "2"},
            declared=OPTIONAL,
            restart=served.restart,
            connect=connect,
        )
        results = await results_of(attrs.evolve(target))

    assert NOT_OFFERED == ended(results, Outcome.NOT_APPLICABLE)
    assert {} == complaints(results)
    assert before == bigip.unit.members(WEB)


@pytest.mark.timeout(240)
async def test_the_contract(bigip: Bigip, secret: Path, tmp_path: Path) -> None:
    """Whatever it is asked, it answers as the contract says; strangers stay."""
    bigip.unit.running.add_member(WEB, {"name": "198.18.1.1:80", "description": "me"})
    before = bigip.unit.members(WEB)

    await keeps(tmp_path, a_driver(secret), an_identity(bigip))

    assert before == bigip.unit.members(WEB)
