"""What requests and flags may say; nothing is sent for what they may not."""

import attrs
import pytest

from lbcf.sdk import (
    BackendType,
    CreateLoadBalancerRequest,
    DeleteLoadBalancerRequest,
    EnsureLoadBalancerRequest,
    Fail,
    RetryAfter,
    Succ,
    ValidateBackendRequest,
    ValidateLoadBalancerRequest,
    ValidationOperation,
)
from tests.netscaler.appliances import Site
from tests.netscaler.requests import an_ensure
from tests.webhooks.requests import a_deregister, a_drain, a_list
from webhooks.device.errors import InvalidInput
from webhooks.device.trust import read_trust
from webhooks.netscaler.driver import NetscalerDriver
from webhooks.netscaler.load_balancers import parse_identity
from webhooks.netscaler.members import Mark, checked_prefix, parse_address
from webhooks.netscaler.parameters import Options, parse_options


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "devices is missing"),
        ({"devices": "https://a"}, "serviceGroup is missing"),
        ({"devices": "https://a", "serviceGroup": "w", "x": "1"}, "'x' is unknown"),
        ({"devices": "https://a", "serviceGroup": "a,b"}, "no name that NITRO takes"),
        ({"devices": "https://a/path", "serviceGroup": "w"}, "device"),
        ({"devices": "a,b,c", "serviceGroup": "w"}, "a pair has 2 units, not 3"),
    ],
)
def test_bad_identities(fields: dict[str, str], text: str) -> None:
    """A load balancer that cannot be used is refused, with the reason."""
    with pytest.raises(InvalidInput, match=text):
        parse_identity(fields)


def test_identity_is_written_in_one_form() -> None:
    """However it was written, it is kept in the same form."""
    identity = parse_identity({"devices": "ADC-1, https://b:8443", "serviceGroup": "w"})

    kept = {"devices": "https://adc-1,https://b:8443", "serviceGroup": "w"}
    assert kept == identity.render()
    assert identity == parse_identity(kept)


@pytest.mark.parametrize(
    "text",
    ["", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:65535", "10.0.0.256:80", "web:80",
     "::1:80", "[10.0.0.1]:80", "[fe80::1%eth0]:80", "0.0.0.0:80", "224.0.0.1:80",
     "10.0.0.1:80 ", "10.0.0.1:+80"],
)  # fmt: skip
def test_bad_addresses(text: str) -> None:
    """What is no address of one member is refused: 65535 means every port in NITRO."""
    with pytest.raises(InvalidInput, match="backendAddr"):
        parse_address(text)


@pytest.mark.parametrize("text", ["10.0.0.1:1", "[2001:db8::1]:65534"])
def test_good_addresses(text: str) -> None:
    """An address is shown as it was written."""
    assert text == str(parse_address(text))


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"weight": "0"}, "weight must be a number from 1 to 100, not '0'"),
        ({"weight": "101"}, "weight"),
        ({"weight": "1.5"}, "weight"),
        ({"state": "DISABLED"}, "state must be enabled or disabled"),
        ({"wait": "1"}, "'wait' is unknown; known are weight, state"),
    ],
)
def test_bad_parameters(parameters: dict[str, str], text: str) -> None:
    """Parameters that the appliance would not take are refused before it is asked."""
    with pytest.raises(InvalidInput, match=text):
        parse_options(parameters)


def test_good_parameters() -> None:
    """Those that are not said have defaults."""
    assert Options(1, serves=True) == parse_options({})
    assert Options(100, serves=False) == parse_options(
        {"weight": "100", "state": "disabled"}
    )


@pytest.mark.parametrize("text", ["", "a-b", "1a", "a" * 21, "a_b", "ä"])
def test_bad_prefixes(text: str) -> None:
    """A prefix must end where the record's id begins, and begin a server's name."""
    with pytest.raises(InvalidInput, match="name prefix"):
        checked_prefix(text)


