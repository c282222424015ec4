"""What an author returns or raises, and what the caller is told."""

import json

from collections.abc import Sequence
from datetime import timedelta

import pytest
import structlog

from lbcf import sdk
from lbcf.core.model.operations import Operation
from lbcf.runtime.clock import SystemClock
from lbcf.sdk.replies import reply, served_operations
from lbcf.wire.driver import parse_request, render_answer
from tests.sdk.services import Json, PlainDriver


MEMBER = {"recordID": "r", "backendAddr": "192.0.2.1:80"}
EMPTY = ("", "0", "[]", "{}")
POD: sdk.WholeObject = {"metadata": {"namespace": "n", "name": "p"}}


class Saying(PlainDriver):
    """Serves everything; each method returns or raises what it was told."""

    def __init__(self, result: object) -> None:
        super().__init__()
        self.result = result

    async def _say(self, _request: object = None) -> object:
        """Return or raise it."""
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    healthz = _say  # type: ignore[assignment]
    ensure_backend = _say  # type: ignore[assignment]
    deregister_backend = _say  # type: ignore[assignment]
    drain_backend = _say  # type: ignore[assignment]
    generate_backend_addr = _say  # type: ignore[assignment]
    validate_backend = _say  # type: ignore[assignment]
    create_load_balancer = _say  # type: ignore[assignment]
    ensure_load_balancer = _say  # type: ignore[assignment]
    delete_load_balancer = _say  # type: ignore[assignment]
    judge_pod_deregister = _say  # type: ignore[assignment]
    list_backends = _say  # type: ignore[assignment]


async def told(operation: str, result: object) -> Json:
    """Return what the caller reads, without what is empty."""
    asked: Json = dict(MEMBER)
    if operation == "validateBackend":
        asked["backendType"] = "Pod"
    if operation == "generateBackendAddr":
        asked["nodeBackend"] = {"node": {}, "port": {"port": 1}}
    wire_name = Operation(operation)
    request = parse_request(wire_name, json.dumps(asked).encode())
    answer = await reply(Saying(result), wire_name, request, SystemClock())
    read = json.loads(render_answer(answer))
    # False is not empty, although Python holds it equal to 0.
    return {name: said for name, said in read.items() if str(said) not in EMPTY}


@pytest.mark.parametrize(
    ("operation", "result", "expected"),
    [
        pytest.param("ensureBackend", sdk.Succ(), {"status": "Succ"}, id="succ"),
        pytest.param(
            "ensureBackend",
            sdk.Succ(msg="m", injected_info={"a": "b"}, in_service=True),
            {
                "status": "Succ",
                "msg": "m",
                "injectedInfo": {"a": "b"},
                "inService": True,
            },
            id="succ with all it can have",
        ),
        pytest.param(
            "drainBackend",
            sdk.Running(active_connections=3),
            {"status": "Running", "activeConnections": 3},
            id="running",
        ),
        pytest.param(
            "ensureBackend",
            sdk.Running(retry_after=timedelta(milliseconds=1500)),
            {
                "status": "Running",
                "minRetryDelayInSeconds": 2,
                "minRetryDelayinSeconds": 2,
            },
            id="a delay is rounded up to seconds",
        ),
        pytest.param(
            "ensureBackend",
            sdk.Running(retry_after=timedelta(hours=2)),
            {
                "status": "Running",
                "minRetryDelayInSeconds": 3600,
                "minRetryDelayinSeconds": 3600,
            },
            id="a delay is an hour at most",
        ),
        pytest.param(
            "createLoadBalancer",
            sdk.Succ(lb_info={"id": "7"}, lock_key="pool-7"),
            {"status": "Succ", "lbInfo": {"id": "7"}, "lockKey": "pool-7"},
            id="create",
        ),
        pytest.param(
            "ensureLoadBalancer",
            sdk.Succ(lock_key="pool-7"),
            {"status": "Succ", "lockKey": "pool-7"},
            id="ensure",
        ),
        pytest.param(
            "ensureLoadBalancer",
            sdk.Succ(
                ingress=[
                    sdk.Ingress(ip="10.0.0.1", ports=[sdk.IngressPort(port=80)]),
                    sdk.Ingress(hostname="a.b"),
                ]
            ),
            {
                "status": "Succ",
                "ingress": [
                    {
                        "ip": "10.0.0.1",
                        "hostname": "",
                        "ports": [{"port": 80, "protocol": "TCP"}],
                    },
                    {"ip": "", "hostname": "a.b", "ports": []},
                ],
            },
            id="ingress",
        ),
        pytest.param(
            "generateBackendAddr",
            sdk.Succ(backend_addr="a:1"),
            {"status": "Succ", "backendAddr": "a:1"},
            id="generate",
        ),
        pytest.param("validateBackend", None, {"succ": True}, id="valid"),
        pytest.param("healthz", True, {"healthy": True}, id="healthy"),
        pytest.param("healthz", False, {"healthy": False}, id="unhealthy"),
        pytest.param(
            "judgePodDeregister",
            [POD],
            {"succ": True, "doNotDeregister": [POD]},
            id="judged",
        ),
        pytest.param(
            "listBackends",
            sdk.ListBackendsAnswer(epoch="e"),
            {"status": "Succ", "epoch": "e"},
            id="listed",
        ),
    ],
)
async def test_results_become_answers(
    operation: str, result: object, expected: Json
) -> None:
    """Each operation has its own form for what the author returns."""
    assert expected == await told(operation, result)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("ensureBackend", {"status": "Fail", "msg": "no"}),
        ("drainBackend", {"status": "Fail", "msg": "no"}),
        ("validateBackend", {"succ": False, "msg": "no"}),
        ("judgePodDeregister", {"succ": False, "msg": "no"}),
        ("healthz", {"healthy": False, "msg": "no"}),
        ("listBackends", {"status": "Fail", "msg": "no"}),
    ],
)
async def test_fail_is_told_in_the_operation_s_own_form(
    operation: str, expected: Json
) -> None:
    """Fail can be raised anywhere."""
    assert expected == await told(operation, sdk.Fail("no"))


