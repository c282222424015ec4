"""Each no of a real HAProxy becomes its own error, with advice."""

import pytest

from lbcf.sdk import (
    BackendType,
    CreateLoadBalancerRequest,
    Fail,
    Succ,
    ValidateBackendRequest,
    ValidateLoadBalancerRequest,
    ValidationOperation,
)
from tests.haproxy.proxy import Haproxy
from tests.haproxy.requests import an_ensure, an_identity
from tests.webhooks.requests import RECORD
from webhooks.haproxy import errors
from webhooks.haproxy.commands import Command
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.endpoints import Endpoint
from webhooks.haproxy.load_balancers import parse_identity
from webhooks.haproxy.runtime_api import RuntimeApi


pytestmark = pytest.mark.haproxy

MINE = "web/lbcf-mine"

REFUSALS = {
    "set server nowhere/x state ready": errors.NoSuchBackend,
    "add server nowhere/x 127.0.0.1:1": errors.NoSuchBackend,
    "set server web/nobody state ready": errors.NoSuchServer,
    "enable health web/nobody": errors.NoSuchServer,
    "del server web/nobody": errors.NoSuchServer,
    "shutdown sessions server web/nobody": errors.NoSuchServer,
    f"add server {MINE} 127.0.0.1:1": errors.ServerExists,
    "add server fixed/x 127.0.0.1:1": errors.StaticAlgorithm,
    "add server hashed/x 127.0.0.1:1": errors.StaticAlgorithm,
    f"del server {MINE}": errors.NotInMaintenance,
    f"enable health {MINE}": errors.NoHealthCheck,
    "add server web": errors.MissingArgument,
    "add server web/x": errors.MissingArgument,
    f"set server {MINE} state asleep": errors.InvalidState,
    f"set server {MINE} weight 300": errors.InvalidWeight,
    "add server web/x 127.0.0.1:1 weight 300": errors.InvalidWeight,
    "add server web/x 127.0.0.1:70000": errors.InvalidAddress,
    "add server web/x 127.0.0.1:abc": errors.InvalidAddress,
    f"set server {MINE} addr bogus": errors.InvalidAddress,
    "add server web/x 127.0.0.1:1 bogus": errors.OptionRefused,
    "add server web/x 127.0.0.1:1 redir /x": errors.OptionRefused,
    "add server web/x 127.0.0.1:1 ssl": errors.OptionRefused,
    "add server web/x#y 127.0.0.1:1": errors.InvalidName,
    "bogus": errors.UnknownCommand,
    "show servers state": errors.UnknownRefusal,
}


def an_api(proxy: Haproxy, socket: str = "admin.sock") -> RuntimeApi:
    """Return a client of the HAProxy."""
    return RuntimeApi(Endpoint(path=str(proxy.folder / socket)))


@pytest.mark.parametrize(("line", "kind"), REFUSALS.items())
async def test_each_text_has_its_error(
    driver: HaproxyDriver, proxy: Haproxy, line: str, kind: type[errors.Refused]
) -> None:
    """What HAProxy answers to the line is raised as that error; it names both."""
    await driver.ensure_backend(an_ensure(an_identity(proxy), "127.0.0.1:1", "mine"))

    with pytest.raises(errors.Refused) as caught:
        await an_api(proxy).change(Command(line))

    assert kind is type(caught.value)
    assert proxy.socket in str(caught.value)
    assert kind.advice in str(caught.value)


def test_each_error_has_advice() -> None:
    """No known refusal leaves people with the general hint."""
    assert {errors.UnknownRefusal} == {
        kind
        for kind in errors.Refused.__subclasses__()
        if kind.advice == errors.Refused.advice
    }


def test_the_table_is_tested_whole() -> None:
    """Each error of the table is met in a real HAProxy, here or below."""
    elsewhere = {errors.PermissionDenied, errors.StillConnected}

    assert set(errors.REFUSALS.values()) == elsewhere | (
        set(REFUSALS.values()) - {errors.UnknownRefusal}
    )


async def test_a_socket_that_is_not_admin(proxy: Haproxy) -> None:
    """A socket of level user is refused, with what to change."""
    with pytest.raises(errors.PermissionDenied, match="level admin"):
        await an_api(proxy, "user.sock").change(Command(f"del server {MINE}"))


async def test_a_backend_that_is_gone(proxy: Haproxy) -> None:
    """A question about a backend that is not there is refused as such."""
    with pytest.raises(errors.NoSuchBackend, match="no backend of that name"):
        await an_api(proxy).snapshot("nowhere")


LOAD_BALANCERS = {
    "no backend": ({"backend": "nowhere"}, "no backend of that name"),
    "static-rr": ({"backend": "fixed"}, "set `balance` to"),
    "map-based source": ({"backend": "hashed"}, "set `balance` to"),
    "not admin": ({"sockets": "{folder}/user.sock"}, "level admin"),
    "not allowed": ({"sockets": "/etc/some.sock"}, "--allow-sockets"),
    "a way around": ({"sockets": "/tmp/../etc/some.sock"}, "without `.`, `..`"),
    "no socket": ({"sockets": ""}, "sockets is missing"),
    "unknown field": ({"socket": "/run/x.sock"}, "'socket' is unknown"),
    "bad backend": ({"backend": "web;show info"}, "backend 'web;show info'"),
}


