"""A member that another record owns stays, however its load balancer is spelled."""

import asyncio
import json

from typing import cast

import msgspec
import pytest

from lbcf.sdk import (
    CreateLoadBalancerRequest,
    DeleteLoadBalancerRequest,
    Driver,
    Fail,
    MemberKey,
    Service,
    Succ,
)
from lbcf.wire.driver import REQUESTS, Answer, Request, render_request
from tests.sdk.services import Json, post, serving
from tests.webhooks.requests import RECORD, a_list
from tests.webhooks.rig import OTHER, Rig
from tests.webhooks.rigs import those
from tests.webhooks.tenants import arrivals, ask
from tests.webhooks.troubled import settled


async def records(rig: Rig, driver: Driver, lb_info: dict[str, str]) -> list[str]:
    """Return the records that have members, where the list tells."""
    answer = await driver.list_backends(a_list(lb_info))
    return [one.record_id or "" for one in answer.backends] if rig.names_records else []


@those(lambda kind: kind.member_key is MemberKey.ADDRESS)
async def test_a_member_of_another_load_balancer_stays(rig: Rig) -> None:
    """It is neither taken over nor taken out by who names its pool otherwise."""
    overlap = await rig.overlap()
    driver = rig.start()
    await driver.ensure_backend(rig.ensure(lb_info=overlap.mine))
    before = await rig.left()

    for lb_info in overlap.others:
        ensure = rig.ensure(OTHER, lb_info)
        ensure.parameters.update(overlap.parameters)
        with pytest.raises(Fail, match=f"registered for record {RECORD} by a load bal"):
            await driver.ensure_backend(ensure)
        drained = await driver.drain_backend(rig.drain(OTHER, lb_info))
        gone = await driver.deregister_backend(rig.deregister(OTHER, lb_info))

        assert [Succ] * 2 == [type(one) for one in (drained, gone)]
        assert not rig.replaces_records or RECORD in str(gone.msg)
        assert before == await rig.left()
    assert [RECORD] * rig.names_records == await records(rig, driver, overlap.mine)


@those(lambda kind: kind.member_key is MemberKey.ADDRESS)
async def test_the_next_owner_of_the_same_pool_takes_over(rig: Rig) -> None:
    """Its lock says that the record before it is gone, whatever was left of it."""
    overlap = await rig.overlap()
    driver = rig.start()
    await driver.ensure_backend(rig.ensure(lb_info=overlap.mine))
    before = await rig.left()
    ensure = rig.ensure(OTHER, overlap.same)
    ensure.parameters.update(overlap.parameters)

    await driver.ensure_backend(ensure)
    late = await driver.deregister_backend(rig.deregister(lb_info=overlap.mine))
    between = await rig.left()
    owners = await records(rig, driver, overlap.mine)
    await settled(
        lambda: driver.deregister_backend(rig.deregister(OTHER, overlap.same))
    )

    assert isinstance(late, Succ)
    assert len(before) == len(between)
    assert [OTHER] * rig.names_records == owners
    assert [] == await rig.left()


async def test_a_copy_of_a_shared_load_balancer_gets_nothing_in(rig: Rig) -> None:
    """An lbSpec that was read elsewhere opens no pool, but what is in it can go."""
    driver = rig.start(rig.fenced)

    for request in arrivals(rig.lb_info, rig.ensure()):
        for namespace in ("shop", ""):
            with pytest.raises(Fail, match="is not open to load balancers of"):
                await ask(driver, request, namespace)
        assert [] == await rig.left()
        await ask(driver, request, "kube-system")
    within = await rig.left()
    await settled(lambda: driver.drain_backend(rig.drain()))
    await settled(lambda: driver.deregister_backend(rig.deregister()))

    assert within
    assert [] == await rig.left()


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:80", "[::1]:80", "[::ffff:7f00:1]:80", "169.254.169.254:80",
     "[fe80::1]:80", "0.0.0.0:80", "224.0.0.1:80", "10.0.0.1:080",
     "[2001:DB8::1]:80", "[2001:0db8:0::1]:80", "[fd00:ec2::254]:80"],
)  # fmt: skip
async def test_addresses_that_are_refused(rig: Rig, address: str) -> None:
    """What a load balancer reaches and its users must not; nothing is sent to it."""
    driver, before = rig.start(rig.closed), await rig.trace()
    request = msgspec.structs.replace(rig.ensure(), backend_addr=address)

    with pytest.raises(Fail, match="backendAddr"):
        await driver.ensure_backend(request)

    assert before == await rig.trace()
    assert [] == await rig.left()


