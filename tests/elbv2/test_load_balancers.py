"""Load balancers: target groups by name and ARN, several of them, their attributes."""

import contextlib

import pytest

from lbcf.sdk import (
    BackendState,
    BackendType,
    CreateLoadBalancerRequest,
    DeleteLoadBalancerRequest,
    EnsureLoadBalancerRequest,
    Fail,
    GenerateBackendAddrRequest,
    NodeAddress,
    NodeBackend,
    PodBackend,
    PortSelector,
    RetryAfter,
    ServiceBackend,
    Succ,
    ValidateBackendRequest,
    ValidateLoadBalancerRequest,
    ValidationOperation,
)
from tests.elbv2.clients import (
    ADDRESS,
    KEY,
    RECORD,
    a_deregister,
    a_drain,
    a_list,
    an_ensure,
    an_identity,
)
from tests.elbv2.clocks import QuickClock
from tests.elbv2.conftest import MakeDriver
from tests.elbv2.emulator import OURS, Emulator
from tests.elbv2.state import DELAY, REGION, ApiError, EmulatedGroup
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.elbv2.load_balancers import AllowedGroups


NODE = {
    "spec": {"providerID": "aws:///eu-test-1a/i-0123456789abcdef0"},
    "status": {"addresses": [{"type": "InternalIP", "address": "198.18.0.7"}]},
}


def a_create(
    attributes: dict[str, str] | None = None, **spec: str
) -> CreateLoadBalancerRequest:
    """Return a request to create a load balancer."""
    return CreateLoadBalancerRequest(
        record_id=RECORD,
        lb_spec={"region": REGION} | spec,
        attributes=attributes or {},
    )


async def test_names_become_arns(driver: Elbv2Driver, group: EmulatedGroup) -> None:
    """The identity has the ARN and the type; looked up again it is the same."""
    answer = await driver.create_load_balancer(a_create(targetGroups="web"))
    again = await driver.create_load_balancer(
        a_create(targetGroups=f"{group.arn}, web")
    )

    assert {"targetGroups": group.arn, "targetType": "ip"} == answer.lb_info
    assert answer == again


async def test_the_region_of_the_driver(
    make_driver: MakeDriver, group: EmulatedGroup
) -> None:
    """It is that of target groups that are named without one."""
    driver = make_driver(region=REGION)
    request = a_create(targetGroups="web", region="")

    assert group.arn in str(await driver.create_load_balancer(request))


async def test_attributes(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """Those that differ are set, and no others; AWS is not told what it knows."""
    wanted = {DELAY: "30", "stickiness.enabled": "false"}
    await driver.create_load_balancer(a_create(wanted, targetGroups="web"))
    request = EnsureLoadBalancerRequest(
        record_id=RECORD, lb_info=an_identity(group), attributes=wanted
    )
    await driver.ensure_load_balancer(request)

    assert "30" == group.attributes[DELAY]
    assert 1 == len(emulator.made("ModifyTargetGroupAttributes"))


async def test_a_dry_run_sets_no_attributes(
    driver: Elbv2Driver, group: EmulatedGroup
) -> None:
    """Nothing is changed by it."""
    request = CreateLoadBalancerRequest(
        record_id=RECORD,
        lb_spec={"targetGroups": group.arn},
        attributes={DELAY: "1"},
        dry_run=True,
    )

    await driver.create_load_balancer(request)

    assert "60" == group.attributes[DELAY]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"colour": "red"}, "no attribute 'colour'"),
        ({DELAY: "soon"}, "must be between 0 and 3600"),
    ],
)
@pytest.mark.usefixtures("group")
async def test_attributes_that_cannot_be(
    driver: Elbv2Driver, attributes: dict[str, str], message: str
) -> None:
    """They are refused with the reason."""
    with pytest.raises(Fail, match=message):
        await driver.create_load_balancer(a_create(attributes, targetGroups="web"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "targetGroups is missing"),
        ({"targetGroups": "web", "colour": "red"}, "'colour' is unknown"),
        ({"targetGroups": "a_b"}, "neither the ARN"),
        ({"targetGroups": "arn:aws:iam::1:role/x"}, "neither the ARN"),
        ({"targetGroups": ",".join(f"g{n}" for n in range(17))}, "more than 16"),
        ({"targetGroups": "web", "region": "../x"}, "no region's name"),
        ({"targetGroups": "nobodys"}, "TargetGroupNotFound"),
        ({"targetGroups": "function"}, "target types are lambda"),
        ({"targetGroups": "web,nodes"}, "target types are instance, ip"),
        ({"targetGroups": "private"}, "private is not allowed"),
    ],
)
async def test_load_balancers_that_cannot_be(
    driver: Elbv2Driver,
    emulator: Emulator,
    clock: QuickClock,
    spec: dict[str, str],
    message: str,
) -> None:
    """They are refused when they are validated, with the reason."""
    for name, kind in (
        ("web", "ip"),
        ("nodes", "instance"),
        ("function", "lambda"),
        ("private", "ip"),
    ):
        emulator.add(EmulatedGroup(clock, name, kind))
    driver.load_balancers.allowed = AllowedGroups(("[!p]*",))
    spec = {"region": REGION} | spec

    with pytest.raises(Fail, match=message):
        await driver.validate_load_balancer(ValidateLoadBalancerRequest(lb_spec=spec))