@pytest.mark.parametrize(
    ("changed", "message"), LOAD_BALANCERS.values(), ids=LOAD_BALANCERS
)
async def test_a_load_balancer_that_cannot_work(
    driver: HaproxyDriver, proxy: Haproxy, changed: dict[str, str], message: str
) -> None:
    """It is refused when it is validated and when it is created, with the reason."""
    lb_spec = an_identity(proxy) | {
        name: text.format(folder=proxy.folder) for name, text in changed.items()
    }
    before = await proxy.rows()

    for ask in (
        driver.validate_load_balancer(ValidateLoadBalancerRequest(lb_spec=lb_spec)),
        driver.create_load_balancer(
            CreateLoadBalancerRequest(record_id=RECORD, lb_spec=lb_spec)
        ),
    ):
        with pytest.raises(Fail) as caught:
            await ask

        assert message in caught.value.msg
    assert before == await proxy.rows()


@pytest.mark.parametrize("backend", ["web", "consistent"])
async def test_a_load_balancer_that_works(
    driver: HaproxyDriver, proxy: Haproxy, backend: str
) -> None:
    """It is let pass without a change to HAProxy; its identity is its lbSpec."""
    lb_spec = an_identity(proxy, backend=backend)
    before = await proxy.rows(backend) if backend == "web" else {}
    await driver.validate_load_balancer(ValidateLoadBalancerRequest(lb_spec=lb_spec))

    answer = await driver.create_load_balancer(
        CreateLoadBalancerRequest(record_id=RECORD, lb_spec=lb_spec)
    )

    key = parse_identity(lb_spec).lock_key
    assert Succ(lb_info=lb_spec, lock_key=key) == answer
    assert before == (await proxy.rows(backend) if backend == "web" else {})


@pytest.mark.parametrize("operation", ValidationOperation)
async def test_a_load_balancer_while_haproxy_is_down(
    driver: HaproxyDriver, proxy: Haproxy, operation: ValidationOperation
) -> None:
    """It is not refused for that: both may have been applied together. Creating tells."""
    lb_spec = an_identity(proxy)
    await proxy.stop()

    await driver.validate_load_balancer(
        ValidateLoadBalancerRequest(lb_spec=lb_spec, operation=operation)
    )

    with pytest.raises(Fail, match="cannot be reached"):
        await driver.create_load_balancer(
            CreateLoadBalancerRequest(record_id=RECORD, lb_spec=lb_spec)
        )


BAD_BACKENDS = [
    ("300.0.1.1:80", {}),
    ("127.0.0.1", {}),
    ("127.0.0.1:0", {}),
    ("127.0.0.1:70000", {}),
    ("localhost:80", {}),
    ("[fe80::1%eth0]:80", {}),
    ("::1:80", {}),
    ("0.0.0.0:80", {}),
    ("127.0.0.1:80 weight 256", {}),
    ("127.0.0.1:80", {"weight": "257"}),
    ("127.0.0.1:80", {"inter": "1s disabled"}),
]


@pytest.mark.parametrize(("address", "parameters"), BAD_BACKENDS)
async def test_nothing_is_sent_for_bad_input(
    driver: HaproxyDriver, proxy: Haproxy, address: str, parameters: dict[str, str]
) -> None:
    """A bad address or parameter is refused before HAProxy, even one that hangs."""
    request = an_ensure(an_identity(proxy), address, parameters=parameters)
    async with proxy.hung():
        with pytest.raises(Fail, match=r"backendAddr|parameters"):
            await driver.ensure_backend(request)

    assert [] == await proxy.ours()


async def test_parameters_that_cannot_be_changed(driver: HaproxyDriver) -> None:
    """An update that changes more than the weight is refused."""

    def update(**parameters: str) -> ValidateBackendRequest:
        return ValidateBackendRequest(
            backend_type=BackendType.POD,
            operation=ValidationOperation.UPDATE,
            old_parameters={"weight": "1", "inter": "1s"},
            parameters=parameters,
        )

    await driver.validate_backend(update(weight="9", inter="1s"))
    with pytest.raises(Fail, match="only weight can be changed"):
        await driver.validate_backend(update(weight="1", inter="3s"))


async def test_a_name_never_moves(driver: HaproxyDriver, proxy: Haproxy) -> None:
    """A record whose address has changed is refused, and its member stays."""
    lb_info = an_identity(proxy)
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))
    before = await proxy.rows()

    with pytest.raises(Fail, match="deregister it first"):
        await driver.ensure_backend(an_ensure(lb_info, "127.0.1.2:80"))

    assert before == await proxy.rows()


async def test_the_weight_is_changed_in_place(
    driver: HaproxyDriver, proxy: Haproxy
) -> None:
    """A new weight reaches a member that is there."""
    for weight in ("7", "30"):
        await driver.ensure_backend(
            an_ensure(
                an_identity(proxy),
                "127.0.1.1:80",
                parameters={"check": "false", "weight": weight},
            )
        )

    assert "30" == (await proxy.rows())[f"lbcf-{RECORD}"]["srv_uweight"]


@pytest.mark.parametrize(
    ("wanted", "known"),
    [({}, False), ({}, True), ({"check": "false", "maxconn": "5"}, True)],
    ids=["check, unknown", "check", "maxconn"],
)
async def test_fixed_options_do_not_change_silently(
    driver: HaproxyDriver, proxy: Haproxy, wanted: dict[str, str], known: bool
) -> None:
    """An ensure with other options than the member was added with fails."""
    lb_info = an_identity(proxy)
    answer = await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))
    injected = dict(answer.injected_info or {}) if known else {}
    request = an_ensure(
        lb_info, "127.0.1.1:80", parameters=wanted, injected_info=injected
    )

    with pytest.raises(Fail, match="while it is registered"):
        await driver.ensure_backend(request)