@pytest.mark.parametrize("text", ["", "-1", "1-", "a--b", "a.b", "a" * 64])
def test_bad_records(text: str) -> None:
    """An id that could not be read back is refused."""
    with pytest.raises(InvalidInput, match="recordID"):
        Mark("lbcf", text)


async def test_load_balancers(site: Site, driver: NetscalerDriver) -> None:
    """They are found, not made; they may have no attributes."""
    created = await driver.create_load_balancer(
        CreateLoadBalancerRequest(record_id="1", lb_spec=site.lb_info)
    )
    ensured = EnsureLoadBalancerRequest(record_id="1", lb_info=site.lb_info)

    key = parse_identity(site.lb_info).lock_key
    assert Succ(lb_info=site.lb_info, lock_key=key) == created
    assert Succ(lock_key=key) == await driver.ensure_load_balancer(ensured)
    assert Succ() == await driver.delete_load_balancer(
        DeleteLoadBalancerRequest(record_id="1", lb_info=site.lb_info)
    )
    with pytest.raises(Fail, match="'vip' is unknown; this driver has none"):
        await driver.ensure_load_balancer(
            EnsureLoadBalancerRequest(
                record_id="1", lb_info=site.lb_info, attributes={"vip": "1"}
            )
        )
    assert [] == site.nitro.changes()


async def test_validation(site: Site, driver: NetscalerDriver) -> None:
    """A new load balancer must be there; an old one may be away for the moment."""
    spec = site.lb_info | {"serviceGroup": "gone"}

    with pytest.raises(Fail, match="there is no service group gone"):
        await driver.validate_load_balancer(
            ValidateLoadBalancerRequest(
                lb_spec=spec, operation=ValidationOperation.CREATE
            )
        )
    await driver.validate_load_balancer(
        ValidateLoadBalancerRequest(
            lb_spec=spec, operation=ValidationOperation.UPDATE, old_attributes={}
        )
    )
    with pytest.raises(Fail, match="weight"):
        await driver.validate_backend(
            ValidateBackendRequest(
                backend_type=BackendType.POD,
                lb_info=site.lb_info,
                operation=ValidationOperation.CREATE,
                parameters={"weight": "many"},
            )
        )


async def test_a_device_that_is_not_allowed(site: Site) -> None:
    """Nothing is sent to a device that the operator did not list."""
    driver = site.driver()
    lb_info = site.lb_info | {"devices": "https://127.0.0.1:1"}

    for ask in (
        lambda: driver.ensure_backend(an_ensure(lb_info)),
        lambda: driver.drain_backend(a_drain(lb_info)),
        lambda: driver.deregister_backend(a_deregister(lb_info)),
        lambda: driver.list_backends(a_list(lb_info)),
    ):
        with pytest.raises(Fail, match=r"https://127.0.0.1:1 is not allowed by this"):
            await ask()
    await driver.stop()


async def test_an_untrusted_certificate(site: Site) -> None:
    """A password is not sent to whoever answers."""
    ground = attrs.evolve(site.driver().ground, tls=read_trust())
    driver = NetscalerDriver(ground)

    with pytest.raises(Fail, match=r"is not trusted .* --device-ca-file"):
        await driver.ensure_backend(an_ensure(site.lb_info))

    assert [] == site.nitro.heard
    await driver.stop()


async def test_validation_of_an_appliance_that_is_away(site: Site) -> None:
    """An outage says nothing about the load balancer: it is no refusal."""
    site.served[0] = attrs.evolve(site.served[0], url="https://127.0.0.1:1")
    driver = site.driver()
    spec = {"devices": "https://127.0.0.1:1", "serviceGroup": "web"}
    request = ValidateLoadBalancerRequest(
        lb_spec=spec, operation=ValidationOperation.CREATE
    )

    with pytest.raises(RetryAfter, match=r"127\.0\.0\.1:1"):
        await driver.validate_load_balancer(request)
    await driver.stop()