async def test_fail_may_wish_for_a_delay() -> None:
    """A load balancer that is being updated says how long that takes."""
    answer = await told("ensureBackend", sdk.Fail("busy", timedelta(seconds=9)))

    assert ("Fail", 9) == (answer["status"], answer["minRetryDelayInSeconds"])


async def test_permanent_failure_is_asked_about_once_an_hour() -> None:
    """Unless the object changes, which is told at once."""
    answer = await told("ensureBackend", sdk.Permanent("no such pool"))

    assert ("Fail", "no such pool") == (answer["status"], answer["msg"])
    assert 3600 == answer["minRetryDelayInSeconds"]


async def test_retry_after_is_running() -> None:
    """Nothing is wrong: it only takes time."""
    answer = await told("ensureBackend", sdk.RetryAfter(timedelta(seconds=3), "soon"))

    assert ("Running", "soon") == (answer["status"], answer["msg"])
    assert 3 == answer["minRetryDelayInSeconds"]


@pytest.mark.parametrize(
    ("operation", "status"),
    [
        ("drainBackend", "Succ"),
        ("deregisterBackend", "Succ"),
        ("deleteLoadBalancer", "Succ"),
        ("ensureBackend", "Fail"),
        ("createLoadBalancer", "Fail"),
    ],
)
async def test_not_there_is_done_only_where_it_was_to_go(
    operation: str, status: str
) -> None:
    """What is gone is drained, deregistered and deleted, but not ensured."""
    answer = await told(operation, sdk.NotThere("gone"))

    assert {"status": status, "msg": "gone"} == answer


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        pytest.param("ensureBackend", ValueError("password=1"), id="an exception"),
        pytest.param("ensureBackend", NotImplementedError(), id="not implemented"),
        pytest.param("ensureBackend", None, id="nothing returned"),
        pytest.param("ensureBackend", sdk.Succ(backend_addr="a"), id="a foreign field"),
        pytest.param("listBackends", sdk.Succ(), id="another operation's result"),
        pytest.param("validateBackend", sdk.Running(), id="no verdict"),
        pytest.param(
            "ensureBackend", sdk.ListBackendsAnswer(), id="another operation's answer"
        ),
    ],
)
async def test_mistakes_of_the_author_are_logged_and_not_shown(
    operation: str, result: object
) -> None:
    """The caller is told where to look, the log has the rest."""
    with structlog.testing.capture_logs() as logged:
        answer = await told(operation, result)

    (event,) = logged
    assert "driver.broken" == event["event"]
    assert event["incident"] in str(answer["msg"])
    assert "password" not in str(answer)
    assert False is answer.get("succ", False)
    assert "Fail" == answer.get("status", "Fail")


async def test_long_messages_are_cut() -> None:
    """Callers keep no more than 256 characters."""
    answer = await told("ensureBackend", sdk.Succ(msg="x" * 1000))

    assert "x" * 256 == answer["msg"]


def test_only_overridden_operations_are_served() -> None:
    """A driver offers what its author wrote, and health."""
    assert {
        *("healthz", "ensureBackend", "deregisterBackend"),
        *("ensureBackends", "deregisterBackends"),
    } == served_operations(PlainDriver())


def test_inherited_operations_are_served() -> None:
    """What a driver has from its own base class counts as written."""

    class Further(Saying):
        """Adds nothing."""

    assert Operation.DRAIN_BACKEND in served_operations(Further(None))


def test_every_operation_has_a_method() -> None:
    """A new operation cannot be forgotten: an author finds its method."""

    class Everything(PlainDriver):
        """Overrides all that there is."""

    methods: Sequence[str] = [operation.name.lower() for operation in Operation]
    for name in methods:
        setattr(Everything, name, lambda _self, _request: None)

    assert set(Operation) == served_operations(Everything())
