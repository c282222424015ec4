"""Drivers that know members by address alone, and those that find the addresses."""

import pytest

from tests.e2e import objects
from tests.e2e.objects import Whole
from tests.e2e.stage import Stage


pytestmark = pytest.mark.cluster


@pytest.fixture(name="plain")
async def _plain(bare: Stage) -> Stage:
    """A driver as LBCF's are: members by address, addresses found by the driver."""
    await bare.start_driver("Address")
    await bare.start("controller")
    await bare.start("deregistrar")
    await bare.setting(memberKey="Address", addressSource="Driver")
    await bare.until_epoch()
    return bare


async def _by_status(stage: Stage, status: str) -> list[Whole]:
    """Records whose Registered says so."""
    return [
        record
        for record in await stage.listed(objects.RECORDS)
        if record.condition("Registered").get("status") == status
    ]


async def test_driver_finds_the_address(plain: Stage) -> None:
    """It is asked with the whole pod, and the address is written before the ensure."""
    await plain.add_pod("a", "10.0.0.1")

    await plain.until_registered("10.0.0.1:80")

    [record] = await plain.listed(objects.RECORDS)
    assert "backendAddr" not in record.body["spec"]
    assert "10.0.0.1:80" == record.body["status"]["backendAddr"]
    assert "ensuring" not in record.body["status"]
    [lease] = [
        lease
        for lease in await plain.listed(objects.LEASES)
        if lease.meta.key.name.startswith("addr-")
    ]
    holder = f"{record.meta.key}/{record.meta.uid}"
    assert holder == lease.body["spec"]["holderIdentity"]

    await plain.delete(objects.PODS, "a")
    await plain.until_registered()


async def test_second_record_of_an_address_waits_for_the_first(plain: Stage) -> None:
    """Two groups want one address: one has it, the other names who does."""
    await plain.add_pod("a", "10.0.0.1")
    await plain.until_registered("10.0.0.1:80")
    await plain.create(objects.GROUPS, objects.a_group("again"))

    waiting = await plain.until_reason("Registered", "AddressInUse")
    [first] = await _by_status(plain, "True")
    told = waiting.condition("Registered")["message"]
    assert f"held by record {first.meta.key.name};" in told
    assert "backendAddr" not in waiting.body["status"]
    assert 1 == len(await plain.calls("ensureBackend"))


async def test_waiting_record_takes_over_when_the_first_is_gone(plain: Stage) -> None:
    """The address is never without a record that names it while it is registered."""
    await plain.add_pod("a", "10.0.0.1")
    await plain.until_registered("10.0.0.1:80")
    await plain.create(objects.GROUPS, objects.a_group("again"))
    waiting = await plain.until_reason("Registered", "AddressInUse")

    await plain.delete(objects.GROUPS, "web")

    async def taken_over() -> bool:
        found = await plain.get(objects.RECORDS, waiting.meta.key.name)
        assert found is not None
        return found.condition("Registered").get("status") == "True"

    await plain.until("the second record has the address", taken_over)
    assert {"10.0.0.1:80"} == await plain.members()
    order = [
        call["operation"]
        for call in (await plain.control("history"))["calls"]
        if call["operation"] in {"ensureBackend", "deregisterBackend"}
    ]
    assert ["ensureBackend", "deregisterBackend", "ensureBackend"] == order


async def test_unwaited_deletion_of_a_waiting_record_touches_nothing(
    plain: Stage,
) -> None:
    """A record that never had the address goes without a call."""
    await plain.add_pod("a", "10.0.0.1")
    await plain.until_registered("10.0.0.1:80")
    await plain.create(objects.GROUPS, objects.a_group("again"))
    waiting = await plain.until_reason("Registered", "AddressInUse")

    await plain.delete(objects.GROUPS, "again")

    async def gone() -> bool:
        return await plain.get(objects.RECORDS, waiting.meta.key.name) is None

    await plain.until("the waiting record is gone", gone)
    assert [] == await plain.calls("deregisterBackend")
    assert {"10.0.0.1:80"} == await plain.registered()


async def test_backend_says_the_address_where_the_driver_wants_that(
    bare: Stage,
) -> None:
    """MemberKey Address with addressSource Backend: a lock, but no question."""
    await bare.start_driver("Address")
    await bare.start("controller")
    await bare.setting(memberKey="Address")
    await bare.add_pod("a", "10.0.0.1")

    await bare.until_registered("10.0.0.1:80")
    assert [] == await bare.calls("generateBackendAddr")