async def answered(url: str, request: Request[Answer], **more: object) -> Json:
    """Return what a served driver says in the end to a request that says more."""
    operation = next(name for name, kind in REQUESTS.items() if kind is type(request))
    body = json.dumps(json.loads(render_request(request)) | more).encode()
    while True:
        status, answer = await post(url, operation, body)
        assert 200 == status, answer
        if answer.get("status") != "Running":
            return answer
        await asyncio.sleep(0.05)


async def answered_together(url: str, request: Request[Answer]) -> Json:
    """Return what it says in the end to a batch of that one request."""
    operation = next(name for name, kind in REQUESTS.items() if kind is type(request))
    body = json.dumps({"items": [json.loads(render_request(request))]}).encode()
    while True:
        status, answer = await post(url, f"{operation}s", body)
        assert 200 == status, answer
        (result,) = cast("list[Json]", answer["results"])
        if result["status"] != "Running":
            return result
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "address", ["node-1.example:80", "10.0.0.1", "0.0.0.0:80", "[fe80::1%eth0]:80", ""]
)
async def test_what_was_refused_for_its_address_can_go(rig: Rig, address: str) -> None:
    """Alone and in a batch: it never came in, and its record waits for the Succ."""
    before = await rig.trace()
    ensure = msgspec.structs.replace(rig.ensure(), backend_addr=address)
    leaving = [
        msgspec.structs.replace(one, backend_addr=address)
        for one in (rig.drain(), rig.deregister(), rig.deregister(drained=False))
    ]
    async with serving(Service(rig.make())) as url:
        refused = await answered(url, ensure)
        alone = [await answered(url, one) for one in leaving]
        together = [await answered_together(url, one) for one in leaving]

    assert "Fail" == refused["status"]
    assert ["Succ"] * 6 == [one["status"] for one in (*alone, *together)]
    assert before == await rig.trace()
    assert [] == await rig.left()


async def test_a_load_balancer_that_was_refused_can_go(rig: Rig) -> None:
    """What its lbSpec cannot be read as was never made, and its object waits for the Succ."""
    spec, before = {"bogus": "x"}, await rig.trace()
    create = CreateLoadBalancerRequest(record_id=RECORD, lb_spec=spec)
    delete = DeleteLoadBalancerRequest(record_id=RECORD, lb_info={}, lb_spec=spec)
    async with serving(Service(rig.make())) as url:
        said = [await answered(url, one) for one in (create, delete)]

    assert ["Fail", "Succ"] == [one["status"] for one in said]
    assert before == await rig.trace()


async def test_parameters_that_were_refused_keep_no_member_in(rig: Rig) -> None:
    """Nobody may have asked the driver about a change: the member is as it was before."""
    ensure, changed = rig.ensure(), rig.ensure()
    leaving = [rig.drain(), rig.deregister()]
    for one in (changed, *leaving):
        one.parameters.update({"nonsense": "x"})
    async with serving(Service(rig.make())) as url:
        first = await answered(url, ensure)
        await answered(url, changed)
        ends = [await answered(url, one) for one in leaving]

    assert ["Succ"] * 3 == [one["status"] for one in (first, *ends)]
    assert [] == await rig.left()


@those(lambda kind: kind.member_key is MemberKey.ADDRESS)
async def test_a_record_without_a_lock_takes_no_member(rig: Rig) -> None:
    """A LoadBalancerDriver may say memberKey Record: nobody locks an address then."""
    parameters = (await rig.overlap()).parameters
    async with serving(Service(rig.make())) as url:
        assert "Succ" == (await answered(url, rig.ensure()))["status"]
        before = [*await rig.left(), await rig.state()]
        theirs = rig.ensure(OTHER)
        theirs.parameters.update(parameters)
        item = json.loads(render_request(theirs)) | {"memberKey": "Record"}

        refused = [
            await answered(url, request, memberKey="Record")
            for request in arrivals(rig.lb_info, theirs)
        ]
        _, batch = await post(
            url, "ensureBackends", json.dumps({"items": [item]}).encode()
        )
        ended = [
            await answered(url, request, memberKey="Record")
            for request in (rig.drain(OTHER), rig.deregister(OTHER))
        ]
        after = [*await rig.left(), await rig.state()]
        own = await answered(url, rig.deregister(), memberKey="Record")

    refused += cast("list[Json]", batch["results"])
    assert [False] + ["Fail"] * 4 == [one.get("status", False) for one in refused]
    assert all("memberKey: Address" in str(one["msg"]) for one in refused)
    assert ["Succ"] * 3 == [one["status"] for one in (*ended, own)]
    assert before == after
    assert [] == await rig.left()
