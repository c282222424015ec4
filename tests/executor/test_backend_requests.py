"""What drivers are told of a member."""

from datetime import UTC, datetime

import attrs
import pytest

from lbcf.core.lifecycle.steps import CallDriver, Permission
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import DrainProgress
from lbcf.core.model.values import MemberKey
from lbcf.executor.backend_requests import backend_request
from lbcf.wire.driver import render_request
from tests.builders import a_driver, a_record, a_spec


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def told(
    operation: Operation,
    load_balancer: str = "front",
    member_key: MemberKey = MemberKey.RECORD,
) -> bytes:
    """Return what a driver is sent."""
    spec = attrs.evolve(a_spec(), load_balancer=load_balancer)
    step = CallDriver(
        operation,
        a_driver(member_key=member_key),
        Permission(a_record(spec=spec), 0.0),
        "10.0.0.1:80",
        drain=DrainProgress(NOW, NOW),
    )
    return render_request(backend_request(step, "1", NOW))


@pytest.mark.parametrize(
    ("load_balancer", "namespace"), [("front", "shop"), ("lbcf-front", "kube-system")]
)
def test_who_puts_something_in_is_told(load_balancer: str, namespace: str) -> None:
    """By the namespace of the load balancer, not of the record."""
    body = told(Operation.ENSURE_BACKEND, load_balancer)

    assert f'"namespace":"{namespace}"'.encode() in body


@pytest.mark.parametrize(
    "operation", [Operation.DRAIN_BACKEND, Operation.DEREGISTER_BACKEND]
)
def test_who_takes_something_out_is_not_asked(operation: Operation) -> None:
    """No rule on namespaces may keep in what is to go."""
    assert b'"namespace"' not in told(operation)


@pytest.mark.parametrize("key", MemberKey)
@pytest.mark.parametrize(
    "operation",
    [Operation.ENSURE_BACKEND, Operation.DRAIN_BACKEND, Operation.DEREGISTER_BACKEND],
)
def test_a_driver_is_told_by_what_members_are_told_apart(
    operation: Operation, key: MemberKey
) -> None:
    """One whose members go by address refuses records that lock none."""
    body = told(operation, member_key=key)

    assert f'"memberKey":"{key}"'.encode() in body