@pytest.mark.parametrize(
    ("pattern", "is_allowed"),
    [
        ("w*", True),
        ("w", False),
        ("arn:aws:elasticloadbalancing:eu-test-1:123456789012:*/web/*", True),
        ("arn:*:999999999999:*", False),
        ("*123456789012*", False),
    ],
)
async def test_allowed_target_groups(
    driver: Elbv2Driver, group: EmulatedGroup, pattern: str, is_allowed: bool
) -> None:
    """A pattern is one of names, or of ARNs; it counts at each call."""
    driver.load_balancers.allowed = AllowedGroups((pattern,))
    with contextlib.ExitStack() as refused:
        if not is_allowed:
            refused.enter_context(pytest.raises(Fail, match="--allow-target-groups"))
        await driver.ensure_backend(an_ensure(an_identity(group)))

    assert is_allowed == bool(group.owners)


async def test_an_update_while_aws_is_away(
    driver: Elbv2Driver, emulator: Emulator
) -> None:
    """It is validated without asking."""
    emulator.fail("DescribeTargetGroups", ApiError("InternalFailure", "no", 500))
    request = ValidateLoadBalancerRequest(
        lb_spec={"targetGroups": "web"}, operation=ValidationOperation.UPDATE
    )

    await driver.validate_load_balancer(request)


async def test_a_new_one_while_aws_is_away(make_driver: MakeDriver) -> None:
    """An outage says nothing about the load balancer: it is no refusal."""
    driver = make_driver(endpoint_url="http://127.0.0.1:1")
    request = ValidateLoadBalancerRequest(
        lb_spec={"region": REGION, "targetGroups": "web"},
        operation=ValidationOperation.CREATE,
    )

    with pytest.raises(RetryAfter, match="was not sent"):
        await driver.validate_load_balancer(request)


async def test_a_name_is_no_identity(driver: Elbv2Driver) -> None:
    """A name may belong to another target group by now: it is not acted upon."""
    with pytest.raises(Fail, match="'web' is a name"):
        await driver.ensure_backend(an_ensure({"targetGroups": "web"}))


async def test_deleting_leaves_the_target_group(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup
) -> None:
    """It belongs to the operator."""
    request = DeleteLoadBalancerRequest(record_id=RECORD, lb_info=an_identity(group))

    assert Succ() == await driver.delete_load_balancer(request)
    assert group.arn in emulator.groups


async def test_two_target_groups(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, clock: QuickClock
) -> None:
    """A member is in both, and drained when it is out of both."""
    other = emulator.add(EmulatedGroup(clock, "other"))
    other.attributes[DELAY] = "0"
    lb_info = an_identity(group, other)
    await driver.ensure_backend(an_ensure(lb_info))
    both = [dict(group.owners), dict(other.owners)]
    draining = await driver.drain_backend(a_drain(lb_info))
    listed = await driver.list_backends(a_list(lb_info))
    await driver.deregister_backend(a_deregister(lb_info))

    assert [{KEY: OURS}] * 2 == both
    assert "draining in target group web" in (draining.msg or "")
    assert [BackendState.DRAINING] == [one.state for one in listed.backends]
    assert [{}, {}] == [group.owners, other.owners]


async def test_one_of_two_target_groups_fails(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, clock: QuickClock
) -> None:
    """The other one is served all the same; the message says which, and why."""
    other = emulator.add(EmulatedGroup(clock, "other"))
    other.quota = 0
    lb_info = an_identity(group, other)

    with pytest.raises(Fail, match=r"1 of 2 target groups failed: .*TooManyTargets"):
        await driver.ensure_backend(an_ensure(lb_info))
    listed = await driver.list_backends(a_list(lb_info))

    assert {KEY: OURS} == group.owners
    assert [(ADDRESS, BackendState.DOWN, "missing")] == [
        (one.backend_addr, one.state, one.reason) for one in listed.backends
    ]


