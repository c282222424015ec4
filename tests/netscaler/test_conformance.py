"""The driver keeps to the protocol: every rule of the kit, on an appliance."""

from pathlib import Path

import pytest

from lbcf.conformance.findings import Outcome
from lbcf.conformance.target import OPTIONAL, Target
from lbcf.sdk import MemberKey, Service
from tests.conformance.stages import complaints, ended, results_of
from tests.conformance.stages import serving as serving_application
from tests.conformance.test_schemathesis import keeps
from tests.netscaler.appliances import Site
from tests.netscaler.configuration import Configuration, Member


def connections_of(site: Site, address: str, number: int) -> None:
    """Give the member at an address so many connections, without end."""
    host, _, port = address.rpartition(":")
    (key,) = [
        member.key
        for member in site.unit.running.members.values()
        if (member.ip, str(member.port)) == (host, port)
    ]
    site.unit.traffic.finish(key)
    for _ in range(number):
        site.unit.traffic.open(key, 3600)


def with_strangers(configuration: Configuration) -> None:
    """Add a server and a member of somebody else's."""
    configuration.add_server("theirs", "198.18.0.99", "do not touch")
    configuration.bind(_a_stranger())


def _a_stranger() -> Member:
    """Return somebody else's member."""
    return Member("web", "theirs", "", 8080, customserverid="None")


@pytest.mark.timeout(180)
async def test_every_rule(site: Site) -> None:
    """All rules pass, nothing is left of the kit, and nobody else was touched."""
    site.unit.change(with_strangers)
    before = site.unit.running.copy()

    async def connect(address: str, _record: str, number: int) -> None:
        """Give a member connections."""
        connections_of(site, address, number)

    async with serving_application(
        lambda: Service(site.driver()).application()
    ) as served:
        target = Target(
            url=served.url,
            lb_spec=site.lb_info,
            gone={"serviceGroup": "nowhere"},
            parameters={"weight": "3"},
            member_key=MemberKey.ADDRESS,
            declared=OPTIONAL,
            restart=served.restart,
            connect=connect,
        )
        results = await results_of(target)

    assert {} == complaints(results)
    assert {
        "both-spellings",
        "judged-pods-were-asked-for",
        "records-share-an-address",
    } == ended(results, Outcome.NOT_APPLICABLE)
    assert before == site.unit.running


@pytest.mark.timeout(240)
async def test_the_contract(site: Site, tmp_path: Path) -> None:
    """Whatever it is asked, it answers as the contract says; strangers stay."""
    site.unit.change(with_strangers)
    before = site.unit.running.copy()

    await keeps(tmp_path, site.driver(), site.lb_info)

    assert before == site.unit.running