async def test_instances(
    driver: Elbv2Driver, emulator: Emulator, clock: QuickClock
) -> None:
    """A target group of instances takes nodes, and no addresses."""
    instance = "i-0123456789abcdef0"
    group = emulator.add(
        EmulatedGroup(clock, "nodes", "instance", instances=[instance])
    )
    lb_info = an_identity(group)
    found = await driver.generate_backend_addr(
        GenerateBackendAddrRequest(
            record_id=RECORD,
            lb_info=lb_info,
            node_backend=NodeBackend(node=NODE, port=PortSelector(port=30080)),
        )
    )
    await driver.ensure_backend(an_ensure(lb_info, found.backend_addr or ""))

    with pytest.raises(Fail, match="no target of type instance"):
        await driver.ensure_backend(an_ensure(lb_info))
    assert {(instance, 30080): OURS} == group.owners


@pytest.mark.parametrize(
    ("backend", "address"),
    [
        (
            {"pod_backend": PodBackend(pod={}, port=PortSelector(port=80))},
            "no address",
        ),
        (
            {
                "pod_backend": PodBackend(
                    pod={"status": {"podIP": "2001:db8::0:1"}},
                    port=PortSelector(port=80),
                )
            },
            "[2001:db8::1]:80",
        ),
        (
            {"node_backend": NodeBackend(node=NODE, port=PortSelector(port=80))},
            "198.18.0.7:80",
        ),
        (
            {
                "service_backend": ServiceBackend(
                    service={"spec": {"ports": [{"port": 80, "nodePort": 30001}]}},
                    port=PortSelector(port=80),
                    node_addresses=[NodeAddress(type="InternalIP", address="10.0.0.1")],
                )
            },
            "10.0.0.1:30001",
        ),
        (
            {
                "service_backend": ServiceBackend(
                    service={"spec": {"ports": "many"}}, port=PortSelector(port=80)
                )
            },
            "cannot be read",
        ),
    ],
)
async def test_addresses(
    driver: Elbv2Driver,
    group: EmulatedGroup,
    backend: dict[str, object],
    address: str,
) -> None:
    """Each kind of backend has its address, or is told why it has none."""
    request = GenerateBackendAddrRequest(
        record_id=RECORD,
        lb_info=an_identity(group),
        **backend,  # type: ignore[arg-type]
    )
    try:
        said = (await driver.generate_backend_addr(request)).backend_addr or ""
    except Fail as error:
        said = error.msg

    assert address in said


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"weight": "1"}, "'weight' is unknown; known are availabilityZone, adopt"),
        ({"availabilityZone": "A zone"}, "`all` or a zone's name"),
        ({"adopt": "yes"}, "true or false"),
    ],
)
async def test_parameters_that_cannot_be(
    driver: Elbv2Driver,
    group: EmulatedGroup,
    parameters: dict[str, str],
    message: str,
) -> None:
    """They are refused when validated, and when used."""
    request = ValidateBackendRequest(
        backend_type=BackendType.POD, parameters=parameters
    )

    with pytest.raises(Fail, match=message):
        await driver.validate_backend(request)
    with pytest.raises(Fail, match=message):
        await driver.ensure_backend(
            an_ensure(an_identity(group), "10.0.0.1:80", parameters=parameters)
        )


async def test_the_zone_stays(driver: Elbv2Driver) -> None:
    """That of a target that is in is not changed; adopting may be said later."""
    request = ValidateBackendRequest(
        backend_type=BackendType.POD,
        operation=ValidationOperation.UPDATE,
        old_parameters={"availabilityZone": "all"},
        parameters={"adopt": "true"},
    )

    with pytest.raises(Fail, match="cannot be changed while members are registered"):
        await driver.validate_backend(request)


@pytest.mark.parametrize(
    "address",
    ["", "198.18.0.1", "198.18.0.1:0", "0.0.0.0:80", "127.0.0.1:80", "i-1:80", "a.b:1"],
)
async def test_addresses_that_cannot_be(
    driver: Elbv2Driver, emulator: Emulator, group: EmulatedGroup, address: str
) -> None:
    """They are refused before anything is sent."""
    with pytest.raises(Fail, match="backendAddr"):
        await driver.ensure_backend(an_ensure(an_identity(group), address))

    assert [] == emulator.calls
